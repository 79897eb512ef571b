//! Tests of resources and their limits: accepted values and refusals.

use super::*;
use crate::capacity::ResourceLimit;

/// Variant b uses 6Gi and a GPU, a uses 1536Mi.
fn limited() -> String {
    let gpu = "{memory: 6Gi, nvidia.com/gpu: 1}";
    small()
        .replace(
            "{cores: 8}",
            "{cores: 8, resources: {memory: 8Gi, nvidia.com/gpu: 2}}",
        )
        .replace("name: a\n", "name: a\n  resources: {memory: 1.5Gi}\n")
        .replace("name: b\n", &format!("name: b\n  resources: {gpu}\n"))
}

#[test]
fn amounts_are_read_by_variant() {
    let limits = Service::from_yaml(&limited()).unwrap().limits.0;
    let limit = |name: &str, most, each: &[u64]| ResourceLimit {
        name: name.to_owned(),
        most,
        each: each.to_vec(),
    };
    let memory = limit("memory", 8 << 30, &[1536 << 20, 6 << 30]);
    assert_eq!(limits, [memory, limit("nvidia.com/gpu", 2, &[0, 1])]);
    assert!(Service::from_yaml(&small()).unwrap().limits.is_empty());
}

#[test]
fn refusal_names_resource_and_limit() {
    let many: Vec<String> = (0..5).map(|index| format!("r{index}: 1")).collect();
    let many = format!("resources: {{{}, ", many.join(", "));
    for (good, bad, expected) in [
        (
            "memory: 6Gi",
            "memory: lots",
            "variants[1].resources.memory: lots; it must be whole bytes or pieces, such as 64Gi, 1536Mi or 4",
        ),
        (
            "memory: 6Gi",
            "memory: 100m",
            "variants[1].resources.memory: 100m; it must be whole",
        ),
        (
            "memory: 6Gi",
            "memory: -1",
            "variants[1].resources.memory: ",
        ),
        ("memory: 6Gi", "memory: [6]", "an amount such as 64Gi or 4"),
        (
            "memory: 8Gi",
            "memory: ''",
            "budget.resources.memory: ; it must be whole bytes",
        ),
        (
            "memory: 6Gi",
            "memory: 9Gi",
            "variants[1].resources.memory: 9Gi; it must be at most budget.resources.memory (8Gi)",
        ),
        // Each would fit alone.
        (
            "memory: 8Gi",
            "memory: 7Gi",
            "variants[].resources.memory: 7680Mi; it must be at most budget.resources.memory (7Gi) for all replicas that there are at first",
        ),
        (
            "resources: {memory: 8Gi, ",
            "resources: {",
            "variants[0].resources.memory: given; it must be left out, or limited by budget.resources",
        ),
        (
            "resources: {",
            "resources: {cpu: 4, ",
            "budget.resources.cpu: given; it must be left out: cores are budget.cores",
        ),
        (
            "resources: {",
            "resources: {'a b': 4, ",
            "budget.resources.a b: given; it must be a resource of Kubernetes",
        ),
        (
            "resources: {",
            many.as_str(),
            "budget.resources: 7; it must be 0 to 4 kinds of resources",
        ),
    ] {
        let text = limited();
        assert!(text.contains(good), "{good}");
        let refused = Service::from_yaml(&text.replacen(good, bad, 1))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{bad}: {refused}");
    }
}

#[test]
fn limit_below_smallest_serving_replicas_is_refused() {
    // Neither runs initially, and one of the two must.
    let idle = |most: &str| {
        limited()
            .replace("cores: {initial: 2}", "cores: {initial: 0, min: 0}")
            .replace("cores: {initial: 2, min: 0,", "cores: {initial: 0, min: 0,")
            .replace("memory: 8Gi", &format!("memory: {most}"))
            .replace("memory: 6Gi", "memory: 1536Mi")
    };
    assert!(Service::from_yaml(&idle("1536Mi")).is_ok());
    let limited = idle("8Gi").replace(
        "memory: 8Gi, nvidia.com/gpu: 2",
        "memory: 8Gi, nvidia.com/gpu: 0",
    );
    let refused = Service::from_yaml(&limited).unwrap_err().to_string();
    assert!(
        refused.contains(
            "variants[1].resources.nvidia.com/gpu: 1; it must be at most budget.resources.nvidia.com/gpu (0)"
        ),
        "{refused}"
    );
}
