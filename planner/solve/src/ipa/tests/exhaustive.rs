//! Random small pipelines compared with exhaustive search, from the input alone.

use std::collections::BTreeMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::TOLERANCE;

const CASES: usize = 12_000;
const SEED: u64 = 2407;

/// One variant in one batch, with the minimum number of replicas that carry λ.
#[derive(Debug, Clone)]
struct Try {
    variant: usize,
    batch: u32,
    replicas: u32,
    ms: f64,
    cores: f64,
    percent: f64,
    rank: f64,
}

/// Number of pipelines of each kind.
type KindCounts = BTreeMap<&'static str, usize>;

const KINDS: [&str; 11] = [
    "feasible",
    "late",
    "overloaded",
    "tie",
    "graph",
    "shuffled",
    "ranks",
    "scaled",
    "whole",
    "without accuracy",
    "without costs",
];

#[test]
fn search_equals_exhaustive_search() {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let mut seen = KindCounts::new();
    for case in 0..CASES {
        let (input, kinds) = small::any_input(&mut random);
        for kind in kinds {
            *seen.entry(kind).or_default() += 1;
        }
        let text = serde_json::to_string(&input).unwrap();
        compare(
            &input,
            &mut seen,
            &format!("case {case} of seed {SEED}: {text}"),
        );
    }
    for kind in KINDS {
        assert!(
            seen.get(kind).is_some_and(|n| *n > 300),
            "{kind} of {seen:?}"
        );
    }
}

fn compare(input: &Input, seen: &mut KindCounts, case: &str) {
    let tries: Vec<Vec<Try>> = input
        .stages
        .iter()
        .map(|stage| tries(input, stage))
        .collect();
    let outcome = unhurried(&Problem::try_from(input.clone()).expect(case));
    if tries.iter().any(Vec::is_empty) {
        *seen.entry("overloaded").or_default() += 1;
        let nothing = matches!(
            outcome,
            Outcome::Infeasible {
                best_effort: None,
                ..
            }
        );
        assert!(nothing, "{case}: {outcome:?}");
        return;
    }
    let all = combinations(&tries);
    let longest: Vec<f64> = all.iter().map(|picks| longest(input, picks)).collect();
    let within = |limit: f64| {
        let kept = all
            .iter()
            .zip(&longest)
            .filter(move |(_, ms)| **ms <= limit * (1.0 + TOLERANCE));
        kept.map(|(picks, _)| picks.clone()).collect::<Vec<_>>()
    };
    let mut weights = input.weights;
    let kept = within(input.sla_ms);
    let (expected, found) = match outcome {
        Outcome::Optimal(plan) => {
            *seen.entry("feasible").or_default() += 1;
            (best(&kept, &all, input, weights, seen), plan)
        }
        Outcome::Infeasible {
            best_effort: Some(plan),
            ..
        } => {
            assert!(kept.is_empty(), "{case}: {plan:?} but {kept:?}");
            *seen.entry("late").or_default() += 1;
            let min = longest.iter().copied().fold(f64::INFINITY, f64::min);
            assert!((plan.latency_ms - min).abs() <= TOLERANCE * min, "{case}");
            weights.alpha = 0.0;
            (best(&within(min), &all, input, weights, seen), plan)
        }
        outcome => panic!("{case}: {outcome:?}"),
    };
    let expected = expected.expect(case);
    for ((pick, stage), planned) in expected.iter().zip(&input.stages).zip(&found.stages) {
        let name = &stage.variants[pick.variant].name;
        let same = (name, pick.batch, pick.replicas)
            == (&planned.variant, planned.batch, planned.replicas);
        assert!(same, "{case}:\n{found:?} is not\n{expected:?}");
    }
    let max = objective(input, input.weights, &expected);
    assert!(
        (max - found.objective).abs() <= 1e-9 * max.abs().max(1.0) * 10.0,
        "{case}"
    );
}

fn tries(input: &Input, stage: &StageInput) -> Vec<Try> {
    let mut distinct: Vec<f64> = Vec::new();
    for variant in &stage.variants {
        if !distinct.contains(&variant.accuracy_percent) {
            distinct.push(variant.accuracy_percent);
        }
    }
    let mut all = Vec::new();
    for (index, variant) in stage.variants.iter().enumerate() {
        let below = distinct
            .iter()
            .filter(|a| **a < variant.accuracy_percent)
            .count();
        let rank = if distinct.len() == 1 {
            1.0
        } else {
            below as f64 / (distinct.len() - 1) as f64
        };
        let batches = match &variant.batches {
            Batches::UpTo(most) => (1..=*most).collect(),
            Batches::List(list) => list.clone(),
        };
        for batch in batches {
            let l = variant.latency.ms(batch, variant.replica_cores);
            let fill_ms = f64::from(batch - 1) / input.arrival_rps * 1000.0;
            let occupancy = variant.occupancy.as_ref().unwrap_or(&variant.latency);
            let rate = f64::from(batch) * 1000.0 / occupancy.ms(batch, variant.replica_cores);
            let carries = |n: &u32| f64::from(*n) * rate >= input.arrival_rps * (1.0 - TOLERANCE);
            let Some(replicas) = (1..=variant.replicas_max).find(carries) else {
                continue;
            };
            all.push(Try {
                variant: index,
                batch,
                replicas,
                ms: l + variant.wait_ms.unwrap_or(fill_ms),
                cores: f64::from(replicas) * variant.replica_cores,
                percent: variant.accuracy_percent,
                rank,
            });
        }
    }
    all
}

