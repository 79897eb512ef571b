//! Refusals of values of a wrong type, of long numbers, and of keys that exclude each other.

use super::*;

/// Rows: text to replace in a valid file, its replacement, and the refusal's beginning.
#[test]
fn refusal_names_key_found_value_and_type() {
    for (old, new, expected) in [
        (
            "gammaMs: 40",
            "gammaMs: many",
            "variants[0].latency.gammaMs: many; it must be a number",
        ),
        (
            "gammaMs: 40",
            "gammaMs: [40]",
            "variants[0].latency.gammaMs: a list; it must be a single value",
        ),
        (
            "gammaMs: 40",
            "gammaMs: {ms: 40}",
            "variants[0].latency.gammaMs: keys with values; it must be a single value",
        ),
        (
            "gammaMs: 40",
            "gammaMs: true",
            "variants[0].latency.gammaMs: true; it must be a number",
        ),
        (
            "parallelism: 2",
            "parallelism: [2]",
            "variants[1].latency.parallelism: ",
        ),
        (
            "budget: {cores: 8}",
            "budget: 8",
            "budget: 8; it must be keys with values",
        ),
        (
            "cores: 8",
            "cores: 2.5",
            "budget.cores: 2.5; it must be a multiple of budget.step (1)",
        ),
        (
            "cores: 8",
            "cores: -1",
            "budget.cores: -1; it must be a number of cores",
        ),
        (
            "[\"http://127.0.0.1:1/stats\"]",
            "http://127.0.0.1:1/stats",
            "proxies.stats: http://127.0.0.1:1/stats; it must be a list",
        ),
        (
            "cluster: a\n",
            "cluster: [a]\n",
            "variants[0].cluster: a list; it must be a single value",
        ),
        (
            "cores: 8",
            "cores: 8, cores: 9",
            "budget.cores: a duplicate key; it must be given once",
        ),
        (
            "slo: 1s",
            "slo: [1s]",
            "slo: a list; it must be a single value",
        ),
        (
            "mode: active",
            "mode: active\nclasses: gold",
            "classes: gold; it must be a list",
        ),
        (
            "resize: http://127.0.0.1:3/cores",
            "cancels: 2\n  resize: http://127.0.0.1:3/cores",
            "variants[1].cancels: 2; it must be true or false",
        ),
    ] {
        refused(old, new, expected);
    }
}

/// A number of 309 digits is no message.
#[test]
fn long_numbers_are_shown_in_scientific_notation() {
    for (old, new, expected) in [
        (
            "gammaMs: 40",
            "gammaMs: 1e308",
            "variants[0].latency.gammaMs: 1e308; it must be 0 to",
        ),
        (
            "slopeRps: 20",
            "slopeRps: -1e300",
            "variants[0].capacity.slopeRps: -1e300; it must be",
        ),
        (
            "accuracy: 80",
            "accuracy: 123456789012345678901234567890",
            "variants[1].accuracy: 1.2345678901234568e29; it must be 0 to 100",
        ),
        (
            "mode: active",
            "mode: active\nobjective: {alpha: 1e-300, beta: 1e300}",
            "objective.beta: 1e300; it must be 0 to 1000",
        ),
    ] {
        refused(old, new, expected);
    }
}

#[test]
fn keys_that_exclude_each_other_are_both_named() {
    let pods = "\"], pods: {labels: {app: gateway}}";
    let mut spec = ServiceSpec::from_yaml(&small().replace("\"]", pods)).unwrap();
    (spec.service, spec.listen, spec.key_env) = (None, None, None);
    let refused = Service::from_resource("demo", spec).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "proxies.stats, pods: all given; it must be exactly one of these: stats (addresses), dns (a name of all \
         proxies) or, in a resource, pods (labels of the proxies' pods)"
    );
}

fn refused(old: &str, new: &str, expected: &str) {
    let text = small().replacen(old, new, 1);
    assert_ne!(text, small(), "'{old}' is not in the file");
    let refused = Service::from_yaml(&text).expect_err(new).to_string();
    assert!(refused.starts_with(expected), "{new}: {refused}");
    assert!(refused.chars().count() < 250, "{new}: {refused}");
}
