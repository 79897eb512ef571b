// The live view as a person uses it: connected by the form, read at one moment, compared with the planner's status.

import { ok } from "node:assert";

import { WAIT_MS, setup, until } from "./browser.mjs";
import { status } from "./planner.mjs";

/// Connects by the form, and waits for the first status.
export async function connect(page, key = setup.key) {
    await page.fill("#service", setup.service);
    await page.fill("#key", key);
    await page.click("#connect button");
}

export const state = (page, state) => page.waitForSelector(`#connection[data-state="${state}"]`);

/// Waits for a status and the charts of it.
export async function drawn(page) {
    await state(page, "live");
    await until(page, () => {
        const plots = [...document.querySelectorAll("#live-charts .plot")];
        return plots.length > 0 && plots.every((plot) => plot.querySelector("svg[role=img]"));
    });
}

/// What is shown, read at one moment.
const shown = () => {
    const table = (id) => {
        const heads = [...document.querySelectorAll(`#${id} thead th`)].map((cell) => cell.textContent);
        return [...document.querySelectorAll(`#${id} tbody tr`)].map((row) =>
            Object.fromEntries([...row.cells].map((cell, at) => [heads[at], cell.textContent])));
    };
    const tiles = {};
    for (const name of document.querySelectorAll("#live-tiles dt")) {
        tiles[name.textContent] = name.nextElementSibling.textContent.trim();
    }
    return {
        tiles, text: document.getElementById("live-tiles").textContent,
        connection: document.getElementById("connection").textContent,
        why: document.getElementById("live-why").textContent,
        variants: table("live-variants"), proxies: table("live-proxies"),
    };
};

/// Numbers in a text; a dash is none.
const numbers = (text) => (text.match(/–|\d[\d,]*(\.\d+)?/g) ?? [])
    .map((word) => (word === "–" ? null : Number(word.replaceAll(",", ""))));

/// Whether a text shows these numbers, rounded to so many decimals.
function shows(text, values, decimals) {
    const got = numbers(text);
    return got.length >= values.length && values.every((value, at) => value === null || value === undefined
        ? got[at] === null
        : got[at] !== null && Math.abs(got[at] - value) <= 0.5 * 10 ** -decimals + 1e-9);
}

/// Texts that do not show what the status has, by name.
function differences(seen, all, cycle) {
    const sum = (key) => Object.values(cycle.variants).reduce((sum, one) => sum + one[key], 0);
    const { tiles } = seen;
    const different = [];
    const check = (name, text, values, decimals) => {
        if (text === undefined || !shows(text, values, decimals)) different.push(`${name}: ${text}, not ${values}`);
    };
    check("Requests", tiles.Requests, [cycle.measured_rps], 1);
    check("Demand", tiles.Demand, [cycle.demand_rps], 1);
    check("Accuracy", tiles["Accuracy as routed"], [cycle.routed_accuracy_percent], 2);
    check("Cores", tiles.Cores, [sum("cores_actual"), sum("cores_target"), all.budget_cores], 1);
    check("Objective", tiles.Objective, [cycle.objective], 4);
    check("SLO", tiles.SLO, [all.slo_ms], 0);
    check("Cycle", tiles.Cycle, [cycle.cycle_ms], 1);
    if (seen.why !== cycle.why) different.push(`why: ${seen.why}`);
    const shares = new Map(all.plan.variants.map((one) => [one.name, one.service_ms]));
    for (const [name, one] of Object.entries(cycle.variants)) {
        const row = seen.variants.find((row) => row.Variant === name) ?? {};
        check(`cores of ${name}`, row.Cores, [one.cores_actual, one.cores_target], 2);
        check(`replicas of ${name}`, row.Replicas, [one.replicas_ready, one.replicas_target], 0);
        check(`quota of ${name}`, row.Quota, [100 * one.share], 1);
        check(`routed of ${name}`, row.Routed, [one.routed === null ? null : 100 * one.routed.share], 1);
        check(`slots of ${name}`, row.Slots, [one.slots], 0);
        check(`capacity of ${name}`, row["Sustains, /s"], [one.capacity_rps], 1);
        check(`service time of ${name}`, row["Predicted, ms"], [shares.get(name)], 0);
    }
    for (const [name, proxy] of Object.entries(all.proxies)) {
        const row = seen.proxies.find((row) => row.Proxy === name) ?? {};
        check(`workers of ${name}`, row.Workers, [proxy.workers], 0);
    }
    return different;
}

/// Compares the page with the planner until `count` different cycles under load were equal in everything. The planner
/// may be some cycles ahead of the page; while the plan changes, the page is read again.
export async function compare(page, count, cycles) {
    const equal = new Set();
    const end = performance.now() + WAIT_MS;
    let read = "", different = [];
    while (equal.size < count) {
        ok(performance.now() < end, `${equal.size} cycles are equal; the latest differs: ${different.join("; ")}`);
        await until(page, (read) => document.getElementById("live-tiles").textContent !== read, read);
        const seen = await page.evaluate(shown);
        read = seen.text;
        const all = await status(cycles);
        if (!seen.connection.includes(`revision ${all.revision}.`)) continue;
        const found = all.cycles.map((cycle) => [cycle, differences(seen, all, cycle)]);
        const [cycle, differing] = found.sort((one, other) => one[1].length - other[1].length)[0];
        different = differing;
        if (different.length === 0 && cycle.measured_rps > 0) equal.add(cycle.at_ms);
    }
}
