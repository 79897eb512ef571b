//! Tests of the policies and of pipeline stages: defaults and refusals.

mod replicas;

use std::num::NonZeroU32;

use weir_api::Cores;

use super::*;
use crate::policy::{Infaas, Infadapter, Ipa, Sponge, Themis};
use crate::service::{Replicas, SharedPolicy, Stage};
use crate::solve::latency_model::Parallelism;

/// Variant `name`, per core, in batches up to 8, initially without cores unless `more` sets them.
fn variant(name: &str, more: &str) -> String {
    format!(
        "{{name: {name}, cluster: {name}, accuracy: 70, cores: {{initial: 1, min: 0}}, batch: 8, \
         latency: {{gammaMs: 40, epsilonMs: 1, deltaMs: 2, etaMs: 0, parallelism: per-core}}, \
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
        .replace("min: 0", "min: 1");
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
fn replicated(name: &str, min: u32) -> String {
    variant(name, "").replace("per-core", "1").replace(
        "min: 0}",
        &format!("min: 1, max: 4}}, replicas: {{initial: 1, min: {min}, max: 4}}"),
    )
}

fn themis() -> String {
    let stage = |name: &str| format!("- {{name: {name}, variants: [{}]}}\n", replicated(name, 1));
    let (detect, classify) = (stage("detect"), stage("classify"));
    format!("{}policy: themis\nstages:\n{detect}{classify}", head())
}

#[test]
fn mean_time_is_enough_of_a_profile() {
    let one = variant("a", "");
    let (before, _) = one.split_once("gammaMs").unwrap();
    let (_, after) = one.split_once("per-core").unwrap();
    let read = |latency: &str| {
        let text = format!("{}variants: [{before}{latency}{after}]\n", head());
        Service::from_yaml(&text).unwrap().variants[0].profile
    };
    let profile = read("meanMs: 40");
    assert_eq!(profile.parallelism, Parallelism::Fixed(NonZeroU32::MIN));
    // A batch of 8 in 40 ms, of which 0.8 is planned with.
    let rps = profile.capacity(Cores::whole(2), 500.0).0;
    assert!((rps - 160.0).abs() < 1e-9, "{rps}");
    let two = read("meanMs: 40, parallelism: 2").capacity(Cores::whole(2), 500.0);
    assert!((two.0 - 320.0).abs() < 1e-9, "{two:?}");
    // The papers of the other policies plan with all of it.
    let all = Service::from_yaml(&infaas()).unwrap();
    assert_eq!(all.variants[0].profile.utilisation, 1.0);
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
        accuracy_min: 0.0,
        slack_rps: 0.0,
        loading_weight_per_s: 0.01,
    };
    assert_eq!(read(&infaas()).policy, SharedPolicy::new(rule));
    let rule = Themis {
        horizontal_cores: weir_api::Cores::whole(1),
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
            "min: 1",
            "min: 0",
            &["variants[0].cores.min: 0", "1 or more"],
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
            "initial: 1, max: 4,",
            &["variants[0].cores.max: 4", "8, with policy infaas"],
        ),
        (
            infaas(),
            "policy: infaas",
            "policy: infaas\ninfaas: {accuracyMin: 101}",
            &["infaas.accuracyMin: 101", "0 to 100 percent"],
        ),
        (
            infaas(),
            "policy: infaas",
            "policy: infaas\ninfaas: {loadingWeightPerSecond: .inf}",
            &["infaas.loadingWeightPerSecond: inf"],
        ),
    ];
    for (good, old, new, expected) in table {
        let text = good.replacen(old, new, 1);
        assert_ne!(&text, good, "'{old}' is not in the file");
        let error = Service::from_yaml(&text).expect_err(new).to_string();
        for part in *expected {
            assert!(
                error.contains(part),
                "{new}: '{error}' does not say '{part}'"
            );
        }
    }
}
