// The live view: the status of one service, polled each second. Answers are merged into a bounded history.

import { Chart, byId, number, percent, table, tiles } from "./view.js";

/// Cycles kept and shown, and cycles of each further poll.
const CYCLES_MAX = 600;
const CYCLES_POLLED = 5;
const POLL_MS = 1000;
const TIMEOUT_MS = 5000;
const RETRY_MAX_MS = 5000;
/// Plans listed.
const PLANS_MAX = 50;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/// A request that the planner refused.
class Refusal extends Error {
    constructor(status, message) {
        super(message);
        this.status = status;
    }
}

async function get(path, key) {
    const response = await fetch(path, {
        headers: { authorization: `Bearer ${key}` }, cache: "no-store", signal: AbortSignal.timeout(TIMEOUT_MS),
    });
    if (!response.ok) {
        const { detail } = await response.json().catch(() => ({}));
        throw new Refusal(response.status, detail ?? `status ${response.status}`);
    }
    return response.json();
}

/// Names of the services that this key may see; none if the planner does not list them.
export async function services(key) {
    try {
        const list = await get("/v1/services", key);
        const all = Array.isArray(list) ? list : list.services ?? [];
        return all.map((one) => one.name ?? one.service ?? one).filter((name) => typeof name === "string");
    } catch {
        return [];
    }
}

/// Polls a service until another connection begins.
export class Live {
    #connection = 0;
    #cycles = [];
    #charts;
    /// The latest status, for the what-if.
    status = null;

