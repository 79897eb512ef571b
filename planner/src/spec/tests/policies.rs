//! Tests of the policies and of pipeline stages: defaults and refusals.

use super::*;
use crate::policy::{Infaas, Infadapter, Ipa, Sponge, Themis};
use crate::service::{Replicas, SharedPolicy, Stage};
use crate::solve::law::Parallelism;

/// Variant `name`, per core, in batches up to 8, initially without cores unless `more` sets them.
fn variant(name: &str, more: &str) -> String {
    format!(
        "{{name: {name}, cluster: {name}, accuracy: 70, cores: {{initial: 1, least: 0}}, batch: 8, \
         latency: {{gamma_ms: 40, epsilon_ms: 1, delta_ms: 2, eta_ms: 0, parallelism: per-core}}, \
         resize: 'http://127.0.0.1:2/cores'{more}}}"
    )
}

fn head() -> String {
    small().split("variants:").next().unwrap().to_owned()
}

fn pipeline() -> String {
    let stage = |name: &str, variants: [&str; 2]| {
        let variants = variants.map(|name| variant(name, ""));
        format!("- {{name: {name}, variants: [{}]}}\n", variants.join(", "))
    };
    let (detect, classify) = (stage("detect", ["n", "m"]), stage("classify", ["r", "s"]));
    format!("{}policy: ipa\nstages:\n{detect}{classify}", head())
}

fn sponge() -> String {
    let one = variant("a", "")
        .replace("per-core", "1")
        .replace("least: 0", "least: 1");
    format!("{}policy: sponge\nvariants: [{one}]\n", head())
}

fn infaas() -> String {
    format!(
        "{}policy: infaas\nvariants: [{}]\n",
        head(),
        variant("a", "")
    )
}

/// Replicas that execute one batch at a time: initially 1 of 1 core, up to 4 of up to 4 cores.
fn replicated(name: &str, least: u32) -> String {
    variant(name, "").replace("per-core", "1").replace(
        "least: 0}",
        &format!("least: 1, greatest: 4}}, replicas: {{initial: 1, least: {least}, greatest: 4}}"),
    )
}

fn themis() -> String {
    let stage = |name: &str| format!("- {{name: {name}, variants: [{}]}}\n", replicated(name, 1));
    let (detect, classify) = (stage("detect"), stage("classify"));
    format!("{}policy: themis\nstages:\n{detect}{classify}", head())
}

#[test]
fn policies_have_defaults() {
    let read = |text: &str| Service::from_yaml(text).unwrap();
    assert_eq!(read(&small()).policy, SharedPolicy::new(Infadapter));
    let rule = Sponge {
        delta: 0.001,
        percentile: 99.0,
    };
    assert_eq!(read(&sponge()).policy, SharedPolicy::new(rule));
    let rule = Ipa {
        alpha: 2.0,
        beta: 1.0,
        delta: 1e-6,
        tolerance: 1.0,
    };
    assert_eq!(read(&pipeline()).policy, SharedPolicy::new(rule));
    let rule = Infaas {
        accuracy_least: 0.0,
        slack_rps: 0.0,
        loading_weight_per_s: 0.01,
    };
    assert_eq!(read(&infaas()).policy, SharedPolicy::new(rule));
    let rule = Themis {
        horizontal_cores: 1,
        tolerance: 1.0,
    };
    assert_eq!(read(&themis()).policy, SharedPolicy::new(rule));
}

#[test]
fn example_file_shows_valid_keys_of_each_policy() {
    for (policy, text) in [
        ("sponge", sponge()),
        ("ipa", pipeline()),
        ("infaas", infaas()),
        ("themis", themis()),
    ] {
        let shown = EXAMPLE.lines().find_map(|line| {
            let line = line.trim_start_matches(['#', ' ']);
            line.starts_with(&format!("{policy}: {{")).then_some(line)
        });
        let shown = shown.unwrap_or_else(|| panic!("the example does not show {policy}"));
        let spelled = Service::from_yaml(&format!("{text}{shown}\n")).unwrap();
        assert_eq!(
            spelled.policy,
            Service::from_yaml(&text).unwrap().policy,
            "the defaults"
        );
    }
}

#[test]
fn pipeline_variants_belong_to_stages() {
    let service = Service::from_yaml(&pipeline()).unwrap();
    let stage = |name: &str, variants| Stage {
        name: name.to_owned(),
        variants,
    };
    assert_eq!(
        service.stages,
        [stage("detect", 0..2), stage("classify", 2..4)]
    );
    let names: Vec<&str> = service.variants.iter().map(|v| v.name.as_str()).collect();
    assert_eq!(names, ["n", "m", "r", "s"]);
    assert_eq!(
        service.variants[0].profile.parallelism,
        Parallelism::PerCore
    );
    let one = Service::from_yaml(&small()).unwrap();
    assert_eq!(one.stages, [stage("demo", 0..2)], "a service is one stage");
}

