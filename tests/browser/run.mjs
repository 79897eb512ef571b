// Runs a module that imports nothing, and compares the report in its memory with the expected one.
// node run.mjs MODULE EXPECTED
import { readFileSync } from "node:fs";

const [, , path, expectedPath] = process.argv;
const module = new WebAssembly.Module(readFileSync(path));
const imports = WebAssembly.Module.imports(module);
if (imports.length > 0) {
    const names = imports.map(({ module, name }) => `${module}.${name}`);
    throw new Error(`${path} imports ${names.join(", ")}; it must import nothing`);
}
const { exports } = new WebAssembly.Instance(module);
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
