// The what-if view: a service file, what a person moves in it, and the plan of it at once.

import { Chart, byId, element, number, percent, table, tiles } from "./view.js";

/// Time in which the planner's service file is read.
const TIMEOUT_MS = 5000;
/// Points of the sweep over rates.
const SWEEP = 40;

/// Weights of each policy, with their defaults (those of the service file's documentation).
const WEIGHTS = {
    infadapter: { alpha: 1, beta: 0.05, gamma: 0.001 },
    ipa: { alpha: 2, beta: 1, delta: 0.000001 },
    sponge: { delta: 0.001 },
    infaas: { accuracyMin: 0, loadingWeightPerSecond: 0.01 },
    themis: { horizontalCores: 1 },
};

export class WhatIf {
    #module;
    #sweepModule;
    #chart;
    #onTime;
    #numbers = {};
    #weights = {};
    #choices = new Map();
    #busy = false;
    #again = false;
    #running = null;
    #lastSweep = "";
    planned = null;

    constructor(module, sweepModule) {
        this.#module = module;
        this.#sweepModule = sweepModule;
        const parent = byId("what-if-charts");
        this.#chart = new Chart(parent, sweepModule, "Cores by rate");
        this.#onTime = new Chart(parent, sweepModule, "Accuracy and predicted on-time share by rate");
        byId("changes").addEventListener("submit", (event) => event.preventDefault());
        byId("reset").addEventListener("click", () => this.load(this.file()));
        byId("copy").addEventListener("click", () => this.#copy());
        byId("from-live").addEventListener("click", () => this.#fromLive());
        byId("file").addEventListener("change", () => this.load(this.file()));
        byId("open").addEventListener("change", async ({ target }) => {
            const [file] = target.files;
            if (file) await this.load(await file.text());
        });
    }

    file() {
        return byId("file").value;
    }

    /// Begins with the service file of the planner, its profiles included; once for each service. Returns whether it has it.
    async fromPlanner(service, key) {
        if (this.#planner === service) return true;
        const path = `/v1/services/${encodeURIComponent(service)}/specification?inline=true`;
        const read = async () => {
            const response = await fetch(path, {
                headers: { authorization: `Bearer ${key}` }, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS),
            });
            return response.ok ? response.json() : null;
        };
        const spec = await read().catch(() => null);
        if (spec === null) return false;
        this.#planner = service;
        await this.load(asFile(spec, service));
        return true;
    }

    /// Takes in a service file and builds the controls from what the module reads in it.
    async load(text) {
        byId("file").value = text;
        this.#numbers = {};
        this.#weights = {};
        this.#choices = new Map();
        const rate = this.#rate ?? 80;
        try {
            const { text: answer } = await this.#module.call("whatIf", { service: text, rate_rps: rate });
            byId("module").hidden = true;
            this.#controls(JSON.parse(answer), rate);
        } catch (error) {
            this.#refused(error);
            return;
        }
        await this.plan();
    }

    #rate = null;
    /// Service whose file was taken from the planner.
    #planner = null;

    #controls(first, rate) {
        const field = (store, parent, key, label, unit, { value, min, max, step }) => {
            const exact = element("input", { type: "number", id: `in-${key}`, value, min, step: "any" });
            const range = element("input", { type: "range", value, min, max, step });
            range.setAttribute("aria-label", label);
            const given = { exact, initial: Number(value) };
            range.addEventListener("input", () => { exact.value = range.value; this.plan(); });
            exact.addEventListener("input", () => { range.value = exact.value; this.plan(); });
            store[key] = given;
            given.range = range;
            const name = element("label", { htmlFor: exact.id }, label);
            parent.append(element("div", { className: "field" }, name, exact, element("span", { className: "unit" }, unit), range));
        };
        const numbers = byId("numbers");
        numbers.replaceChildren();
        const round = (value) => Number(value.toPrecision(6));
        field(this.#numbers, numbers, "rate_rps", "Rate", "/s", { value: rate, min: 0, max: Math.max(500, 4 * rate), step: 1 });
        field(this.#numbers, numbers, "slo_ms", "SLO", "ms", { value: first.slo_ms, min: 1, max: round(first.slo_ms * 3), step: 1 });
        field(this.#numbers, numbers, "budget_cores", "Budget", "cores", {
            value: first.budget_cores, min: 1, max: Math.ceil(first.budget_cores * 3), step: 1,
        });
        const weights = byId("weights");
        weights.replaceChildren();
        for (const [key, value] of Object.entries(this.#readWeights())) {
            field(this.#weights, weights, key, key, "", { value, min: 0, max: value > 0 ? round(value * 10) : 1, step: "any" });
        }
        const choice = (variant) => {
            const input = (type, label, value) => {
                const made = element("input", { type, value: value ?? "" });
                made.setAttribute("aria-label", `${label} of ${variant.name}`);
                if (type === "number") Object.assign(made, { min: 0, step: "any", placeholder: "file" });
                made.addEventListener("input", () => this.plan());
                return made;
            };
            const on = input("checkbox", "Use");
            on.checked = true;
            const known = { on, min: input("number", "Minimum cores"), max: input("number", "Maximum cores") };
            this.#choices.set(variant.name, known);
            return { variant, ...known };
        };
        delete byId("choices").dataset.shown;
        table(byId("choices"), [
            { name: "Variant", cell: (row) => row.variant.name },
            { name: "Accuracy", cell: (row) => `${number(row.variant.accuracy_percent, 2)} %` },
            { name: "On", cell: (row) => row.on },
            { name: "Min", cell: (row) => row.min },
            { name: "Max", cell: (row) => row.max },
        ], first.variants.map(choice));
    }

    /// Weights as written in the file, or the policy's own. The module checks them.
    #readWeights() {
        const text = this.file();
        const file = parsed(text);
        if (file) {
            const policy = file.policy ?? "infadapter";
            const given = file[policy === "infadapter" ? "objective" : policy] ?? {};
            const weight = ([key, usual]) => [key, typeof given[key] === "number" ? given[key] : usual];
            return Object.fromEntries(Object.entries(WEIGHTS[policy] ?? {}).map(weight));
        }
        const policy = /^\s*"?policy"?\s*:\s*"?(\w+)/m.exec(text)?.[1] ?? "infadapter";
        const section = policy === "infadapter" ? "objective" : policy;
        const weights = { ...WEIGHTS[policy] };
        const block = new RegExp(`^"?${section}"?\\s*:([\\s\\S]*?)(?=^\\S|(?![\\s\\S]))`, "m").exec(text)?.[1] ?? "";
        for (const key of Object.keys(weights)) {
            const value = new RegExp(`\\b${key}"?\\s*:\\s*([-+.\\deE]+)`).exec(block)?.[1];
            if (value !== undefined) weights[key] = Number(value);
        }
        return weights;
    }

    /// What has been moved.
    #request() {
        const moved = (store) => Object.entries(store)
            .filter(([, { exact, initial }]) => exact.value !== "" && Number(exact.value) !== initial)
            .map(([key, { exact }]) => [key, Number(exact.value)]);
        const { rate_rps: rate, ...numbers } = this.#numbers;
        const off = [], cores = {};
        for (const [name, choice] of this.#choices) {
            if (!choice.on.checked) off.push(name);
            const range = {};
            if (choice.min.value !== "") range.min = Number(choice.min.value);
            if (choice.max.value !== "") range.max = Number(choice.max.value);
            if (Object.keys(range).length > 0) cores[name] = range;
        }
        this.#rate = Number(rate?.exact.value ?? 0);
        return {
            service: this.file(), rate_rps: this.#rate, actual: this.#running?.actual ?? {},
            changes: { ...Object.fromEntries(moved(numbers)), weights: Object.fromEntries(moved(this.#weights)), off, cores },
        };
    }

    /// Plans for what has been moved; the latest request wins.
    async plan() {
        // Without a file that was read.
        if (this.#choices.size === 0) return;
        if (this.#busy) {
            this.#again = true;
            return;
        }
        this.#busy = true;
        do {
            this.#again = false;
            const request = this.#request();
            try {
                const { text, ms } = await this.#module.call("whatIf", request);
                byId("what-if-error").textContent = "";
                this.planned = JSON.parse(text);
                this.#show(this.planned, ms);
            } catch (error) {
                this.#refused(error);
            }
            if (!this.#again) this.#sweep(request);
        } while (this.#again);
        this.#busy = false;
    }

    #refused(error) {
        if (error.missing) {
            byId("module").textContent = "This planner serves no module with solver and replay. A planner has it that is "
                + "compiled with WEIR_CONSOLE, the folder that “cargo xtask console” prints.";
            byId("what-if-content").hidden = true;
            return;
        }
        byId("what-if-error").textContent = error.message;
    }

    #show(planned, ms) {
        const running = this.#running;
        const beside = (of) => (running ? `running ${of(running)}` : "");
        tiles(byId("what-if-tiles"), [
            ["Cores", number(planned.cores, 2), [`of ${number(planned.budget_cores, 2)}`, beside((it) => number(it.cores, 2))].filter(Boolean).join(", ")],
            ["Cost", number(planned.cost, 2), "cores × price"],
            ["Accuracy", `${number(planned.accuracy_percent, 2)} %`, beside((it) => `${number(it.accuracy, 2)} %`)],
            ["On time, predicted", `${number(planned.on_time_percent, 2)} %`, ""],
            ["Demand", number(planned.demand_rps, 1), "/s, with headroom"],
            ["Result", planned.outcome, `in ${number(ms, 1)} ms`],
        ]);
        byId("what-if-why").textContent = planned.why;
        const stages = new Set(planned.variants.map((variant) => variant.stage)).size > 1;
        const columns = [
            { name: "Variant", cell: (one) => one.name },
            ...(stages ? [{ name: "Stage", text: true, cell: (one) => one.stage }] : []),
            { name: "Cores", cell: (one) => number(one.cores, 2) },
            ...(running ? [{ name: "Running", cell: (one) => difference(one.cores, running.actual[one.name]?.cores) }] : []),
            { name: "Replicas", cell: (one) => number(one.replicas) },
            { name: "Share", cell: (one) => percent(one.share) },
            { name: "Slots", cell: (one) => number(one.slots) },
            { name: "Batch", cell: (one) => number(one.batch) },
            { name: "Sustains, /s", cell: (one) => number(one.capacity_rps) },
            { name: "Service time, ms", cell: (one) => number(one.service_ms, 0) },
            { name: "On time", cell: (one) => (one.on_time_percent === null ? "–" : `${number(one.on_time_percent)} %`) },
        ];
        table(byId("planned"), columns, planned.variants);
    }

    /// Plans for rates up to twice the present one, beside the page's own work.
    async #sweep(request) {
        const { rate_rps: rate, ...rest } = request;
        const text = JSON.stringify([rest, Math.ceil(rate / 50)]);
        if (text === this.#lastSweep || byId("what-if").hidden) return;
        this.#lastSweep = text;
        const top = Math.max(50, Math.ceil(rate / 50) * 100);
        const step = top / SWEEP;
        const cores = [], accuracy = [], onTime = [];
        for (let at = 1; at <= SWEEP; at += 1) {
            try {
                const answer = await this.#sweepModule.call("whatIf", { ...rest, rate_rps: at * step });
                const planned = JSON.parse(answer.text);
                cores.push(planned.cores);
                accuracy.push(planned.accuracy_percent);
                onTime.push(planned.on_time_percent);
            } catch {
                return;
            }
            if (text !== this.#lastSweep) return;
        }
        const across = { from: step, step, across: "rps" };
        this.#chart.show({ ...across, lines: [
            { name: "cores planned", stroke: "ink", values: cores },
            { name: "budget", stroke: "dashed", colour: 6, values: cores.map(() => this.planned?.budget_cores ?? null) },
        ] });
        this.#onTime.show({ ...across, unit: "percent", ceiling: 100, lines: [
            { name: "accuracy", stroke: "solid", colour: 0, values: accuracy },
            { name: "on time, predicted", stroke: "solid", colour: 5, values: onTime },
        ] });
    }

    async #copy() {
        if (!this.planned) return;
        const copied = byId("copied");
        try {
            await navigator.clipboard.writeText(this.planned.service);
            copied.textContent = "Copied.";
        } catch {
            // Without a secure context there is no clipboard.
            byId("file").value = this.planned.service;
            byId("file").closest("details").open = true;
            byId("file").select();
            copied.textContent = "The browser refuses; the service file has it, selected.";
        }
    }

