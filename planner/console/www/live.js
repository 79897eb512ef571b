// The live view: the status of one service, polled each second. Answers are merged into a bounded history.

import { Chart, byId, histograms, number, percent, table, tiles } from "./view.js";

/// Cycles kept and shown, and cycles of each further poll.
const CYCLES_MAX = 600;
const CYCLES_POLLED = 5;
const POLL_MS = 1000;
const TIMEOUT_MS = 5000;
const RETRY_MAX_MS = 5000;
/// Proxies listed.
const PROXIES_MAX = 64;
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
            onTime: chart("Requests answered on time"),
            outcomes: chart("Requests by outcome"),
            waiting: chart("Requests that wait"),
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
            ["Demand", number(latest.demand_rps), "/s, with headroom"],
            ...outcomeTiles(status.requests),
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
        const { requests } = status;
        const short = new Map(Object.entries(requests?.windows[0]?.variants ?? {}));
        const measured = ([name, { service_time: { measured_ratio: ratio } }]) => {
            const predicted = planned.get(name)?.service_ms;
            return ratio === null || !predicted ? "–" : number(ratio * predicted, 0);
        };
        const known = (one) => one.service_time.has_profile !== false;
        table(byId("live-variants"), [
            { name: "Variant", cell: ([name]) => name },
            { name: "Cores", cell: ([, one]) => `${number(one.cores_actual, 2)} of ${number(one.cores_target, 2)}` },
            { name: "Replicas", cell: ([, one]) => `${one.replicas_ready} of ${one.replicas_target}` },
            { name: "Quota", cell: ([, one]) => percent(one.share) },
            { name: "Routed", cell: ([, one]) => percent(one.routed?.share) },
            { name: "Slots", cell: ([, one]) => number(one.slots) },
            { name: "Batch", cell: ([, one]) => number(one.batch) },
            { name: "Sustains, /s", cell: ([, one]) => number(one.capacity_rps) },
            { name: "Predicted, ms", cell: ([name, one]) => known(one) ? number(planned.get(name)?.service_ms, 0) : "–" },
            { name: "Measured, ms", cell: measured },
            { name: "5 min: mean, ms", cell: ([name]) => number(short.get(name)?.measured_ms, 0) },
            { name: "99 %, ms", cell: ([name]) => number(short.get(name)?.service_ms?.p99, 0) },
            { name: "On time", cell: ([name]) => percent(onTimeOf(short.get(name))) },
            { name: "Waiting", cell: ([name]) => number(requests?.waiting_by_variant[name]) },
            { name: "State", text: true, cell: ([, one]) => one.service_time.state + (known(one) ? "" : ", no profile") },
            { name: "Blocker", text: true, cell: ([, one]) => blocker(one) },
        ], variants);
        table(byId("live-proxies"), [
            { name: "Proxy", cell: ([name]) => name },
            { name: "Role", text: true, cell: ([, proxy]) => proxy.role },
            { name: "Version", cell: ([, proxy]) => proxy.version ?? "–" },
            { name: "Workers", cell: ([, proxy]) => number(proxy.workers) },
            { name: "Revision", cell: ([, proxy]) => String(proxy.revision) },
            { name: "Confirmed", text: true, cell: ([, proxy]) => (proxy.confirmed ? "yes" : "no") },
            { name: "Slots", text: true, cell: ([, proxy]) => Object.entries(proxy.slots).map(([name, count]) => `${name} ${count}`).join(", ") },
            { name: "Refused", text: true, cell: ([, proxy]) => proxy.refused ?? "" },
        ], Object.entries(status.proxies));
        this.#outcomes();
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

    /// Requests by outcome, their times, and proxies. A planner of an earlier version does not report them.
    #outcomes() {
        const { requests } = this.status;
        byId("live-outcomes").hidden = !requests;
        if (!requests) return;
        const windows = [...(requests.latest ? [["latest", requests.latest]] : []),
            ...requests.windows.map((window) => [span(window.window_s), window])];
        const refused = (counts) => Object.values(counts.refused).reduce((sum, count) => sum + count, 0);
        table(byId("live-requests"), [
            { name: "Window", cell: ([name]) => name },
            { name: "Covered, s", cell: ([, one]) => number(one.covered_s, 0) },
            { name: "Arrivals", cell: ([, one]) => number(one.arrivals) },
            { name: "On time", cell: ([, one]) => number(one.on_time) },
            { name: "Late", cell: ([, one]) => number(one.late) },
            { name: "Failed", cell: ([, one]) => number(one.failed) },
            { name: "Refused", cell: ([, one]) => number(refused(one)) },
            { name: "Disconnected", cell: ([, one]) => number(one.client_disconnects) },
            { name: "Share on time", cell: ([, one]) => percent(one.on_time_share, 2) },
            { name: "Latency: median, ms", cell: ([, one]) => number(one.latency_ms?.p50, 0) },
            { name: "99 %, ms", cell: ([, one]) => number(one.latency_ms?.p99, 0) },
            { name: "Budget left", cell: ([, one]) => percent(one.error_budget_left, 0) },
            { name: "Accuracy served, %", cell: ([, one]) => number(one.accuracy_percent, 2) },
        ], windows);
        const reasons = [...new Set(windows.flatMap(([, one]) => Object.keys(one.refused)))].sort();
        table(byId("live-refusals"), [
            { name: "Reason", cell: (reason) => reason },
            ...windows.map(([name, one]) => ({ name, cell: (reason) => number(one.refused[reason] ?? 0) })),
        ], reasons.length > 0 ? reasons : ["none"]);
        const [short] = requests.windows;
        histograms(byId("live-distributions"), [
            ["Latency", short.latency_ms],
            ["Time in the queue", short.wait_ms],
            ["Time left on arrival", short.arrival_slack_ms],
            ["Time left at dispatch", short.dispatch_slack_ms],
            ...Object.entries(short.variants).map(([name, one]) => [`Service time of ${name}`, one.service_ms]),
        ].filter(([, values]) => values));
        table(byId("live-scraped"), [
            { name: "Proxy", cell: ([name]) => name },
            { name: "Arrivals", cell: ([, one]) => number(one.arrivals) },
            { name: "On time", cell: ([, one]) => number(one.on_time) },
            { name: "Late", cell: ([, one]) => number(one.late) },
            { name: "Refused", cell: ([, one]) => number(refused(one)) },
            { name: "Waiting", cell: ([, one]) => number(one.waiting) },
        ], Object.entries(requests.proxies).slice(0, PROXIES_MAX));
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
        const { demand, onTime, outcomes, waiting, cores, perVariant, shares, ratio, accuracy, cycle } = this.#charts;
        const budget = values(() => this.status.budget_cores);
        demand.show({ ...across, unit: "rps", lines: [
            { name: "measured", stroke: "ink", values: values((one) => one.measured_rps) },
            { name: "demand with headroom", stroke: "solid", colour: 5, values: values((one) => one.demand_rps) },
        ] });
        const rate = (of) => cycles.map((cycle, at) => {
            const passed = at === 0 ? 0 : (cycle.at_ms - cycles[at - 1].at_ms) / 1000;
            return cycle.requests && passed > 0 ? of(cycle.requests) / passed : null;
        });
        const refused = (one) => Object.values(one.refused).reduce((sum, count) => sum + count, 0);
        const target = 100 * (this.status.requests?.on_time_target ?? 1);
        const onTimeShares = values((one) => one.requests?.on_time_share).map((share) => share === null ? null : 100 * share);
        const lowest = Math.min(target, ...onTimeShares.filter((share) => share !== null));
        onTime.show({ ...across, unit: "percent", floor: Math.max(0, Math.floor(lowest - 1)), ceiling: 100, lines: [
            { name: "target", stroke: "dashed", colour: 6, values: values(() => target) },
            { name: "on time", stroke: "ink", values: onTimeShares },
        ] });
        outcomes.show({ ...across, unit: "rps", lines: [
            { name: "on time", stroke: "solid", colour: 2, values: rate((one) => one.on_time) },
            { name: "late", stroke: "solid", colour: 1, values: rate((one) => one.late) },
            { name: "refused", stroke: "solid", colour: 5, values: rate(refused) },
            { name: "failed", stroke: "dashed", colour: 3, values: rate((one) => one.failed) },
            { name: "disconnected", stroke: "dashed", colour: 6, values: rate((one) => one.client_disconnects) },
        ] });
        waiting.show({ ...across, lines: [
            { name: "waiting", stroke: "ink", values: values((one) => one.requests?.waiting) },
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

/// Tiles about requests: the latest 5 minutes, and the budget of the longest window.
function outcomeTiles(requests) {
    if (!requests) return [];
    const [short] = requests.windows, long = requests.windows.at(-1);
    return [
        ["On time", percent(short.on_time_share, 2), `${span(short.window_s)}, target ${percent(requests.on_time_target, 4)}`],
        ...(short.latency_ms ? [["Latency, 99 %", number(short.latency_ms.p99, 0), `ms, median ${number(short.latency_ms.p50, 0)}`]] : []),
        ["Error budget left", percent(long.error_budget_left, 0), span(long.window_s)],
        ["Accuracy served", number(short.accuracy_percent, 2), `%, ${span(short.window_s)}`],
        ["Waiting", number(requests.waiting)],
    ];
}

/// Share of a variant's answers that were on time.
function onTimeOf(variant) {
    if (!variant) return null;
    const answers = variant.on_time + variant.late + variant.failed;
    return answers > 0 ? variant.on_time / answers : null;
}

const span = (seconds) => (seconds >= 3600 ? `${number(seconds / 3600)} h` : `${number(seconds / 60)} min`);

function blocker({ failing_ms: failing, blocker }) {
    const parts = [];
    if (failing !== null) parts.push(`failing for ${number(failing / 1000, 0)} s`);
    if (blocker) parts.push(blocker.why);
    return parts.join("; ");
}
