// Elements of the page: tiles, tables and charts. Texts are set as text, never as HTML; the one exception is the SVG
// that the module draws from numbers.

/// Okabe and Ito's colours, as the module draws them.
export const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c"];
const SVG = "http://www.w3.org/2000/svg";

export const byId = (id) => document.getElementById(id);

export function element(name, properties = {}, ...children) {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
}

/// A number with so many decimals; a dash without one.
export function number(value, decimals = 1) {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    return value.toLocaleString("en", { maximumFractionDigits: decimals });
}

export const percent = (part, decimals = 1) =>
    part === null || part === undefined ? "–" : `${number(100 * part, decimals)} %`;

/// Replaces the tiles of a list: [name, value, remark].
export function tiles(list, entries) {
    list.replaceChildren(
        ...entries.map(([name, value, remark]) =>
            element("div", {}, element("dt", {}, name),
                element("dd", {}, value, ...(remark ? [" ", element("small", {}, remark)] : [])))),
    );
}

/// Replaces a table. A column is {name, text, long, cell(row)}; the first names the row. Unchanged tables stay.
export function table(target, columns, rows) {
    const body = rows.map((row) => columns.map((column) => column.cell(row)));
    const text = JSON.stringify(body.map((cells) => cells.map((cell) => cell instanceof Node ? cell.textContent : cell)));
    if (target.dataset.shown === text) return;
    target.dataset.shown = text;
    const style = (column) => (column.text ? `text ${column.long ? "long" : ""}`.trim() : "");
    const head = columns.map((column) => element("th", { scope: "col", className: style(column) }, column.name));
    const lines = body.map((cells) =>
        element("tr", {}, ...cells.map((cell, at) => at === 0
            ? element("th", { scope: "row", className: "text" }, cell)
            : element("td", { className: style(columns[at]) }, cell))));
    target.replaceChildren(
        element("thead", {}, element("tr", {}, ...head)),
        element("tbody", {}, ...lines),
    );
}

/// A chart in a figure, drawn by the module at the width that it has.
export class Chart {
    #module;
    #plot = element("div", { className: "plot" });
    #legend = element("ul", { className: "legend" });
    #drawing = null;
    #busy = false;
    #drawn = "";