    constructor(module, onState, onStatus) {
        this.onState = onState;
        this.onStatus = onStatus;
        const parent = byId("live-charts");
        const chart = (title) => new Chart(parent, module, title);
        this.#charts = {
            demand: chart("Demand and forecast"),
            cores: chart("Cores: target and actual"),
            perVariant: chart("Actual cores by variant"),
            shares: chart("Share of the traffic by variant"),
            ratio: chart("Measured service time, relative to the predicted one"),
            accuracy: chart("Accuracy of the requests as routed"),
            cycle: chart("Time of a cycle"),
        };
    }

    async connect(service, key) {
        const connection = ++this.#connection;
        const current = () => connection === this.#connection;
        this.#cycles = [];
        this.status = null;
        byId("live-content").hidden = true;
        byId("live-empty").hidden = false;
        let failures = 0;
        let lost = null;
        while (current()) {
            const cycles = this.#cycles.length === 0 || failures > 0 ? CYCLES_MAX : CYCLES_POLLED;
            try {
                const path = `/v1/services/${encodeURIComponent(service)}?cycles=${cycles}`;
                const status = await get(path, key);
                if (!current()) return;
                failures = 0;
                lost = null;
                this.#merge(status.cycles ?? []);
                this.status = status;
                this.onState("live", `Connected to ${service}, revision ${status.revision ?? "none"}.`);
                this.#show();
                this.onStatus(status);
            } catch (error) {
                if (!current()) return;
                failures += 1;
                lost ??= new Date();
                const since = lost.toLocaleTimeString();
                if (error instanceof Refusal && error.status !== 503) {
                    this.onState("lost", `The planner refuses: ${error.message}.`);
                } else {
                    const why = error instanceof Refusal ? `: ${error.message}` : "";
                    this.onState("lost", `No connection since ${since}${why}. The page tries again; values are old.`);
                }
            }
            await pause(Math.min(POLL_MS * 2 ** Math.min(failures, 3), failures ? RETRY_MAX_MS : POLL_MS));
        }
    }

    #merge(cycles) {
        const last = this.#cycles.at(-1)?.at_ms ?? -Infinity;
        this.#cycles.push(...cycles.filter((cycle) => cycle.at_ms > last));
        this.#cycles.splice(0, Math.max(0, this.#cycles.length - CYCLES_MAX));
    }

    #show() {
        const { status } = this;
        const latest = status.latest;
        byId("live-empty").hidden = latest !== null;
        byId("live-content").hidden = latest === null;
        if (latest === null) return;
        const variants = Object.entries(latest.variants);
        const sum = (key) => variants.reduce((sum, [, variant]) => sum + variant[key], 0);
        tiles(byId("live-tiles"), [
            ["Requests", number(latest.measured_rps), "/s"],
            ["Planned for", number(latest.demand_rps), "/s"],
            ["Accuracy as routed", number(latest.routed_accuracy_percent, 2), "%"],
            ["Cores", number(sum("cores_actual")), `target ${number(sum("cores_target"))}, budget ${number(status.budget_cores)}`],
            ["Objective", number(latest.objective, 4), latest.outcome],
            ["SLO", number(status.slo_ms, 0), "ms"],
            ["Mode", status.mode],
            ["Cycle", number(latest.cycle_ms, 1), "ms"],
            ["Proxies", number(Object.keys(status.proxies).length), `${latest.scrapes_answered} scraped, ${latest.scrapes_failed} not`],
        ]);
        byId("live-why").textContent = latest.why;
        this.#tables(variants);
        if (!byId("live").hidden) this.draw();
    }

    #tables(variants) {
        const { status } = this;
        const parts = [status.plan, ...Object.values(status.stages ?? {}).map((stage) => stage.plan)];
        const planned = new Map(parts.flatMap((plan) => plan?.variants ?? []).map((part) => [part.name, part]));
        const measured = ([name, { service_time: { measured_ratio: ratio } }]) => {
            const predicted = planned.get(name)?.service_ms;
            return ratio === null || !predicted ? "–" : number(ratio * predicted, 0);
        };
        table(byId("live-variants"), [
            { name: "Variant", cell: ([name]) => name },
            { name: "Cores", cell: ([, one]) => `${number(one.cores_actual, 2)} of ${number(one.cores_target, 2)}` },
            { name: "Replicas", cell: ([, one]) => `${one.replicas_ready} of ${one.replicas_target}` },
            { name: "Quota", cell: ([, one]) => percent(one.share) },
            { name: "Routed", cell: ([, one]) => percent(one.routed?.share) },
            { name: "Slots", cell: ([, one]) => number(one.slots) },
            { name: "Batch", cell: ([, one]) => number(one.batch) },
            { name: "Sustains, /s", cell: ([, one]) => number(one.capacity_rps) },
            { name: "Predicted, ms", cell: ([name]) => number(planned.get(name)?.service_ms, 0) },
            { name: "Measured, ms", cell: measured },
            { name: "State", text: true, cell: ([, one]) => one.service_time.state },
            { name: "Blocker", text: true, cell: ([, one]) => blocker(one) },
        ], variants);
        table(byId("live-proxies"), [
            { name: "Proxy", cell: ([name]) => name },
            { name: "Role", text: true, cell: ([, proxy]) => proxy.role },
            { name: "Workers", cell: ([, proxy]) => number(proxy.workers) },
            { name: "Revision", cell: ([, proxy]) => String(proxy.revision) },
            { name: "Confirmed", text: true, cell: ([, proxy]) => (proxy.confirmed ? "yes" : "no") },
            { name: "Slots", text: true, cell: ([, proxy]) => Object.entries(proxy.slots).map(([name, count]) => `${name} ${count}`).join(", ") },
            { name: "Refused", text: true, cell: ([, proxy]) => proxy.refused ?? "" },
        ], Object.entries(status.proxies));
        table(byId("live-plans"), [
            { name: "Time", cell: (cycle) => new Date(cycle.at_ms).toLocaleTimeString() },
            { name: "Why", text: true, long: true, cell: (cycle) => cycle.why },
            { name: "Result", text: true, cell: (cycle) => (cycle.kept ? `${cycle.outcome}, kept` : cycle.outcome) },
            { name: "Cores", text: true, cell: (cycle) => Object.entries(cycle.variants).map(([name, one]) => `${name} ${number(one.cores_target)}`).join(", ") },
            { name: "Revision", cell: (cycle) => String(cycle.revision ?? "–") },
        ], this.#plans());
        table(byId("live-counters"), [
            { name: "Counter", cell: ([name]) => name.replaceAll("_", " ") },
            { name: "Count", cell: ([, count]) => number(count) },
        ], Object.entries(status.counters));
    }

    /// Cycles that decided something new, latest first.
    #plans() {
        const cores = (cycle) => Object.values(cycle.variants).map((one) => one.cores_target).join();
        const news = (cycle) => [cycle.outcome, cycle.kept, cores(cycle)].join(" ");
        const changed = this.#cycles.filter((cycle, at) => at === 0 || news(cycle) !== news(this.#cycles[at - 1]));
        return changed.slice(-PLANS_MAX).reverse();
    }

    /// Draws the charts, if they can be seen.
    draw() {
        const cycles = this.#cycles;
        if (cycles.length < 2) return;
        const seconds = (cycles.at(-1).at_ms - cycles[0].at_ms) / 1000;
        const across = { from: -seconds, step: seconds / (cycles.length - 1), across: "seconds" };
        const values = (of) => cycles.map((cycle) => of(cycle) ?? null);
        const sum = (key) => (cycle) => Object.values(cycle.variants).reduce((sum, one) => sum + one[key], 0);
        const names = Object.keys(this.status.latest.variants);
        const each = (of) => names.map((name, at) => ({
            name, colour: at, stroke: at < 7 ? "solid" : "dashed", values: values((cycle) => cycle.variants[name] && of(cycle.variants[name])),
        }));
        const { demand, cores, perVariant, shares, ratio, accuracy, cycle } = this.#charts;
        const budget = values(() => this.status.budget_cores);
        demand.show({ ...across, unit: "rps", lines: [
            { name: "measured", stroke: "ink", values: values((one) => one.measured_rps) },
            { name: "planned for", stroke: "solid", colour: 5, values: values((one) => one.demand_rps) },
        ] });
        cores.show({ ...across, lines: [
            { name: "budget", stroke: "dashed", colour: 6, values: budget },
            { name: "target", stroke: "solid", colour: 5, values: values(sum("cores_target")) },
            { name: "actual", stroke: "ink", values: values(sum("cores_actual")) },
        ] });
        perVariant.show({ ...across, lines: each((one) => one.cores_actual) });
        shares.show({ ...across, unit: "percent", ceiling: 100, lines: each((one) => 100 * one.share) });
        const predicted = { name: "predicted", stroke: "dashed", colour: 6, values: values(() => 1) };
        ratio.show({ ...across, lines: [predicted, ...each((one) => one.service_time.measured_ratio)] });
        const floor = 0.9 * Math.min(100, ...cycles.map((one) => one.routed_accuracy_percent ?? 100));
        accuracy.show({ ...across, unit: "percent", floor: Math.floor(floor), ceiling: 100, lines: [
            { name: "routed", stroke: "ink", values: values((one) => one.routed_accuracy_percent) },
        ] });
        cycle.show({ ...across, unit: "ms", lines: [
            { name: "cycle", stroke: "ink", values: values((one) => one.cycle_ms) },
            { name: "solve", stroke: "solid", colour: 0, values: values((one) => one.stages_ms.solve) },
        ] });
    }
}

function blocker({ failing_ms: failing, blocker }) {
    const parts = [];
    if (failing !== null) parts.push(`failing for ${number(failing / 1000, 0)} s`);
    if (blocker) parts.push(blocker.why);
    return parts.join("; ");
}
