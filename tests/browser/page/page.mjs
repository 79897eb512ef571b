// Tests of the console's page in headless Chromium, before a running demo: node page.mjs. `tests/demo/tests/console.rs`
// starts both, and names them in the file WEIR_PAGE_SETUP. Timings are printed, and are no condition of a test.

import { deepStrictEqual, ok, strictEqual } from "node:assert";
import { readFileSync } from "node:fs";
import { basename, dirname } from "node:path";
import { after, before, test } from "node:test";

import { NARROW, WIDE, close, findings, launch, open, picture, setup, textOf, until } from "./browser.mjs";
import { focusable, tabbed } from "./keyboard.mjs";
import { compare, connect, drawn, state } from "./live.mjs";
import { Line, files, solve } from "./planner.mjs";
import { priced, problem, specifications, written } from "./specifications.mjs";
import { begin, move, paste, planned } from "./whatif.mjs";

/// Most bytes of the module as sent.
const MODULE_BYTES_MAX = 2 * 1024 * 1024;

let browser;
before(async () => {
    browser = await launch();
    console.log(`Chromium ${browser.version()}, node ${process.version}`);
});
after(() => browser.close());

/// Opens a view, and waits for its first content.
async function view(page, name) {
    await page.click(`nav a[href="#${name}"]`);
    await page.waitForSelector(`#${name}`);
    if (name === "live") await drawn(page);
    if (name === "what-if") {
        await until(page, () => document.querySelectorAll("#what-if-charts .plot svg[role=img]").length === 2);
    }
}

/// Replays, and waits for the results.
async function replay(page, button) {
    await page.click(button);
    await until(page, () => document.querySelectorAll("#replay-charts .plot svg[role=img]").length === 3
        && /played in/.test(document.getElementById("replay-status").textContent));
    strictEqual(await textOf(page, "#replay-error"), "");
    return textOf(page, "#replay-status");
}

test("live numbers are those of the API", async () => {
    const opened = await open(browser, setup.planner);
    await connect(opened.page);
    await drawn(opened.page);
    await compare(opened.page, 5, 8);
    await close(opened);
});

test("the what-if plans as POST /v1/solve", async () => {
    ok(specifications.length >= 20);
    const opened = await open(browser, setup.planner, { path: "/#what-if" });
    const { page } = opened;
    await page.waitForSelector("#planned tbody tr");
    const plans = new Set();
    for (const specification of specifications) {
        await begin(page, specification);
        await move(page, specification);
        const { outcome, plan } = await solve(problem(specification));
        // Cores alone: the shares of a planner are quotas, by what the variants carry in time.
        const expected = plan.variants.map((one) => [one.name, one.cores]);
        const shown = await planned(page, 1.1 * specification.rate_rps);
        deepStrictEqual(shown, { outcome, plan: expected }, JSON.stringify({ specification, shown, expected }));
        plans.add(JSON.stringify(expected));
    }
    ok(plans.size >= 20, `${plans.size} different plans`);
    console.log(`${specifications.length} specifications are planned as by POST /v1/solve, ${plans.size} plans differ`);
    await close(opened);
});

for (const colorScheme of ["light", "dark"]) {
    for (const [width, viewport] of [["wide", WIDE], ["narrow", NARROW]]) {
        test(`${colorScheme} and ${width}: every view is accessible, and as wide as the screen`, async () => {
            const opened = await open(browser, setup.planner, { colorScheme, viewport });
            const { page } = opened;
            await connect(page);
            for (const name of ["live", "what-if", "replay"]) {
                await view(page, name);
                if (name === "replay") await replay(page, "#run");
                await picture(page, `${colorScheme}-${width}-${name}`);
                deepStrictEqual(await findings(page), [], name);
            }
            await close(opened);
        });
    }
}

test("the keyboard reaches everything, in the order of the page, and each focus is seen", async () => {
    const opened = await open(browser, setup.planner);
    const { page } = opened;
    for (const name of ["what-if", "replay", "live"]) {
        // The status enables a control of the what-if, at any moment.
        if (name === "live") await connect(page);
        await view(page, name);
        if (name === "what-if") await paste(page, await page.inputValue("#file"));
        const all = await focusable(page);
        const { order, faint } = await tabbed(page, all.length);
        deepStrictEqual(order, all.map((_, at) => at), `${name}: ${all.join("\n")}`);
        deepStrictEqual(faint.map((at) => all[at]), [], name);
    }
    await page.focus('nav a[href="#what-if"]');
    await page.keyboard.press("Enter");
    await page.waitForSelector("#what-if");
    await close(opened);
});

