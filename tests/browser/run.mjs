// Runs a module that calls nothing outside, and compares the report in its memory with the expected one. Its only
// imports are those of wasm-bindgen, for the clock of microlp, which no replay calls: a call of one fails.
// node run.mjs MODULE EXPECTED
import { readFileSync } from "node:fs";

const [, , path, expectedPath] = process.argv;
const module = new WebAssembly.Module(readFileSync(path));
const imports = {};
for (const { module: from, name } of WebAssembly.Module.imports(module)) {
    if (!from.startsWith("__wbindgen_")) {
        throw new Error(`${path} imports ${from}.${name}; it must call nothing outside`);
    }
    imports[from] ??= {};
    imports[from][name] = () => {
        throw new Error(`${path} called ${from}.${name}; it must call nothing outside`);
    };
}
const { exports } = new WebAssembly.Instance(module, imports);
const begin = performance.now();
const code = exports.main(0, 0);
const seconds = ((performance.now() - begin) / 1000).toFixed(2);
const memory = Buffer.from(exports.memory.buffer);
if (code !== 0) {
    const at = memory.indexOf("error: ");
    throw new Error(`the replay failed: ${memory.toString("utf8", at, at + 500)}`);
}
const expected = readFileSync(expectedPath);
if (expected.length === 0 || !memory.includes(expected)) {
    throw new Error(`the report in the module's memory is not ${expectedPath}`);
}
console.log(`replayed in ${seconds} s; ${expected.length} bytes of report are equal`);
