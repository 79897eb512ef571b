// Services, each with a rate and what a person moves in the what-if, and the same as a problem of InfAdapter's. The
// problem is made from the numbers of the service file, without the planner's code.

/// Variants of the demo's service: name, accuracy, readiness, initial cores, line of the capacity, time of a request.
const DEMO = [
    ["resnet18", 69.75, 5, 6, 24.45, -6.17, 40.9],
    ["resnet50", 76.13, 8, 7, 10.32, -3.79, 96.9],
    ["resnet152", 78.31, 15, 7, 3.81, -2.25, 262.5],
];
/// 99th percentile of the service time over its mean.
const TAIL = 1.26;
/// Overhead of a request, in ms.
const ETA_MS = 2;

const variant = ([name, accuracy, readiness, initial, slopeRps, interceptRps, ms], min = 1) => ({
    name, cluster: name, accuracy, cores: { initial, min }, readiness: `${readiness}s`,
    capacity: { slopeRps, interceptRps },
    latency: { gammaMs: ms - ETA_MS, epsilonMs: 0, deltaMs: 0, etaMs: ETA_MS, parallelism: "per-core", tail: TAIL },
});

const service = (name, slo_ms, cores, variants, objective) => ({
    service: name, slo: `${slo_ms}ms`, mode: "active", keyEnv: "WEIR_KEY", budget: { cores },
    ...(objective ? { objective } : {}), variants,
});

/// Numbers from 0 to 1, the same in each run.
function sequence(seed) {
    let state = seed;
    return () => {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        return state / 2 ** 32;
    };
}

/// A service of two to five variants: the more accurate, the slower.
function drawn(seed) {
    const next = sequence(seed);
    const between = (low, high, digits = 0) => Number((low + (high - low) * next()).toFixed(digits));
    const count = between(2, 5);
    let ms = between(20, 50, 1), accuracy = between(55, 70, 2);
    const variants = Array.from({ length: count }, (_, at) => {
        const slope = Number((1000 / ms).toFixed(2));
        const min = between(0, 1), initial = Math.max(min, between(0, 4));
        const one = variant([`v${at}`, accuracy, between(2, 20), initial, slope, -between(0, 0.3 * slope, 2), ms], min);
        ms = Number((ms * between(1.4, 2.6, 2)).toFixed(1));
        accuracy = Number((accuracy + between(0.5, 6, 2)).toFixed(2));
        return one;
    });
    const weights = { alpha: 1, beta: between(0.01, 0.3, 3), gamma: between(0, 0.05, 3) };
    const running = variants.reduce((sum, one) => sum + one.cores.initial, 0);
    const file = service(`drawn-${seed}`, between(800, 2400), Math.max(running, between(12, 32)), variants, weights);
    return { file, rate_rps: between(5, 250, 1), moved: {} };
}

const demo = service("demo", 1000, 20, DEMO.map((one) => variant(one)));
const MOVED = [
    {}, { budget_cores: 12 }, { off: ["resnet50"] }, { weights: { beta: 0.4 } },
    { slo_ms: 600, cores: { resnet18: { max: 4 } } },
    { weights: { alpha: 2, gamma: 0.1 }, cores: { resnet152: { min: 3 } }, budget_cores: 16 },
];

/// The specifications: files as written, and moves on the demo's.
export const specifications = [
    ...Array.from({ length: 12 }, (_, at) => drawn(at + 1)),
    ...MOVED.flatMap((moved, at) => [2.5, 41, 93, 411].map((rate) => ({ file: demo, rate_rps: rate + at, moved }))),
];

/// A service whose variants have prices.
export const priced = {
    ...service("priced", 1000, 40, []), policy: "infaas",
    variants: [["cpu", 0.05, 2, 95], ["gpu", 0.4, 0, 8]].map(([name, price, initial, meanMs]) => ({
        name, cluster: name, accuracy: 76, price, cores: { initial: 1, min: 1, max: 1 },
        replicas: { initial, min: 0, max: 20 }, latency: { meanMs, parallelism: 1 },
    })),
};

/// The service file as a person has it.
export const written = (file) =>
    Object.entries(file).map(([key, value]) => `${key}: ${JSON.stringify(value)}\n`).join("");

/// The specification as a problem.
export function problem({ file, rate_rps, moved }) {
    const slo_ms = moved.slo_ms ?? Number.parseFloat(file.slo);
    const weights = { alpha: 1, beta: 0.05, gamma: 0.001, ...file.objective, ...moved.weights };
    const variants = file.variants.filter(({ name }) => !moved.off?.includes(name)).map((one) => {
        const range = moved.cores?.[one.name] ?? {};
        const ms = (one.latency.gammaMs + one.latency.etaMs) * one.latency.tail;
        return {
            name: one.name, accuracy_percent: one.accuracy, readiness_s: Number.parseFloat(one.readiness),
            cores: one.cores.initial, cores_min: range.min ?? one.cores.min, cores_max: range.max,
            throughput: { model: "line", slope_rps: one.capacity.slopeRps, intercept_rps: one.capacity.interceptRps },
            utilisation: 0.8, latency: { model: "linear", item_ms: ms, fixed_ms: 0 },
        };
    });
    // Headroom counts once: the variants keep back more of their rates than 1.1 of the demand.
    return {
        formulation: "infadapter", demand_rps: rate_rps, headroom: 1, latency_max_ms: slo_ms / 2,
        budget_cores: moved.budget_cores ?? file.budget.cores, weights, variants,
    };
}