/// All combinations, sorted by the choices of the first stage, then of the second, and so on.
fn combinations(tries: &[Vec<Try>]) -> Vec<Vec<Try>> {
    let mut all: Vec<Vec<Try>> = vec![Vec::new()];
    for stage in tries {
        let longer = |picks: &Vec<Try>| {
            let with = |pick: &Try| picks.iter().chain([pick]).cloned().collect();
            stage.iter().map(with).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(longer).collect();
    }
    all
}

/// End of the last stage, by recursion over the predecessors.
fn longest(input: &Input, picks: &[Try]) -> f64 {
    fn end(input: &Input, picks: &[Try], stage: usize) -> f64 {
        let before: Vec<usize> = match &input.stages[stage].after {
            None => (0..stage).rev().take(1).collect(),
            Some(names) => {
                let place = |n: &String| input.stages.iter().position(|s| s.name == *n).unwrap();
                names.iter().map(place).collect()
            }
        };
        let start = before
            .iter()
            .map(|b| end(input, picks, *b))
            .fold(0.0, f64::max);
        start + picks[stage].ms
    }
    (0..picks.len())
        .map(|stage| end(input, picks, stage))
        .fold(0.0, f64::max)
}

fn value(input: &Input, picks: &[Try]) -> f64 {
    match input.accuracy {
        Accuracy::Product => picks.iter().fold(1.0, |all, p| all * p.percent / 100.0) * 100.0,
        Accuracy::Ranks => picks.iter().map(|p| p.rank).sum(),
    }
}

fn cost(weights: Weights, picks: &[Try]) -> f64 {
    let of = |p: &Try| weights.beta * p.cores + weights.delta * f64::from(p.batch);
    picks.iter().map(of).sum()
}

fn objective(input: &Input, weights: Weights, picks: &[Try]) -> f64 {
    weights.alpha * value(input, picks) - cost(weights, picks)
}

/// Best combination by the tie rule: greatest objective, fewest cores, smallest batches, first in
/// topological order of the stages.
fn best(
    kept: &[Vec<Try>],
    all: &[Vec<Try>],
    input: &Input,
    weights: Weights,
    seen: &mut KindCounts,
) -> Option<Vec<Try>> {
    let objective_of = |picks: &Vec<Try>| objective(input, weights, picks);
    let most = kept
        .iter()
        .map(objective_of)
        .fold(f64::NEG_INFINITY, f64::max);
    let value = all
        .iter()
        .map(|p| weights.alpha * value(input, p))
        .fold(0.0, f64::max);
    let min = all
        .iter()
        .map(|p| cost(weights, p))
        .fold(f64::INFINITY, f64::min);
    let tie = TOLERANCE * value.max(min);
    // Slightly more than 0: sums are in another order here.
    let ties: Vec<&Vec<Try>> = kept
        .iter()
        .filter(|p| objective_of(p) >= most - tie - 1e-15 * most.abs())
        .collect();
    *seen.entry("tie").or_default() += usize::from(ties.len() > 1);
    let order = runnable(input);
    let rule = |picks: &&&Vec<Try>| {
        let cores: i64 = picks.iter().map(|p| (p.cores * 1e6).round() as i64).sum();
        let batches: u32 = picks.iter().map(|p| p.batch).sum();
        let place = |stage: &usize| {
            let pick = &picks[*stage];
            let list = match &input.stages[*stage].variants[pick.variant].batches {
                Batches::UpTo(_) => pick.batch as usize,
                Batches::List(list) => list.iter().position(|b| *b == pick.batch).unwrap(),
            };
            (pick.variant, list)
        };
        (cores, batches, order.iter().map(place).collect::<Vec<_>>())
    };
    ties.iter().min_by_key(rule).map(|picks| (*picks).clone())
}

/// Topological order, with the first of the input first.
fn runnable(input: &Input) -> Vec<usize> {
    let name = |stage: usize| &input.stages[stage].name;
    let mut order: Vec<usize> = Vec::new();
    while order.len() < input.stages.len() {
        let ready = |stage: &usize| match &input.stages[*stage].after {
            None => *stage == 0 || order.contains(&(stage - 1)),
            Some(after) => after.iter().all(|a| order.iter().any(|o| name(*o) == a)),
        };
        let next = (0..input.stages.len()).find(|s| !order.contains(s) && ready(s));
        order.push(next.unwrap());
    }
    order
}
