// Runs the module beside the page, so that neither solving nor a replay holds it up. A message {id, call, text} is
// answered by {id, text, ms} or {id, error}; a trap of the module ends the worker.
const ready = (async () => {
    const module = await import("./weir_console.js");
    await module.default({ module_or_path: new URL("./weir_console_bg.wasm", import.meta.url) });
    return module;
})();
// Each call reports the failure by itself.
ready.catch(() => {});

self.onmessage = async ({ data: { id, call, text } }) => {
    let module;
    try {
        module = await ready;
    } catch (error) {
        self.postMessage({ id, missing: String(error) });
        return;
    }
    const begin = performance.now();
    try {
        const answer = module[call](text);
        self.postMessage({ id, text: answer, ms: performance.now() - begin });
    } catch (error) {
        if (error instanceof WebAssembly.RuntimeError) {
            self.postMessage({ id, error: `the module broke: ${error.message}`, broken: true });
        } else {
            self.postMessage({ id, error: String(error.message ?? error) });
        }
    }
};
