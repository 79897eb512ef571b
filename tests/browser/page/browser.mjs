// Opens pages in headless Chromium, and notes what must not happen in them: messages of errors and warnings, failures
// of scripts, requests to another host. Nothing here knows the console.

import { deepStrictEqual } from "node:assert";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

/// What `tests/demo/tests/console.rs` started, and where.
export const setup = JSON.parse(readFileSync(process.env.WEIR_PAGE_SETUP, "utf8"));
/// Longest wait for a condition, in ms; it only bounds a failing test.
export const WAIT_MS = 30000;
export const WIDE = { width: 1400, height: 900 };
export const NARROW = { width: 360, height: 740 };

const packages = createRequire(setup.packages);
const { chromium } = packages("playwright-core");
const axe = readFileSync(packages.resolve("axe-core/axe.min.js"), "utf8");

/// Starts Chromium. It opens this machine's own pages alone, so it needs no sandbox, which root and some systems
/// refuse; no name of another host is resolved.
export const launch = () => chromium.launch({
    executablePath: setup.chromium, chromiumSandbox: false,
    args: ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
});

/// Opens a page of `base` in a session of its own. `problems` are noted until it is closed.
export async function open(browser, base, { colorScheme = "light", viewport = WIDE, path = "/" } = {}) {
    const context = await browser.newContext({
        colorScheme, viewport, reducedMotion: "reduce", permissions: ["clipboard-read", "clipboard-write"],
    });
    context.setDefaultTimeout(WAIT_MS);
    const page = await context.newPage();
    const problems = [];
    page.on("console", (message) => {
        if (["error", "warning"].includes(message.type())) problems.push(`${message.type()}: ${message.text()}`);
    });
    page.on("pageerror", (error) => problems.push(`failure: ${error.stack ?? error}`));
    page.on("request", (request) => {
        const url = new URL(request.url());
        if (url.origin !== base && url.protocol !== "data:") problems.push(`request to ${url.href}`);
    });
    await page.goto(base + path);
    return { page, problems };
}

/// Closes the page of a test in which nothing was to go wrong.
export async function close({ page, problems }) {
    await page.context().close();
    deepStrictEqual(problems, []);
}

/// Text of an element, its white space as shown.
export const textOf = async (page, selector) => (await page.locator(selector).innerText()).trim();

/// Waits until a function of the page returns something true.
export const until = (page, condition, argument) => page.waitForFunction(condition, argument, { polling: 50 });

/// What of the page a person with a screen reader, a keyboard or a narrow screen meets: axe's serious and critical
/// findings, and content wider than the screen.
export async function findings(page) {
    // Evaluated by the browser's protocol: the page's own policy allows no such script.
    await page.evaluate(axe);
    const { violations } = await page.evaluate("axe.run()");
    const found = violations.filter((one) => ["serious", "critical"].includes(one.impact));
    const wider = await page.evaluate(() => {
        const { scrollWidth, clientWidth } = document.documentElement;
        return scrollWidth - clientWidth;
    });
    return [
        ...found.map((one) => `${one.impact} ${one.id}: ${one.nodes.map((node) => node.target).join(" | ")}`),
        ...(wider > 0 ? [`${wider} px wider than the screen`] : []),
    ];
}

/// Saves a picture of the whole page.
export async function picture(page, name) {
    mkdirSync(setup.pictures, { recursive: true });
    await page.screenshot({ path: join(setup.pictures, `${name}.png`), fullPage: true });
}