    constructor(parent, module, title) {
        this.#module = module;
        this.title = title;
        parent.append(element("figure", {}, element("figcaption", {}, title, this.#legend), this.#plot));
        new ResizeObserver(() => this.#redraw()).observe(this.#plot);
    }

    /// Shows lines {name, values, stroke, colour} from position `from` on, `step` apart.
    show(drawing) {
        this.#drawing = drawing;
        const legend = drawing.lines.filter((line) => line.name);
        const keys = legend.map((line) => `${line.name}/${line.stroke}/${line.colour}`).join();
        if (this.#legend.dataset.keys !== keys) {
            this.#legend.dataset.keys = keys;
            this.#legend.replaceChildren(...legend.map((line) => element("li", {}, key(line), line.name)));
        }
        return this.#redraw();
    }

    async #redraw() {
        const width = Math.round(this.#plot.clientWidth);
        if (!this.#drawing || this.#busy || width < 160) return;
        const { lines, ...rest } = this.#drawing;
        const drawing = {
            ...rest, width: Math.min(width, 2000), height: 224,
            lines: lines.map(({ name, ...line }) => line),
        };
        const request = JSON.stringify(drawing);
        if (request === this.#drawn) return;
        this.#busy = true;
        try {
            const { text } = await this.#module.call("chart", request);
            this.#plot.innerHTML = text;
            const svg = this.#plot.firstElementChild;
            svg.setAttribute("role", "img");
            svg.setAttribute("aria-label", `${this.title}: ${summary(lines)}`);
            this.#drawn = request;
        } catch (error) {
            this.#plot.textContent = error.missing ? "Charts need the module, which this planner does not serve." : error.message;
            return;
        } finally {
            this.#busy = false;
        }
        // What came meanwhile.
        this.#redraw();
    }
}

/// Height of a histogram's bars, and width of all, in units of its picture.
const BARS_HEIGHT = 90;
const BARS_WIDTH = 320;
/// Edges that are written below the bars.
const EDGES_MAX = 8;

/// Replaces a list of histograms: [title, {count, p50, p90, p99, buckets}]. Unchanged lists stay.
export function histograms(parent, entries) {
    const text = JSON.stringify(entries);
    if (parent.dataset.shown === text) return;
    parent.dataset.shown = text;
    parent.replaceChildren(...entries.map(([title, values]) => {
        const [p50, p90, p99] = [values.p50, values.p90, values.p99].map((value) => number(value, value < 10 ? 1 : 0));
        const words = `median ${p50} ms, 90 % ${p90} ms, 99 % ${p99} ms, of ${number(values.count)}`;
        const svg = bars(values.buckets);
        svg.setAttribute("role", "img");
        svg.setAttribute("aria-label", `${title}: ${words}`);
        return element("figure", {}, element("figcaption", {}, title, element("small", {}, words)), svg);
    }));
}

/// Bars of equal width, one for each bucket, from the first that is not empty to the last.
function bars(buckets) {
    const svg = shape("svg", { viewBox: `0 0 ${BARS_WIDTH} ${BARS_HEIGHT + 18}` });
    const highest = Math.max(...buckets.map((bucket) => bucket.count));
    const width = BARS_WIDTH / Math.max(buckets.length, 6);
    const every = Math.ceil(buckets.length / EDGES_MAX);
    buckets.forEach((bucket, at) => {
        const height = Math.max(1, (BARS_HEIGHT * bucket.count) / highest);
        const bar = shape("rect", { x: at * width + 1, width: width - 2, y: BARS_HEIGHT - height, height });
        const edge = bucket.up_to === null ? `above ${number(bucket.above)} ms` : `${number(bucket.above)} to ${number(bucket.up_to)} ms`;
        const title = shape("title", {});
        title.textContent = `${edge}: ${number(bucket.count)}`;
        bar.append(title);
        svg.append(bar);
        if (at % every !== 0) return;
        const label = shape("text", { x: Math.min((at + 0.5) * width, BARS_WIDTH - 26), y: BARS_HEIGHT + 13 });
        label.textContent = bucket.up_to === null ? `> ${number(bucket.above, 0)}` : `≤ ${number(bucket.up_to, 1)}`;
        svg.append(label);
    });
    return svg;
}

function shape(name, attributes) {
    const made = document.createElementNS(SVG, name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    return made;
}

/// What a chart shows, in words.
function summary(lines) {
    const each = lines.filter((line) => line.name).map((line) => {
        const values = line.values.filter((value) => value !== null);
        if (values.length === 0) return `${line.name}: no values`;
        const last = values[values.length - 1];
        const lowest = number(Math.min(...values)), highest = number(Math.max(...values));
        return `${line.name}: last ${number(last)}, ${lowest} to ${highest}`;
    });
    return each.join("; ");
}

/// The key of a line in a legend.
function key(line) {
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("class", "key");
    svg.setAttribute("viewBox", "0 0 26 10");
    svg.setAttribute("aria-hidden", "true");
    const mark = document.createElementNS(SVG, line.stroke === "area" ? "rect" : "line");
    const colour = line.stroke === "ink" ? "currentColor" : COLOURS[(line.colour ?? 0) % COLOURS.length];
    const set = (values) => Object.entries(values).forEach(([name, value]) => mark.setAttribute(name, value));
    if (line.stroke === "area") set({ width: 26, height: 10, fill: colour });
    else set({ x1: 0, x2: 26, y1: 5, y2: 5, stroke: colour, "stroke-width": 3 });
    if (line.stroke === "dashed") set({ "stroke-dasharray": "7 4" });
    svg.append(mark);
    return svg;
}
