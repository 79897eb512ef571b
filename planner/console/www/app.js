// Wires the page: views, the connection, the module.

import { Live, services } from "./live.js";
import { Module } from "./module.js";
import { Replay } from "./replay.js";
import { byId, element } from "./view.js";
import { WhatIf } from "./whatif.js";

/// Views; the book has the page without a planner.
const PLANNER = document.querySelector('meta[name="planner"]').content === "here";
const VIEWS = PLANNER ? ["live", "what-if", "replay"] : ["what-if", "replay"];

const charts = new Module();
const solver = new Module();
const player = new Module();

const whatIf = new WhatIf(solver, charts);
const replay = new Replay(player, () => whatIf.planned?.service ?? whatIf.file());
const live = new Live(
    charts,
    (state, text) => {
        const connection = byId("connection");
        connection.dataset.state = state;
        if (connection.textContent !== text) connection.textContent = text;
    },
    (status) => whatIf.compare(status),
);

/// Shows the view of the address.
function show() {
    const named = location.hash.slice(1);
    const view = VIEWS.includes(named) ? named : VIEWS[0];
    for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== view;
    for (const link of document.querySelectorAll("nav a")) {
        if (link.hash === `#${view}`) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    }
    if (view === "live" && live.status) live.draw();
    if (view === "what-if") whatIf.plan();
}
addEventListener("hashchange", show);
for (const part of document.querySelectorAll("[data-planner]")) part.hidden = !PLANNER;
show();

byId("connect").addEventListener("submit", async (event) => {
    event.preventDefault();
    await connect();
});
byId("play").addEventListener("click", () => {
    location.hash = "replay";
    replay.run(whatIf.planned?.service ?? whatIf.file());
});

/// Connects, and returns whether the what-if has the planner's service file.
async function connect() {
    const key = byId("key").value;
    let service = byId("service").value.trim();
    if (service === "") {
        const names = await services(key);
        byId("services").replaceChildren(...names.map((value) => element("option", { value })));
        service = names[0] ?? "";
    }
    byId("service").value = service;
    if (service === "") {
        byId("connection").textContent = "The planner lists no services to this key: enter a service.";
        return false;
    }
    sessionStorage.setItem("service", service);
    sessionStorage.setItem("key", key);
    live.connect(service, key);
    return whatIf.fromPlanner(service, key);
}

byId("service").value = sessionStorage.getItem("service") ?? "";
byId("key").value = sessionStorage.getItem("key") ?? "";
const known = PLANNER && byId("key").value !== "" && await connect();
if (!known) {
    const example = await fetch(new URL("./demo.yaml", import.meta.url));
    if (example.ok) await whatIf.load(await example.text());
}
