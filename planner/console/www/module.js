// Calls of the module in a worker: solver, what-if, replay, charts.

/// A worker with the module; it is started again after a trap.
export class Module {
    #worker = null;
    #waiting = new Map();
    #next = 1;

    /// Calls a function of the module. Fails with its message; `missing` if the planner does not serve it.
    call(name, request) {
        const text = typeof request === "string" ? request : JSON.stringify(request);
        const id = this.#next++;
        return new Promise((resolve, reject) => {
            this.#waiting.set(id, { resolve, reject });
            this.#start().postMessage({ id, call: name, text });
        });
    }

    #start() {
        if (this.#worker) return this.#worker;
        const worker = new Worker(new URL("./worker.js", import.meta.url), { type: "module" });
        worker.onmessage = ({ data }) => this.#answered(data);
        worker.onerror = (event) => {
            event.preventDefault();
            this.#fail(new Error(`the worker did not start: ${event.message ?? "not served"}`));
        };
        this.#worker = worker;
        return worker;
    }

    #answered(data) {
        const waiting = this.#waiting.get(data.id);
        this.#waiting.delete(data.id);
        if (data.missing !== undefined) {
            waiting?.reject(Object.assign(new Error(data.missing), { missing: true }));
        } else if (data.error !== undefined) {
            waiting?.reject(new Error(data.error));
        } else {
            waiting?.resolve({ text: data.text, ms: data.ms });
        }
        if (data.broken) this.#fail(new Error(data.error));
    }

    #fail(error) {
        this.#worker?.terminate();
        this.#worker = null;
        for (const { reject } of this.#waiting.values()) reject(error);
        this.#waiting.clear();
    }
}
