// The replay view: a trace, played on the service of the what-if.

import { Chart, byId, number, table } from "./view.js";

export class Replay {
    #module;
    #charts;

    constructor(module, service) {
        this.#module = module;
        this.service = service;
        const parent = byId("replay-charts");
        const chart = (title) => new Chart(parent, module, title);
        this.#charts = { load: chart("Load and demand"), onTime: chart("On time"), cores: chart("Cores") };
        byId("trace").value = burst(60, 100, 490).join("\n");
        byId("trace-form").addEventListener("submit", (event) => {
            event.preventDefault();
            this.run(this.service());
        });
    }

    /// Plays the trace.
    async run(service) {
        const status = byId("replay-status"), error = byId("replay-error"), button = byId("run");
        error.textContent = "";
        status.textContent = "The replay is running.";
        button.disabled = true;
        try {
            const { text, ms } = await this.#module.call("replayTrace", {
                service, trace: byId("trace").value, mobile: byId("mobile").checked,
                compare: byId("compare").checked, seed: Number(byId("seed").value) || 0,
            });
            const replayed = JSON.parse(text);
            const { requests, length_s: seconds } = replayed.report.scenario;
            status.textContent = `${number(requests)} requests in ${number(seconds)} s, played in ${number(ms / 1000, 2)} s.`;
            this.#show(replayed);
        } catch (refused) {
            status.textContent = "";
            error.textContent = refused.missing ? "This planner serves no module with the replay." : refused.message;
        } finally {
            button.disabled = false;
        }
    }

    #show({ report, series, sent_rps: sent }) {
        table(byId("replayed"), [
            { name: "Contender", cell: (one) => one.contender },
            { name: "On time", cell: (one) => `${number(one.on_time_percent, 2)} %` },
            { name: "Late", cell: (one) => number(one.late) },
            { name: "Accuracy", cell: (one) => (one.mean_accuracy === null ? "–" : `${number(one.mean_accuracy, 2)} %`) },
            { name: "Core-seconds", cell: (one) => number(one.core_seconds, 0) },
            ...(report.contenders.some((one) => one.mean_cost !== undefined)
                ? [{ name: "Mean cost", cell: (one) => number(one.mean_cost, 3) }] : []),
            { name: "p50, ms", cell: (one) => number(one.p50_ms, 0) },
            { name: "p99, ms", cell: (one) => number(one.p99_ms, 0) },
            { name: "Disconnected", cell: (one) => number(one.disconnected) },
            { name: "Refused", text: true, cell: (one) => Object.entries(one.refused).map(([reason, count]) => `${reason} ${count}`).join(", ") },
        ], report.contenders);
        const across = { from: 0, step: 1, across: "seconds" };
        const [first] = series;
        this.#charts.load.show({ ...across, unit: "rps", lines: [
            { name: "sent", stroke: "ink", values: sent },
            { name: "demand with headroom", stroke: "solid", colour: 5, values: first.demand_rps },
        ] });
        this.#charts.onTime.show({ ...across, unit: "percent", ceiling: 100, lines: series.map((one, at) => ({
            name: one.contender, stroke: "solid", colour: at === 0 ? 0 : 5, values: one.on_time_percent,
        })) });
        this.#charts.cores.show({ ...across, lines: [
            { name: "target", stroke: "solid", colour: 5, values: first.cores_target },
            { name: "actual", stroke: "ink", values: first.cores_actual },
        ] });
    }
}

/// The demo's load: a low rate with bursts.
function burst(seconds, low, high) {
    return Array.from({ length: seconds }, (_, second) => (second % 35 >= 25 && second % 35 < 30 ? high : low));
}
