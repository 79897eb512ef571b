// What the keyboard reaches, in which order.

const FOCUSABLE = "a[href], button, input, select, textarea, summary, [tabindex]";

/// What must be reached, in the order of the page.
export const focusable = (page) => page.evaluate((selector) => {
    const all = [...document.querySelectorAll(selector)];
    const reached = all.filter((it) => it.checkVisibility() && !it.disabled && it.tabIndex >= 0);
    return reached.map((it, at) => { it.dataset.order = String(at); return it.outerHTML.slice(0, 120); });
}, FOCUSABLE);

/// What the tab key reaches from the first element on, by its place in that order, and what of it has no outline.
export async function tabbed(page, count) {
    await page.focus("[data-order='0']");
    await page.keyboard.press("Tab");
    const order = [], faint = [];
    for (let at = 0; at < count; at += 1) {
        await page.keyboard.press(at === 0 ? "Shift+Tab" : "Tab");
        const [place, outlined] = await page.evaluate(() => {
            const it = document.activeElement;
            const { outlineStyle, outlineWidth } = getComputedStyle(it);
            return [it.dataset.order, outlineStyle !== "none" && parseFloat(outlineWidth) > 0];
        });
        order.push(Number(place));
        if (!outlined) faint.push(Number(place));
    }
    return { order, faint };
}
