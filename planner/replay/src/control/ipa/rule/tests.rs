//! IPA's decisions beside the paper's worked example, the exact solver, and the flaw of the program.

use std::path::Path;

use proptest::prelude::*;
use weir_solve::ipa::{
    Accuracy, Batches, Input, Problem as Solvable, StageInput, VariantInput, solve,
};
use weir_solve::{Outcome, TimeLimit};

use super::*;
use crate::scenario::{Overrides, read_text};

/// Accuracy, cores, δ, η and initial replicas of a variant.
type Row = (f64, u32, f64, f64, u32);

/// Stages with these variants of each, in batches up to `batch`.
fn service(
    (slo_ms, batch, tail): (u32, u32, f64),
    weights: (f64, f64),
    stages: &[&[Row]],
) -> Service {
    let (alpha, beta) = weights;
    let mut text = format!(
        "name: t
length_s: 1
load: {{ generator: poisson, rps: 1 }}
service:
  service: t
  policy: ipa
  ipa: {{ alpha: {alpha}, beta: {beta}, delta: 0.000001 }}
  slo: {slo_ms}ms
  mode: active
  budget: {{ cores: 4000 }}
  stages:
"
    );
    for (stage, variants) in stages.iter().enumerate() {
        text += &format!("    - name: s{stage}\n      variants:\n");
        for (place, (accuracy, cores, delta, eta, initial)) in variants.iter().enumerate() {
            text += &format!(
                "        - name: v{stage}{place}
          cluster: v{stage}{place}
          accuracy: {accuracy}
          cores: {{ initial: {cores}, min: {cores}, max: {cores} }}
          replicas: {{ initial: {initial}, min: 0, max: 100 }}
          readiness: 1s
          batch: {batch}
          latency: {{ deltaMs: {delta}, etaMs: {eta}, parallelism: 1, tail: {tail} }}
"
            );
        }
    }
    let read = read_text(&text, Path::new(""), Overrides::default());
    read.unwrap_or_else(|error| panic!("{error}: {text}"))
        .0
        .service
}

/// Variant, replicas and batch of each stage.
fn best(rule: IpaRule, service: &Service, load_rps: f64) -> Option<Vec<(usize, u32, u32)>> {
    by_accuracy((rule, IpaAccuracy::Product), service, load_rps)
}

fn by_accuracy(
    rule: (IpaRule, IpaAccuracy),
    service: &Service,
    load_rps: f64,
) -> Option<Vec<(usize, u32, u32)>> {
    let choices = Problem::new(rule, service, load_rps, Replicas::Fewest).best()?;
    let each = choices.iter();
    Some(
        each.map(|one| (one.variant, one.replicas, one.batch))
            .collect(),
    )
}

/// Table 3: YOLOv5n and YOLOv5m, ResNet18 and ResNet50, on a line through its latencies for batches of 1 and 8.
const TABLE_3: [&[Row]; 2] = [
    &[
        (45.7, 1, 401.0 / 7.0, 159.0 / 7.0, 2),
        (64.1, 2, 1307.0 / 7.0, 1122.0 / 7.0, 0),
    ],
    &[
        (69.75, 1, 310.0 / 7.0, 201.0 / 7.0, 2),
        (76.13, 1, 697.0 / 7.0, 255.0 / 7.0, 0),
    ],
];

/// The table's replicas for 14 requests/s one by one: A1, A2 and B1. It has three of B2, of which two carry them.
#[test]
fn table_3_is_chosen_by_weights_and_objective() {
    let with = |slo_ms, weights| service((slo_ms, 1, 1.0), weights, &TABLE_3);
    let chosen = |slo_ms, weights| best(IpaRule::Paper, &with(slo_ms, weights), 14.0);
    assert_eq!(chosen(600, (0.0, 1.0)), Some(vec![(0, 2, 1), (2, 2, 1)]));
    assert_eq!(chosen(600, (10.0, 1.0)), Some(vec![(1, 5, 1), (3, 2, 1)]));
    // 483 ms do not fit 450.
    assert_eq!(chosen(450, (10.0, 1.0)), Some(vec![(1, 5, 1), (2, 2, 1)]));
    assert_eq!(chosen(150, (10.0, 1.0)), None);
}

/// With the paper's weights, 2 and 1, of the accuracy as a fraction, a core is worth more than all accuracy: of the
/// cheapest variants the most accurate serve, as in its Figure 8.
#[test]
fn published_weights_choose_the_best_of_the_cheapest() {
    let service = service((6890, 8, 1.0), (0.02, 1.0), &TABLE_3);
    assert_eq!(
        best(IpaRule::Paper, &service, 5.0),
        Some(vec![(0, 1, 1), (3, 1, 1)])
    );
}

/// Two stages whose ranks are 0, 0.5 and 1; a core more costs as much as two percent.
#[test]
fn ranks_count_instead_of_accuracies() {
    let first: &[_] = &[
        (50.0, 1, 0.0, 50.0, 1),
        (51.0, 2, 0.0, 50.0, 0),
        (80.0, 20, 0.0, 50.0, 0),
    ];
    let second: &[_] = &[(50.0, 1, 0.0, 50.0, 1), (90.0, 2, 0.0, 50.0, 0)];
    let service = service((1000, 1, 1.0), (0.5, 1.0), &[first, second]);
    let chosen = |accuracy| {
        let chosen = by_accuracy((IpaRule::Paper, accuracy), &service, 5.0).unwrap();
        (chosen[0].0, chosen[1].0)
    };
    // From 25 to 72 %, by 45, 45.9, 72 and less.
    assert_eq!(chosen(IpaAccuracy::Product), (0, 4));
    // A rank of the first is worth 47 / 4 %, one of the second 47 / 2 %.
    assert_eq!(chosen(IpaAccuracy::RankSum), (1, 4));
    // Half of the greatest, where the product of the accuracies hardly rises.
    assert_eq!(chosen(IpaAccuracy::RankProduct), (1, 4));
}