test("a cut connection is shown, and is made again", async () => {
    const line = new Line();
    const opened = await open(browser, await line.open());
    const { page, problems } = opened;
    await connect(page);
    await drawn(page);
    await line.cut();
    await state(page, "lost");
    const cut = await textOf(page, "#connection");
    ok(/^No connection since .+ values are old\.$/.test(cut), cut);
    ok(await page.isVisible("#live-tiles"));
    const before = await textOf(page, "#live-tiles");
    await line.open();
    await state(page, "live");
    await until(page, (before) => document.getElementById("live-tiles").innerText.trim() !== before, before);
    // The browser itself notes each attempt.
    const others = problems.splice(0).filter((problem) => !/net::ERR_/.test(problem));
    deepStrictEqual(others, []);
    await close(opened);
    await line.cut();
});

test("a wrong key is refused in words", async () => {
    const opened = await open(browser, setup.planner);
    const { page, problems } = opened;
    await connect(page, "wrong");
    await state(page, "lost");
    ok((await textOf(page, "#connection")).startsWith("The planner refuses: "));
    await connect(page);
    await state(page, "live");
    // The browser itself notes each refusal.
    const others = problems.splice(0).filter((problem) => !/status of 401/.test(problem));
    deepStrictEqual(others, []);
    await close(opened);
});

test("the book's page replays the demo's service without a planner", async () => {
    const { base, end } = await files(dirname(setup.book));
    const opened = await open(browser, base, { path: `/${basename(setup.book)}` });
    const { page } = opened;
    await page.waitForSelector("#planned tbody tr");
    for (const part of await page.locator("[data-planner]").all()) ok(await part.isHidden());
    await replay(page, "#play");
    const heads = () => page.locator("#replayed thead th").allInnerTexts();
    ok(!(await heads()).includes("Mean cost"));
    await picture(page, "book");
    deepStrictEqual(await findings(page), []);
    await close(opened);
    end();
});

test("a replay has the mean cost where variants have prices", async () => {
    const { base, end } = await files(dirname(setup.book));
    const opened = await open(browser, base, { path: `/${basename(setup.book)}` });
    const { page } = opened;
    await page.waitForSelector("#planned tbody tr");
    await paste(page, written(priced));
    await until(page, () => document.querySelectorAll("#planned tbody tr").length === 2);
    await replay(page, "#play");
    const cells = await page.locator("#replayed tr").evaluateAll((rows) =>
        rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
    const at = cells[0].indexOf("Mean cost");
    strictEqual(cells[0][at - 1], "Core-seconds");
    for (const row of cells.slice(1)) ok(Number(row[at]) > 0, row[at]);
    await picture(page, "cost");
    deepStrictEqual(await findings(page), []);
    await close(opened);
    end();
});

test("the module is small; paint, plan and replay are timed", async () => {
    const opened = await open(browser, setup.planner);
    const { page } = opened;
    const paint = await page.evaluate(() => new Promise((resolve) => new PerformanceObserver((list) => {
        const first = list.getEntriesByName("first-contentful-paint")[0];
        if (first) resolve(first.startTime);
    }).observe({ type: "paint", buffered: true })));
    const module = page.waitForResponse((response) => response.url().endsWith(".wasm"));
    await view(page, "what-if");
    const bytes = Number(await (await module).headerValue("content-length"));
    ok(bytes > 0 && bytes <= MODULE_BYTES_MAX, `${bytes} bytes`);
    await paste(page, readFileSync(setup.three_stages, "utf8"));
    await until(page, () => document.querySelectorAll("#planned tbody tr").length === 15);
    await page.fill("#in-rate_rps", "21");
    await planned(page, 1.1 * 21);
    const result = await page.locator("#what-if-tiles div", { hasText: "Result" }).innerText();
    await page.reload();
    await view(page, "what-if");
    const replayed = await replay(page, "#play");
    console.log(`module: ${bytes} bytes as sent; first paint ${paint.toFixed(0)} ms; `
        + `3 stages of 5 variants: ${result.split("\n").pop()}; ${replayed}`);
    await close(opened);
});