    /// The running plan, to compare with.
    compare(status) {
        const { latest } = status;
        if (!latest) return;
        const variants = Object.entries(latest.variants);
        const known = (name) => this.#choices.has(name);
        byId("from-live").disabled = !variants.every(([name]) => known(name));
        this.live = {
            rate: latest.measured_rps,
            cores: variants.reduce((sum, [, one]) => sum + one.cores_actual, 0),
            accuracy: latest.routed_accuracy_percent,
            actual: Object.fromEntries(variants.map(([name, one]) => [name, { cores: one.cores_actual, replicas: one.replicas_ready }])),
        };
    }

    #fromLive() {
        this.#running = this.live;
        const { rate_rps: rate } = this.#numbers;
        if (rate && this.live.rate !== null) {
            rate.exact.value = Number(this.live.rate.toFixed(1));
            rate.range.value = rate.exact.value;
        }
        this.plan();
    }
}

/// A specification as a service file of this page: without the model file, which only the planner reads, and the pods of
/// a resource. One key a line.
function asFile(spec, service) {
    const file = { ...spec };
    if (file.proxies?.pods) delete file.proxies;
    const demand = { ...file.demand };
    delete demand.model;
    if (demand.forecaster === "lstm") delete demand.forecaster;
    const entries = Object.entries({ service, ...file, demand });
    const lines = entries.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value, null, 2)}`);
    return `{\n${lines.join(",\n")}\n}\n`;
}

/// A service file that is JSON; undefined if it is other YAML.
function parsed(text) {
    try {
        return JSON.parse(text);
    } catch {
        return undefined;
    }
}

function difference(planned, running) {
    if (running === undefined) return "–";
    const change = planned - running;
    if (change === 0) return number(running, 2);
    const sign = change > 0 ? "+" : "−";
    return element("span", { className: change > 0 ? "rise" : "fall" }, `${number(running, 2)} (${sign}${number(Math.abs(change), 2)})`);
}
