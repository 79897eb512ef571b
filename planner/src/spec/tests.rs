//! Tests of the service file: accepted files, and refusals that name the key, the value and the allowed
//! values.

use std::time::Duration;

use super::*;
use crate::service::Mode;

mod bounds;
mod limits;
mod policies;
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
        "latency_budget",
        "downstream_ms",
        "cycle_ms",
        "plan_max_age_ms",
        "policy",
        "objective",
        "demand",
        "solver",
        "resize",
        "  timeout_ms",
        "    min",
        "    max",
        "    utilisation",
        "    tail",
        "  batch",
        "  batch_delay_ms",
        "  tell_batch",
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
            "slo_ms",
            "slo_millis",
            &["slo_millis", "unknown field", "slo_ms"],
        ),
        ("slo_ms: 1000\n", "", &["missing field `slo_ms`"]),
        ("slo_ms: 1000", "slo_ms: soon", &["slo_ms: ", "soon"]),
        (
            "slo_ms: 1000",
            "slo_ms: 0",
            &["slo_ms: 0", "1 to 3600000 ms"],
        ),
        ("slo_ms: 1000", "slo_ms: -1", &["slo_ms: ", "-1"]),
        (
            "slo_ms: 1000",
            "slo_ms: 1000\nslo_ms: 2000",
            &["duplicate", "slo_ms"],
        ),
        (
            "slo_ms: 1000",
            "slo_ms: 1000\nlatency_budget: 1.5",
            &["latency_budget: 1.5", "0.01 to 1"],
        ),
        (
            "slo_ms: 1000",
            "slo_ms: 1000\nlatency_budget: .nan",
            &["latency_budget: NaN"],
        ),
        (
            "slo_ms: 1000",
            "slo_ms: 1000\ndownstream_ms: 1000",
            &["downstream_ms: 1000", "0 to 999 ms, less than slo_ms"],
        ),
        (
            "slo_ms: 1000",
            "slo_ms: 1000\ndownstream_ms: -1",
            &["downstream_ms: -1"],
        ),
        (
            "slo_ms: 1000",
            "slo_ms: 1000\ndownstream_ms: .nan",
            &["downstream_ms: NaN"],
        ),
        ("service: demo", "service: Demo", &["service: Demo", "a-z"]),
        (
            "127.0.0.1:0",
            "localhost",
            &["listen: localhost", "127.0.0.1:8080"],
        ),
        (
            "key_env: WEIR_KEY\n",
            "",
            &["key_env, key_file: both missing", "exactly one"],
        ),
        (
            "key_env: WEIR_KEY",
            "key_env: A\nkey_file: b",
            &["both given"],
        ),
        ("key_env: WEIR_KEY", "key_env: A=B", &["key_env: A=B"]),
        ("key_env: WEIR_KEY", "key: secret", &["unknown field `key`"]),
        (
            "cycle_ms: 1000",
            "cycle_ms: 10",
            &["cycle_ms: 10", "100 to 60000 ms"],
        ),
        (
            "cycle_ms: 1000",
            "cycle_ms: 200",
            &[
                "solver.time_limit_ms: 250",
                "1 to 199 ms, less than cycle_ms",
            ],
        ),
        (
            "cycle_ms: 1000",
            "cycle_ms: 1000\nsolver: {time_limit_ms: 1000}",
            &["solver.time_limit_ms: 1000", "1 to 999"],
        ),
        (
            "cycle_ms: 1000",
            "cycle_ms: 1000\nresize: {timeout_ms: 1000}",
            &["resize.timeout_ms: 1000", "1 to 999"],
        ),
        (
            "cycle_ms: 1000",
            "cycle_ms: 1000\nplan_max_age_ms: 2000",
            &["plan_max_age_ms: 2000", "2001 to", "two cycles"],
        ),
        (
            "cycle_ms: 1000",
            "cycle_ms: 1000\nresize: {scale_down_after_s: -1}",
            &["resize.scale_down_after_s: -1", "0 to 3600 s"],
        ),
        (
            "http://127.0.0.1:1/stats\"]",
            "http://127.0.0.1:1/stats\"], interval_ms: 99",
            &["proxies.interval_ms: 99", "100 to 1000", "cycle_ms"],
        ),
        (
            "http://127.0.0.1:1/stats\"]",
            "http://127.0.0.1:1/stats\"], interval_ms: 1001",
            &["proxies.interval_ms: 1001", "100 to 1000"],
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
            &["proxies.stats: 0", "1 to 256"],
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
            "slope_rps: 20",
            "slope_rps: .inf",
            &["variants[0].capacity.slope_rps: inf"],
        ),
        (
            "intercept_rps: -2}",
            "intercept_rps: -2, utilisation: 0}",
            &["variants[0].capacity.utilisation: 0", "0.01 to 1"],
        ),
        (
            "gamma_ms: 40",
            "gamma_ms: -40",
            &["variants[0].latency.gamma_ms: -40"],
        ),
        (
            "gamma_ms: 40, epsilon_ms: 1, delta_ms: 2",
            "gamma_ms: 0, epsilon_ms: 0, delta_ms: 0",
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
            "batch_delay_ms: 5\n  resize: http://a/",
            &["variants[1].batch_delay_ms: 5", "left out where batch is 1"],
        ),
        (
            "resize: http://127.0.0.1:3/cores",
            "batch: 2\n  batch_delay_ms: 2000\n  resize: http://a/",
            &["variants[1].batch_delay_ms: 2000", "0 to 1000"],
        ),
        (
            "resize: http://127.0.0.1:3/cores",
            "tell_batch: true\n  resize: http://a/",
            &["variants[1].tell_batch: true", "where batch is 1"],
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
            "mode: active\ndemand: {moving_s: 20}",
            &["demand.moving_s: 20", "0.1 to 10"],
        ),
        (
            "mode: active",
            "mode: active\ndemand: {window_s: 601}",
            &["demand.window_s: 601", "1 to 600"],
        ),
    ];
    for (old, new, says) in table {
        let text = small().replacen(old, new, 1);
        assert_ne!(text, small(), "'{old}' is not in the file");
        let error = Service::from_yaml(&text).expect_err(new).to_string();
        for part in *says {
            assert!(
                error.contains(part),
                "{new}: '{error}' does not say '{part}'"
            );
        }
    }
}
