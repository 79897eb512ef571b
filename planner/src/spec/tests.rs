//! Tests of the service file: accepted files, and refusals that name the key, the value and the allowed
//! values.

use std::time::Duration;

use super::*;
use crate::service::{Mode, Variant};
use crate::solve::latency_model::{LatencyModel, Parallelism};

mod defaults;
mod fractions;
mod limits;
mod policies;
mod price;
mod proxies;
mod shared;
mod types;
mod without_profile;
mod workload;

const EXAMPLE: &str = include_str!("../../service.example.yaml");

/// A service of two variants; other tests replace single lines of it.
pub(crate) fn small() -> String {
    include_str!("tests/small.yaml").to_owned()
}

/// A service of two variants with a budget of that many cores: a (70 %, fast, at least 1 core) and b (80 %,
/// slow, 0 to 4 cores).
pub(crate) fn service(budget: u32) -> Service {
    Service::from_yaml(&small().replace("cores: 8", &format!("cores: {budget}"))).unwrap()
}

/// Gives a variant executions of γ·b/c + η ms, each of them, in batches up to `batch`.
pub(crate) fn execute_exactly(
    variant: &mut Variant,
    parallelism: Parallelism,
    batch: u32,
    (gamma_ms, eta_ms): (f64, f64),
) {
    let profile = &mut variant.profile;
    profile.parallelism = parallelism;
    profile.batch = batch;
    profile.fit = None;
    profile.utilisation = 1.0;
    profile.latency.tail = 1.0;
    profile.latency.model = LatencyModel {
        gamma_ms,
        eta_ms,
        ..LatencyModel::default()
    };
}

#[test]
fn example_file_is_valid_and_comments_show_defaults() {
    let service = Service::from_yaml(EXAMPLE).unwrap();
    assert_eq!(
        (service.name.as_str(), service.budget, service.mode),
        ("demo", 20, Mode::Active)
    );
    assert_eq!(service.variants.len(), 3);
    // The commented-out keys show the defaults: uncommenting them changes nothing.
    let keys = [
        "onTimeTarget",
        "latencyBudget",
        "downstreamTime",
        "cycle",
        "planMaxAge",
        "policy",
        "objective",
        "demand",
        "solver",
        "resize",
        "serviceTimes",
        "  timeout",
        "    min",
        "    max",
        "    utilisation",
        "    tail",
        "  price",
        "  batch",
        "  batchDelay",
        "  tellBatch",
    ];
    let mut spelled = EXAMPLE.to_owned();
    for key in keys {
        let name = key.trim_start();
        let commented = spelled
            .lines()
            .find(|line| line.trim_start().starts_with(&format!("# {name}: ")));
        let line = commented
            .unwrap_or_else(|| panic!("the example does not show {name}"))
            .to_owned();
        spelled = spelled.replacen(&line, &line.replacen("# ", "", 1), 1);
    }
    assert_eq!(Service::from_yaml(&spelled).unwrap(), service);
}