#[test]
fn program_extends_the_objective_by_batches_that_are_not_chosen() {
    // Two variants, batches of 1, 2 and 4, 10 requests/s: 2·2/10 s more than 300 ms. Batches of 3 do not exist.
    let stages: [&[_]; 1] = [&[(60.0, 1, 0.0, 701.0, 1), (70.0, 1, 0.0, 700.0, 0)]];
    let service = service((300, 4, 1.0), (0.0, 1.0), &stages);
    assert_eq!(best(IpaRule::Paper, &service, 10.0), None);
    assert_eq!(best(IpaRule::Code, &service, 10.0), Some(vec![(1, 2, 4)]));
    // It rounds the load: the extension for 10.6 requests/s is that for 11.
    assert_eq!(best(IpaRule::Code, &service, 10.6), None);
}

#[test]
fn program_counts_the_capacity_of_the_mean_latency() {
    let stages: [&[_]; 1] = [&[(60.0, 1, 0.0, 100.0, 1)]];
    let service = service((1000, 1, 1.5), (0.0, 1.0), &stages);
    assert_eq!(best(IpaRule::Code, &service, 20.0), Some(vec![(0, 2, 1)]));
    assert_eq!(best(IpaRule::Paper, &service, 20.0), Some(vec![(0, 3, 1)]));
}

#[test]
fn rim_changes_variants_and_batches_on_its_replicas() {
    let stages: [&[_]; 1] = [&[(50.0, 1, 50.0, 50.0, 3), (90.0, 2, 100.0, 100.0, 0)]];
    let service = service((2000, 4, 1.0), (1.0, 1.0), &stages);
    let rim = |load_rps| {
        let problem = Problem::new(
            (IpaRule::Rim, IpaAccuracy::Product),
            &service,
            load_rps,
            Replicas::Fixed(&[3]),
        );
        let choices = problem.best()?;
        Some((choices[0].variant, choices[0].replicas, choices[0].batch))
    };
    // Three replicas carry 15 requests/s of the accurate variant one by one, and 24 in batches of 4.
    assert_eq!(rim(1.0), Some((1, 3, 1)));
    assert_eq!(rim(23.0), Some((1, 3, 4)));
    assert_eq!(rim(30.0), Some((0, 3, 1)));
    assert_eq!(rim(100.0), None);
}

/// Objective of the exact solver for the same pipeline, whose profiles have a tail of 1.
fn solved(service: &Service, load_rps: f64) -> Option<f64> {
    let variant = |variant: &Variant| VariantInput {
        name: variant.name.clone(),
        accuracy_percent: variant.accuracy,
        replica_cores: each(variant).as_f64(),
        latency: variant.profile.latency.model.into(),
        batches: Batches::UpTo(variant.profile.batch),
        occupancy: None,
        wait_ms: None,
        replicas_max: REPLICAS_MAX,
    };
    let stage = |stage: &weir_planner::service::Stage| StageInput {
        name: stage.name.clone(),
        after: None,
        variants: service.variants[stage.variants.clone()]
            .iter()
            .map(variant)
            .collect(),
    };
    let problem: Solvable = Input {
        arrival_rps: load_rps,
        sla_ms: service.slo.as_secs_f64() * 1e3,
        weights: weights(service),
        accuracy: Accuracy::Product,
        stages: service.stages.iter().map(stage).collect(),
    }
    .try_into()
    .unwrap();
    let elapsed = || std::time::Duration::ZERO;
    let limit = TimeLimit::new(std::time::Duration::from_secs(60), &elapsed);
    match solve(&problem, &limit) {
        Outcome::Optimal(plan) => Some(plan.objective),
        Outcome::Infeasible { .. } => None,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn paper_rule_finds_the_optimum_of_the_exact_solver(
        load_rps in 0.5..40.0f64,
        slo_ms in 200..3000u32,
        alpha in 0.0..3.0f64,
        batch in 1..5u32,
        variants in proptest::collection::vec((30.0..90.0f64, 1..4u32, 1.0..80.0f64, 5.0..200.0f64), 4..8),
    ) {
        let with = |(accuracy, cores, delta, eta): (f64, u32, f64, f64)| (accuracy, cores, delta, eta, 1);
        let variants: Vec<_> = variants.into_iter().map(with).collect();
        let (first, second) = variants.split_at(2);
        let service = service((slo_ms, batch, 1.0), (alpha, 1.0), &[first, second]);
        let problem = Problem::new((IpaRule::Paper, IpaAccuracy::Product), &service, load_rps, Replicas::Fewest);
        let mut search = Search { problem: &problem, chosen: Vec::new(), best: None };
        search.from(0, 0.0);
        let found = search.best.map(|(worth, _)| worth.objective);
        let solved = solved(&service, load_rps);
        prop_assert_eq!(found.is_some(), solved.is_some());
        if let (Some(found), Some(solved)) = (found, solved) {
            prop_assert!((found - solved).abs() < 1e-6 * (1.0 + solved.abs()), "{} {}", found, solved);
        }
    }
}
