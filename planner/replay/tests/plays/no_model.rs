//! Requests that name no model, only a budget and a minimum accuracy. In simulated time; no test depends on
//! wall-clock time.

use std::fs;

use super::scenarios::{latency, played_twice, scenario_beside, variant};
use weir_replay::request::{Fate, Play, Request};
use weir_replay::scenario::Scenario;

const BUDGETS_MS: [u64; 3] = [90, 400, 1000];
const ACCURACIES: [f64; 3] = [0.0, 75.0, 78.0];

/// A service of three variants, which answer in 20, 60 and 150 ms.
fn scenario(policy: &str, contender: &str, rest: &str) -> (Scenario, Vec<Request>) {
    let folder = tempfile::tempdir().unwrap();
    let mut records = "arrival_s,budget_ms,min_accuracy\n".to_owned();
    for number in 0..1800_usize {
        let budget_ms = BUDGETS_MS[number % 3];
        let accuracy = ACCURACIES[number / 3 % 3];
        let at_s = number as f64 / 60.0;
        records += &format!("{at_s},{budget_ms},{accuracy}\n");
    }
    fs::write(folder.path().join("requests.csv"), records).unwrap();
    let variant = |name: &str, accuracy: f64, ms: f64| {
        let (rate, latency) = (1000.0 / ms, latency(ms, 0.0, "per-core"));
        let cores = "cores: { initial: 5, min: 1, max: 12 }";
        let keys = format!("{cores}, capacity: {{ slopeRps: {rate}, interceptRps: 0 }}, {latency}");
        variant(name, accuracy, &keys)
    };
    let variants = [
        variant("small", 70.0, 20.0),
        variant("medium", 76.0, 60.0),
        variant("large", 78.0, 150.0),
    ];
    let variants = variants.join(", ");
    let text = format!(
        "name: no-model
seed: 4
length_s: 30
service:
  service: demo
  policy: {policy}
  slo: 1s
  mode: active
  budget: {{ cores: 15 }}
  variants: [{variants}]
contenders: [{contender}]
{rest}
"
    );
    scenario_beside(folder.path(), &text)
}

/// Maximum answers that are late: those of trials with more in flight.
const LATE_MAX: usize = 4;

/// Checks that whatever is answered is accurate enough and, but for a few, in time.
fn check(scenario: &Scenario, requests: &[Request], play: &Play) {
    let mut late = Vec::new();
    for (request, outcome) in requests.iter().zip(&play.outcomes) {
        if let Fate::Answered(variant) = outcome.fate {
            let accuracy = scenario.service.variants[usize::from(variant)].accuracy;
            assert!(accuracy >= request.min_accuracy, "{request:?}");
            if outcome.ended > request.deadline() {
                late.push(request);
            }
        }
    }
    assert!(late.len() <= LATE_MAX, "{late:?}");
}

#[test]
fn records_without_a_model_are_served_by_accuracy_and_budget() {
    for (policy, control) in [("infadapter", "static"), ("infadapter", "planner")] {
        let contender = format!("{{ plane: weir, control: {control} }}");
        let load = "load: { records: requests.csv }";
        let (scenario, requests) = scenario(policy, &contender, load);
        assert_eq!(requests.len(), 1800);
        let (play, summary) = played_twice(&scenario, &requests);
        check(&scenario, &requests, &play);
        println!("{policy}, {control}: {summary:?}");
        // The large variant takes longer than the shortest budget, and whatever names no such pair is served.
        let answered = requests
            .iter()
            .zip(&play.outcomes)
            .filter(|(request, _)| request.budget.as_millis() > 90 || request.min_accuracy < 78.0);
        let (feasible, on_time) = answered.fold((0, 0), |(all, on_time), (_, outcome)| {
            let served = matches!(outcome.fate, Fate::Answered(_));
            (all + 1, on_time + u64::from(served))
        });
        assert_eq!(feasible, 1600);
        // Trials of more in flight cost a few of the shortest budget.
        assert!(on_time >= 1585, "{policy}, {control}: {on_time} of 1600");
    }
}

#[test]
fn plane_without_accuracies_answers_too_inaccurately() {
    let load = "load: { records: requests.csv }";
    let contender = "{ plane: fifo-weights, control: static }";
    let (scenario, requests) = scenario("infadapter", contender, load);
    let (_, summary) = played_twice(&scenario, &requests);
    assert!(summary.too_inaccurate > 300, "{summary:?}");
}