/// Each row: text to replace in a valid file, its replacement, and the parts that the refusal must contain.
#[test]
fn refusal_names_key_value_and_allowed_values() {
    let table: &[(&str, &str, &[&str])] = &[
        (
            "slo:",
            "slo_millis:",
            &["slo_millis", "unknown field", ", slo,"],
        ),
        ("slo: 1s\n", "", &["missing field `slo`"]),
        ("slo: 1s", "slo: soon", &["slo: soon", "250ms or 1s"]),
        ("slo: 1s", "slo: 0s", &["slo: 0s", "1ms to 1h"]),
        ("slo: 1s", "slo: -1s", &["slo: -1s", "250ms or 1s"]),
        ("slo: 1s", "slo: 1000", &["slo: 1000", "250ms or 1s"]),
        (
            "slo: 1s",
            "slo: 1.5ms",
            &["slo: 1.5ms", "whole number of ms"],
        ),
        ("slo: 1s", "slo: 1s\nslo: 2s", &["duplicate", "slo"]),
        (
            "slo: 1s",
            "slo: 1s\nlatencyBudget: 1.5",
            &["latencyBudget: 1.5", "0.01 to 1"],
        ),
        (
            "slo: 1s",
            "slo: 1s\nlatencyBudget: .nan",
            &["latencyBudget: NaN"],
        ),
        (
            "slo: 1s",
            "slo: 1s\ndownstreamTime: 1s",
            &["downstreamTime: 1s", "0s to 999ms, less than slo"],
        ),
        (
            "slo: 1s",
            "slo: 1s\ndownstreamTime: -1ms",
            &["downstreamTime: -1ms"],
        ),
        (
            "slo: 1s",
            "slo: 1s\ndownstreamTime: .nan",
            &["downstreamTime: .nan"],
        ),
        ("service: demo", "service: Demo", &["service: Demo", "a-z"]),
        (
            "127.0.0.1:0",
            "localhost",
            &["listen: localhost", "127.0.0.1:8080"],
        ),
        (
            "keyEnv: WEIR_KEY\n",
            "",
            &["keyEnv, keyFile: both missing", "exactly one"],
        ),
        ("keyEnv: WEIR_KEY", "keyEnv: A\nkeyFile: b", &["both given"]),
        ("keyEnv: WEIR_KEY", "keyEnv: A=B", &["keyEnv: A=B"]),
        ("keyEnv: WEIR_KEY", "key: secret", &["unknown field `key`"]),
        ("cycle: 1s", "cycle: 10ms", &["cycle: 10ms", "100ms to 1m"]),
        (
            "cycle: 1s",
            "cycle: 200ms",
            &["solver.timeLimit: 250ms", "1ms to 199ms, less than cycle"],
        ),
        (
            "cycle: 1s",
            "cycle: 1s\nsolver: {timeLimit: 1s}",
            &["solver.timeLimit: 1s", "1ms to 999ms"],
        ),
        (
            "cycle: 1s",
            "cycle: 1s\nresize: {timeout: 1s}",
            &["resize.timeout: 1s", "1ms to 999ms"],
        ),
        (
            "cycle: 1s",
            "cycle: 1s\nplanMaxAge: 2s",
            &["planMaxAge: 2s", "2.001s to 1h", "two cycles"],
        ),
        (
            "cycle: 1s",
            "cycle: 1s\nresize: {scaleDownStabilization: 2h}",
            &["resize.scaleDownStabilization: 2h", "0s to 1h"],
        ),
        (
            "cycle: 1s",
            "cycle: 1s\nresize: {scaleDownStabilization: -1s}",
            &["resize.scaleDownStabilization: -1s"],
        ),
        (
            "http://127.0.0.1:1/stats\"]",
            "http://127.0.0.1:1/stats\"], interval: 99ms",
            &["proxies.interval: 99ms", "100ms to 1s", "cycle"],
        ),
        (
            "http://127.0.0.1:1/stats\"]",
            "http://127.0.0.1:1/stats\"], interval: 1001ms",
            &["proxies.interval: 1.001s", "100ms to 1s"],
        ),
        (
            "mode: active",
            "mode: bold",
            &["mode: ", "bold", "advisory", "active"],
        ),
        ("cores: 8", "cores: 0", &["budget.cores: 0", "1 to 65536"]),
        (
            "cores: 8",
            "cores: 3",
            &["variants[1].cores.max: 4", "1 to 3"],
        ),
        ("cores: 8", "cores: 2.5", &["budget.cores: ", "2.5"]),
        ("budget: {cores: 8}", "budget: 8", &["budget: "]),
        (
            "[\"http://127.0.0.1:1/stats\"]",
            "[]",
            &["proxies.stats, dns, pods: all missing", "exactly one"],
        ),
        (
            "http://127.0.0.1:1/stats",
            "ftp://x/",
            &["proxies.stats[0]: ftp://x/", "http://"],
        ),
        (
            "[\"http://127.0.0.1:1/stats\"]",
            "[\"http://a/\", \"http://a/\"]",
            &["proxies.stats[1]: http://a/", "twice"],
        ),
        ("name: b", "name: a", &["variants[1].name: a", "twice"]),
        ("name: b", "name: b--c", &["variants[1].name: b--c"]),
        ("name: b", "nmae: b", &["variants[1]", "nmae", "name"]),
        ("cluster: b", "cluster: a b", &["variants[1].cluster: a b"]),
        (
            "cluster: b",
            "cluster: b\n  grpcCluster: b c",
            &["variants[1].grpcCluster: b c", "printable"],
        ),
        (
            "cluster: b",
            "cluster: b\n  grpcCluster: b",
            &["variants[1].grpcCluster: b;", "another name than cluster"],
        ),
        (
            "cluster: b",
            "cluster: b\n  model: a/b",
            &["variants[1].model: a/b", "1 to 128 of A-Z"],
        ),
        (
            "accuracy: 80",
            "accuracy: 180",
            &["variants[1].accuracy: 180", "0 to 100 percent"],
        ),
        (
            "{initial: 2}",
            "{initial: 9}",
            &["variants[0].cores.initial: 9", "1 to 8"],
        ),
        (
            "{initial: 2}",
            "{initial: 8}",
            &["variants[].cores.initial: 10", "at most budget.cores (8)"],
        ),
        (
            "{initial: 2}",
            "{initial: 2, less: 1}",
            &["variants[0].cores", "less", "min"],
        ),
        (
            "min: 0, max: 4",
            "min: 3, max: 4",
            &["variants[1].cores.initial: 2", "3 to 4"],
        ),
        ("max: 4", "max: 9", &["variants[1].cores.max: 9", "1 to 8"]),
        (
            "slopeRps: 20",
            "slopeRps: .inf",
            &["variants[0].capacity.slopeRps: inf"],
        ),
        (
            "interceptRps: -2}",
            "interceptRps: -2, utilisation: 0}",
            &["variants[0].capacity.utilisation: 0", "0.01 to 1"],
        ),
        (
            "gammaMs: 40",
            "gammaMs: -40",
            &["variants[0].latency.gammaMs: -40"],
        ),
        (
            "gammaMs: 40, epsilonMs: 1, deltaMs: 2",
            "gammaMs: 0, epsilonMs: 0, deltaMs: 0",
            &["variants[0].latency: 0"],
        ),
        (
            "per-core",
            "per-socket",
            &[
                "variants[0].latency.parallelism",
                "per-socket",
                "per-core or",
            ],
        ),
        (
            "parallelism: 2",
            "parallelism: 0",
            &["variants[1].latency.parallelism: 0"],
        ),
        (
            "parallelism: 2",
            "parallelism: 100001",
            &["variants[1].latency.parallelism: 100001"],
        ),
        (
            "resize: http://127.0.0.1:3/cores",
            "batch: 2000\n  resize: http://a/",
            &["variants[1].batch: 2000", "1 to 1024"],
        ),
        (
            "resize: http://127.0.0.1:3/cores",
            "batchDelay: 5ms\n  resize: http://a/",
            &["variants[1].batchDelay: 5ms", "left out where batch is 1"],
        ),
        (
            "resize: http://127.0.0.1:3/cores",
            "batch: 2\n  batchDelay: 2s\n  resize: http://a/",
            &["variants[1].batchDelay: 2s", "0s to 1s"],
        ),
        (
            "resize: http://127.0.0.1:3/cores",
            "tellBatch: true\n  resize: http://a/",
            &["variants[1].tellBatch: true", "where batch is 1"],
        ),
        (
            "  resize: http://127.0.0.1:3/cores\n",
            "",
            &["variants[1].resize: missing", "mode active"],
        ),
        (
            "http://127.0.0.1:3/cores",
            "file:///cores",
            &["variants[1].resize: file:///cores"],
        ),
        (
            "mode: active",
            "mode: active\nobjective: {delta: 1}",
            &["objective", "delta", "alpha"],
        ),
        (
            "mode: active",
            "mode: active\nobjective: {beta: -1}",
            &["objective.beta: -1", "0 to 1000"],
        ),
        (
            "mode: active",
            "mode: active\ndemand: {headroom: 0.9}",
            &["demand.headroom: 0.9", "1 to 10"],
        ),
        (
            "mode: active",
            "mode: active\ndemand: {forecaster: auto, quantile: 0.2}",
            &["demand.quantile: 0.2", "0.5 to 0.999"],
        ),
        (
            "mode: active",
            "mode: active\ndemand: {forecaster: prophet}",
            &["demand.forecaster", "prophet", "smoothing"],
        ),
        (
            "mode: active",
            "mode: active\ndemand: {moving: 20s}",
            &["demand.moving: 20s", "100ms to 10s, at most window"],
        ),
        (
            "mode: active",
            "mode: active\ndemand: {window: 601s}",
            &["demand.window: 10m1s", "1s to 10m"],
        ),
    ];
    for (old, new, expected) in table {
        let text = small().replacen(old, new, 1);
        assert_ne!(text, small(), "'{old}' is not in the file");
        let error = Service::from_yaml(&text).expect_err(new).to_string();
        for part in *expected {
            assert!(
                error.contains(part),
                "{new}: '{error}' does not say '{part}'"
            );
        }
    }
}
