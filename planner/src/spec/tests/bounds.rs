//! Tests of resources and their limits: accepted values and refusals.

use super::*;
use crate::capacity::ResourceLimit;

/// Variant b uses 6Gi and a GPU, a uses 1536Mi.
fn held() -> String {
    let gpu = "{memory: 6Gi, nvidia.com/gpu: 1}";
    small()
        .replace(
            "{cores: 8}",
            "{cores: 8, held: {memory: 8Gi, nvidia.com/gpu: 2}}",
        )
        .replace("name: a\n", "name: a\n  holds: {memory: 1.5Gi}\n")
        .replace("name: b\n", &format!("name: b\n  holds: {gpu}\n"))
}

#[test]
fn amounts_are_read_by_variant() {
    let bounds = Service::from_yaml(&held()).unwrap().bounds.0;
    let bound = |name: &str, most, each: &[u64]| ResourceLimit {
        name: name.to_owned(),
        most,
        each: each.to_vec(),
    };
    let memory = bound("memory", 8 << 30, &[1536 << 20, 6 << 30]);
    assert_eq!(bounds, [memory, bound("nvidia.com/gpu", 2, &[0, 1])]);
    assert!(Service::from_yaml(&small()).unwrap().bounds.is_empty());
}

#[test]
fn refusal_names_resource_and_limit() {
    let many: Vec<String> = (0..5).map(|index| format!("r{index}: 1")).collect();
    let many = format!("held: {{{}, ", many.join(", "));
    for (good, bad, says) in [
        (
            "memory: 6Gi",
            "memory: lots",
            "variants[1].holds.memory: lots; it must be whole bytes or pieces, such as 64Gi, 1536Mi or 4",
        ),
        (
            "memory: 6Gi",
            "memory: 100m",
            "variants[1].holds.memory: 100m; it must be whole",
        ),
        ("memory: 6Gi", "memory: -1", "variants[1].holds.memory: "),
        ("memory: 6Gi", "memory: [6]", "an amount such as 64Gi or 4"),
        (
            "memory: 8Gi",
            "memory: ''",
            "budget.held.memory: ; it must be whole bytes",
        ),
        (
            "memory: 6Gi",
            "memory: 9Gi",
            "variants[1].holds.memory: 9Gi; it must be at most budget.held.memory (8Gi)",
        ),
        // Each would fit alone.
        (
            "memory: 8Gi",
            "memory: 7Gi",
            "variants[].holds.memory: 7680Mi; it must be at most budget.held.memory (7Gi) for all replicas that there are at first",
        ),
        (
            "held: {memory: 8Gi, ",
            "held: {",
            "variants[0].holds.memory: given; it must be left out, or bounded by budget.held",
        ),
        (
            "held: {",
            "held: {cpu: 4, ",
            "budget.held.cpu: given; it must be left out: cores are budget.cores",
        ),
        (
            "held: {",
            "held: {'a b': 4, ",
            "budget.held.a b: given; it must be a resource of Kubernetes",
        ),
        (
            "held: {",
            many.as_str(),
            "budget.held: 7; it must be 0 to 4 kinds of what replicas hold",
        ),
    ] {
        let text = held();
        assert!(text.contains(good), "{good}");
        let refused = Service::from_yaml(&text.replacen(good, bad, 1))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(says), "{bad}: {refused}");
    }
}

#[test]
fn limit_below_smallest_serving_replicas_is_refused() {
    // Neither runs initially, and one of the two must.
    let idle = |most: &str| {
        held()
            .replace("cores: {initial: 2}", "cores: {initial: 0, min: 0}")
            .replace("cores: {initial: 2, min: 0,", "cores: {initial: 0, min: 0,")
            .replace("memory: 8Gi", &format!("memory: {most}"))
            .replace("memory: 6Gi", "memory: 1536Mi")
    };
    assert!(Service::from_yaml(&idle("1536Mi")).is_ok());
    let held = idle("8Gi").replace(
        "memory: 8Gi, nvidia.com/gpu: 2",
        "memory: 8Gi, nvidia.com/gpu: 0",
    );
    let refused = Service::from_yaml(&held).unwrap_err().to_string();
    assert!(
        refused.contains(
            "variants[1].holds.nvidia.com/gpu: 1; it must be at most budget.held.nvidia.com/gpu (0)"
        ),
        "{refused}"
    );
}