#[test]
fn refusal_names_key_value_and_allowed_values() {
    type Row<'a> = (String, &'a str, &'a str, &'a [&'a str]);
    let table: &[Row] = &[
        (
            small(),
            "mode: active",
            "mode: active\npolicy: cost",
            &["policy", "cost", "themis"],
        ),
        (
            small(),
            "mode: active",
            "mode: active\nsponge: {}",
            &["sponge: given", "left out, unless policy is sponge"],
        ),
        (
            small(),
            "mode: active",
            "mode: active\npolicy: ipa\ninfaas: {}",
            &["infaas: given", "policy is infaas"],
        ),
        (
            small(),
            "  capacity: {slope_rps: 10, intercept_rps: -2}\n",
            "",
            &["variants[1].capacity: missing", "policy infadapter"],
        ),
        (
            small(),
            "mode: active",
            "mode: active\npolicy: sponge",
            &["variants: 2", "1 to 1", "sponge"],
        ),
        (
            sponge(),
            "parallelism: 1",
            "parallelism: per-core",
            &["variants[0].latency.parallelism", "1, with policy sponge"],
        ),
        (
            sponge(),
            "least: 1",
            "least: 0",
            &["variants[0].cores.least: 0", "1 or more"],
        ),
        (
            sponge(),
            "policy: sponge",
            "policy: sponge\nsponge: {percentile: 101}",
            &["sponge.percentile: 101", "1 to 100 percent"],
        ),
        (
            sponge(),
            "policy: sponge",
            "policy: sponge\nsponge: {gamma: 1}",
            &["sponge", "gamma", "delta"],
        ),
        (
            pipeline(),
            "policy: ipa",
            "policy: ipa\nipa: {beta: -1}",
            &["ipa.beta: -1", "0 to 1000"],
        ),
        (
            pipeline(),
            "policy: ipa",
            "policy: infadapter",
            &["stages: given", "unless policy is ipa"],
        ),
        (
            pipeline(),
            "name: classify",
            "name: detect",
            &["stages[1].name: detect", "stands twice"],
        ),
        (
            pipeline(),
            "name: classify",
            "name: Classify",
            &["stages[1].name: Classify", "a-z"],
        ),
        (
            pipeline(),
            "{name: s,",
            "{name: n,",
            &["stages[1].variants[1].name: n", "stands twice"],
        ),
        (
            pipeline(),
            "parallelism: per-core",
            "parallelism: 2",
            &[
                "stages[0].variants[0].latency.parallelism",
                "per-core, with policy ipa",
            ],
        ),
        (
            pipeline(),
            "stages:",
            "variants: []\nstages:",
            &["variants, stages: both given", "exactly one"],
        ),
        (
            head(),
            "mode: active",
            "mode: active\npolicy: ipa",
            &["variants, stages: both missing"],
        ),
        (
            infaas(),
            "initial: 1,",
            "initial: 1, greatest: 4,",
            &["variants[0].cores.greatest: 4", "8, with policy infaas"],
        ),
        (
            infaas(),
            "policy: infaas",
            "policy: infaas\ninfaas: {accuracy_least: 101}",
            &["infaas.accuracy_least: 101", "0 to 100 percent"],
        ),
        (
            infaas(),
            "policy: infaas",
            "policy: infaas\ninfaas: {loading_weight_per_s: .inf}",
            &["infaas.loading_weight_per_s: inf"],
        ),
    ];
    for (good, old, new, says) in table {
        let text = good.replacen(old, new, 1);
        assert_ne!(&text, good, "'{old}' is not in the file");
        let error = Service::from_yaml(&text).expect_err(new).to_string();
        for part in *says {
            assert!(
                error.contains(part),
                "{new}: '{error}' does not say '{part}'"
            );
        }
    }
}

#[test]
fn initial_allocation_counts_cores_per_replica() {
    let service = Service::from_yaml(&themis()).unwrap();
    let variant = &service.variants[0];
    assert_eq!((variant.least, variant.greatest), (1, 4));
    let replicas = Replicas {
        least: 1,
        greatest: 4,
    };
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
        "initial: 1, least: 1, greatest: 4}, replicas: {initial: 1",
        "initial: 2, least: 2, greatest: 2}, replicas: {initial: 1",
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
            themis().replacen(
                "least: 1, greatest: 4}, batch",
                "least: 0, greatest: 4}, batch",
                1,
            ),
            &[
                "stages[0].variants[0].replicas.least: 0",
                "every stage serves",
            ],
        ),
        (
            themis().replacen("replicas: {initial: 1", "replicas: {initial: 5", 1),
            &[
                "stages[0].variants[0].replicas.initial: 5",
                "replicas.least to replicas.greatest",
            ],
        ),
        (
            themis().replacen("greatest: 4}, batch", "greatest: 1001}, batch", 1),
            &["stages[0].variants[0].replicas.greatest: 1001", "1 to 1000"],
        ),
        (
            themis().replacen("parallelism: 1", "parallelism: 2", 1),
            &[
                "stages[0].variants[0].latency.parallelism: 2",
                "1, with policy themis",
            ],
        ),
        (
            format!("{}themis: {{horizontal_cores: 5}}\n", themis()),
            &[
                "stages[0].variants[0].cores: 1 to 4",
                "themis.horizontal_cores (5)",
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
            &["variants[0].cores.least: 1", "4, as cores.greatest"],
        ),
        (
            one(
                "infaas",
                replicated("a", 1)
                    .replace(
                        "least: 1, greatest: 4}, replicas",
                        "least: 4, greatest: 4}, replicas",
                    )
                    .replace("cores: {initial: 1", "cores: {initial: 4"),
            ),
            &["variants[0].replicas.least: 1", "0, with policy infaas"],
        ),
        (
            one(
                "infaas",
                variant("a", "").replace("batch: 8", "batch: 8, replicas: {initial: 2}"),
            ),
            &["variants[0].replicas: 1 to 2", "its cores are its replicas"],
        ),
    ];
    for (text, says) in cases {
        let error = Service::from_yaml(&text).expect_err(&text).to_string();
        for part in says {
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
    let cores = pipeline().replacen("least: 0", "least: 1", 1);
    let service = Service::from_yaml(&cores).unwrap();
    assert_eq!([0, 1].map(|n: usize| service.variants[n].least), [1, 0]);
}
