//! Replicas of a service file.

use super::*;

#[test]
fn initial_allocation_counts_cores_per_replica() {
    let service = Service::from_yaml(&themis()).unwrap();
    let variant = &service.variants[0];
    assert_eq!((variant.min, variant.max), (1, 4));
    let replicas = Replicas { min: 1, max: 4 };
    assert_eq!(variant.replicas, replicas);
    assert_eq!(variant.initial.to_string(), "1");
    let two = themis().replacen("replicas: {initial: 1", "replicas: {initial: 2", 1);
    let two = Service::from_yaml(&two).unwrap();
    assert_eq!(two.variants[0].initial.to_string(), "2 × 1");
    assert_eq!(
        Service::from_yaml(&pipeline()).unwrap().variants[0].replicas,
        Replicas::ONE
    );
    // A policy that changes the number of replicas keeps their cores fixed.
    let fixed = replicated("a", 0).replace(
        "initial: 1, min: 1, max: 4}, replicas: {initial: 1",
        "initial: 2, min: 2, max: 2}, replicas: {initial: 1",
    );
    for policy in ["ipa", "infaas"] {
        let text = format!("{}policy: {policy}\nvariants: [{fixed}]\n", head());
        let service = Service::from_yaml(&text).unwrap();
        assert_eq!(service.variants[0].initial.to_string(), "2");
    }
}

#[test]
fn invalid_replicas_are_refused_by_key() {
    let one = |policy: &str, variant: String| {
        format!("{}policy: {policy}\nvariants: [{variant}]\n", head())
    };
    let cases: Vec<(String, &[&str])> = vec![
        (
            themis().replacen("min: 1, max: 4}, batch", "min: 0, max: 4}, batch", 1),
            &[
                "stages[0].variants[0].replicas.min: 0",
                "every stage serves",
            ],
        ),
        (
            themis().replacen("replicas: {initial: 1", "replicas: {initial: 5", 1),
            &[
                "stages[0].variants[0].replicas.initial: 5",
                "replicas.min to replicas.max",
            ],
        ),
        (
            themis().replacen("max: 4}, batch", "max: 1001}, batch", 1),
            &["stages[0].variants[0].replicas.max: 1001", "1 to 1000"],
        ),
        (
            themis().replacen("parallelism: 1", "parallelism: 2", 1),
            &[
                "stages[0].variants[0].latency.parallelism: 2",
                "1, with policy themis; weir profile --concurrency-max 1 measures it so",
            ],
        ),
        (
            format!("{}themis: {{horizontalCores: 5}}\n", themis()),
            &[
                "stages[0].variants[0].cores: 1 to 4",
                "themis.horizontalCores (5)",
            ],
        ),
        (
            format!("{}themis: {{tolerance: -1}}\n", themis()),
            &["themis.tolerance: -1"],
        ),
        (
            one("sponge", replicated("a", 1)),
            &[
                "variants[0].replicas: 1 to 4",
                "left out, with policy sponge",
            ],
        ),
        (
            one("ipa", replicated("a", 0)),
            &["variants[0].cores.min: 1", "4, as cores.max"],
        ),
        (
            one(
                "infaas",
                replicated("a", 1)
                    .replace("min: 1, max: 4}, replicas", "min: 4, max: 4}, replicas")
                    .replace("cores: {initial: 1", "cores: {initial: 4"),
            ),
            &["variants[0].replicas.min: 1", "0, with policy infaas"],
        ),
        (
            one(
                "infaas",
                variant("a", "").replace("batch: 8", "batch: 8, replicas: {initial: 2}"),
            ),
            &["variants[0].replicas: 1 to 2", "its cores are its replicas"],
        ),
    ];
    for (text, expected) in cases {
        let error = Service::from_yaml(&text).expect_err(&text).to_string();
        for part in expected {
            assert!(error.contains(part), "'{error}' does not say '{part}'");
        }
    }
}

#[test]
fn values_beyond_limits_are_refused() {
    let stages = |count: usize| -> String {
        let stage = |n: usize| {
            format!(
                "- {{name: s{n}, variants: [{}]}}\n",
                variant(&format!("v{n}"), "")
            )
        };
        let stages: String = (0..count).map(stage).collect();
        let head = head().replace("cores: 8", "cores: 64");
        format!("{head}policy: ipa\nstages:\n{stages}")
    };
    assert_eq!(Service::from_yaml(&stages(16)).unwrap().stages.len(), 16);
    let error = Service::from_yaml(&stages(17)).unwrap_err().to_string();
    assert!(
        error.contains("stages: 17") && error.contains("1 to 16"),
        "{error}"
    );
    let none = format!("{}policy: ipa\nstages: []\n", head());
    let error = Service::from_yaml(&none).unwrap_err().to_string();
    assert!(error.contains("stages: 0"), "{error}");
    let many: Vec<String> = (0..33).map(|n| variant(&format!("v{n}"), "")).collect();
    let head = head().replace("cores: 8", "cores: 64");
    let many = format!("{head}policy: infaas\nvariants: [{}]\n", many.join(", "));
    let error = Service::from_yaml(&many).unwrap_err().to_string();
    assert!(
        error.contains("variants: 33") && error.contains("1 to 32"),
        "{error}"
    );
}

#[test]
fn ipa_accepts_minimum_of_loaded_replicas() {
    let cores = pipeline().replacen("min: 0", "min: 1", 1);
    let service = Service::from_yaml(&cores).unwrap();
    assert_eq!([0, 1].map(|n: usize| service.variants[n].min), [1, 0]);
}
