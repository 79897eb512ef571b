// The planner's API, for comparison with the page; and what stands between both.

import { ok } from "node:assert";
import { readFile } from "node:fs/promises";
import { createServer as createHttpServer } from "node:http";
import { connect, createServer } from "node:net";
import { join } from "node:path";

import { setup } from "./browser.mjs";

const headers = { authorization: `Bearer ${setup.key}`, "content-type": "application/json" };

/// Status of the service with its latest cycles.
export async function status(cycles) {
    const answer = await fetch(`${setup.planner}/v1/services/${setup.service}?cycles=${cycles}`, { headers });
    ok(answer.ok, `status ${answer.status}`);
    return answer.json();
}

/// Answer to a problem; the time limit is no matter of this test.
export async function solve(problem) {
    const body = JSON.stringify(problem);
    const answer = await fetch(`${setup.planner}/v1/solve?time_limit_ms=10000`, { method: "POST", headers, body });
    const text = await answer.text();
    ok(answer.ok, `${answer.status}: ${text}`);
    return JSON.parse(text);
}

/// A connection that can be cut: it passes everything to the planner.
export class Line {
    #server;
    #sockets = new Set();
    #port = 0;

    async open() {
        const { hostname, port } = new URL(setup.planner);
        this.#server = createServer((near) => {
            const far = connect(Number(port), hostname);
            for (const [socket, other] of [[near, far], [far, near]]) {
                this.#sockets.add(socket);
                socket.on("error", () => other.destroy());
                socket.on("close", () => { this.#sockets.delete(socket); other.destroy(); });
                socket.pipe(other);
            }
        });
        await new Promise((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
        this.#port = this.#server.address().port;
        // A failed test does not keep this process.
        this.#server.unref();
        return `http://127.0.0.1:${this.#port}`;
    }

    async cut() {
        const closed = new Promise((resolve) => this.#server.close(resolve));
        for (const socket of this.#sockets) socket.destroy();
        await closed;
    }
}

const KINDS = {
    html: "text/html", js: "text/javascript", css: "text/css", wasm: "application/wasm", yaml: "application/yaml",
};

/// Serves a folder as any server of files does. Returns its address and how to end it.
export async function files(folder) {
    const server = createHttpServer(async (request, response) => {
        const path = new URL(request.url, "http://localhost").pathname;
        try {
            const content = await readFile(join(folder, path));
            response.writeHead(200, { "content-type": KINDS[path.split(".").pop()] ?? "application/octet-stream" });
            response.end(content);
        } catch {
            response.writeHead(404).end();
        }
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    server.unref();
    const end = () => { server.close(); server.closeAllConnections(); };
    return { base: `http://127.0.0.1:${server.address().port}`, end };
}
