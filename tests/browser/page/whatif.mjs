// The what-if as a person uses it: a file is pasted, controls are moved, and what is then shown is read.

import { textOf, until } from "./browser.mjs";
import { written } from "./specifications.mjs";

/// Pastes a service file.
export async function paste(page, text) {
    const details = page.locator("details", { has: page.locator("#file") });
    if (!(await details.evaluate((it) => it.open))) await details.locator("summary").click();
    await page.fill("#file", text);
    await page.locator("#file").blur();
}

/// Pastes the file of a specification, or undoes what was moved if it is there, and waits for the new controls.
export async function begin(page, { file }) {
    const text = written(file);
    await page.locator("#in-rate_rps").evaluate((it) => { it.dataset.old = "yes"; });
    if (await page.inputValue("#file") === text) await page.click("#reset");
    else await paste(page, text);
    const values = { budget_cores: file.budget.cores, slo_ms: Number.parseFloat(file.slo), ...file.objective };
    const ready = ([names, values]) => {
        const variants = [...document.querySelectorAll("#choices tbody th")].map((cell) => cell.textContent);
        return !document.getElementById("in-rate_rps").dataset.old && variants.join() === names.join()
            && Object.entries(values)
                .every(([key, value]) => Number(document.getElementById(`in-${key}`).value) === value);
    };
    try {
        await until(page, ready, [file.variants.map((one) => one.name), values]);
    } catch (error) {
        const inputs = page.locator("#changes input[type=number]");
        const shown = await inputs.evaluateAll((all) => all.map((it) => `${it.id} ${it.value}`));
        const why = await textOf(page, "#what-if-error");
        throw new Error(`${text} is not shown, but ${shown}; ${why}`, { cause: error });
    }
}

/// Moves the controls; the rate last, so that the plan for it has all moves.
export async function move(page, { rate_rps, moved }) {
    const { slo_ms, budget_cores, weights = {}, off = [], cores = {} } = moved;
    const named = (label, name) => page.getByLabel(`${label} of ${name}`, { exact: true });
    for (const name of off) await named("Use", name).uncheck();
    for (const [name, { min, max }] of Object.entries(cores)) {
        if (min !== undefined) await named("Minimum cores", name).fill(String(min));
        if (max !== undefined) await named("Maximum cores", name).fill(String(max));
    }
    for (const [key, value] of Object.entries({ slo_ms, budget_cores, ...weights, rate_rps })) {
        if (value !== undefined) await page.fill(`#in-${key}`, String(value));
    }
}

/// Waits for the plan of a demand. Returns its result, and the cores of each variant.
export async function planned(page, demand_rps) {
    const shown = ([demand_rps]) => {
        const tile = (name) => [...document.querySelectorAll("#what-if-tiles dt")]
            .find((it) => it.textContent === name)?.nextElementSibling.firstChild.textContent.trim();
        const number = (text) => Number.parseFloat(text?.replaceAll(",", ""));
        const error = document.getElementById("what-if-error").textContent;
        if (error !== "" || !(Math.abs(number(tile("Demand")) - demand_rps) <= 0.0501)) return false;
        const heads = [...document.querySelectorAll("#planned thead th")].map((cell) => cell.textContent);
        const rows = [...document.querySelectorAll("#planned tbody tr")]
            .map((row) => [...row.cells].map((it) => it.textContent));
        const cell = (row, name) => number(row[heads.indexOf(name)]);
        return { outcome: tile("Result"), plan: rows.map((row) => [row[0], cell(row, "Cores")]) };
    };
    try {
        const found = await until(page, shown, [demand_rps]);
        return await found.jsonValue();
    } catch (error) {
        throw new Error(`no plan for ${demand_rps}: ${await textOf(page, "#what-if")}`, { cause: error });
    }
}
