// Runs the console's module in node, as a page does: problems are answered as by `weir solve --json`, a service of three
// stages of five variants is planned, a minute of the demo's load is replayed, a chart is drawn without a page.
// node console.mjs MODULE-FOLDER PROBLEMS ANSWERS SERVICE SCENARIO; the answers are JSON, one a line.
import { deepStrictEqual, ok } from "node:assert";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [, , folder, problemsPath, answersPath, servicePath, scenarioPath] = process.argv;
const lines = (path) => readFileSync(path, "utf8").trim().split("\n");
const bindings = join(resolve(folder), "weir_console.js");
// Node takes a file for a module if its name or its folder says so.
const source = readFileSync(bindings, "utf8");
const url = JSON.stringify(pathToFileURL(bindings));
const encoded = Buffer.from(source.replaceAll("import.meta.url", url)).toString("base64");
const weir = await import(`data:text/javascript;base64,${encoded}`);
weir.initSync({ module: readFileSync(join(folder, "weir_console_bg.wasm")) });

const timed = (call) => {
    const begin = performance.now();
    const answer = call();
    return [answer, (performance.now() - begin).toFixed(1)];
};

const problems = lines(problemsPath), answers = lines(answersPath);
ok(problems.length >= 20 && problems.length === answers.length);
problems.forEach((problem, at) => deepStrictEqual(JSON.parse(weir.solve(problem)), JSON.parse(answers[at]), problem));
console.log(`${problems.length} problems are answered as by weir solve`);

const request = (rate) => JSON.stringify({ service: readFileSync(servicePath, "utf8"), rate_rps: rate });
weir.whatIf(request(10));
const [planned, planMs] = timed(() => JSON.parse(weir.whatIf(request(20))));
ok(planned.variants.length === 15 && planned.outcome === "optimal", planned.why);
console.log(`3 stages of 5 variants are planned in ${planMs} ms`);

const [replayed, replayMs] = timed(() => JSON.parse(weir.replayScenario(readFileSync(scenarioPath, "utf8"))));
ok(replayed.report.contenders.length > 1 && replayed.sent_rps.length === 60);
console.log(`${replayed.report.contenders.length} contenders are replayed in ${replayMs} ms`);

const drawing = { from: 0, step: 1, width: 600, height: 240, lines: [{ values: replayed.sent_rps, stroke: "ink" }] };
ok(weir.chart(JSON.stringify(drawing)).startsWith("<svg"));
