//! Requests that name no model, only a budget and a minimum accuracy. In simulated time; no test depends on
//! wall-clock time.

use std::fs;

use super::replicas::played;
use weir_replay::input::requests;
use weir_replay::request::{Fate, Play, Request};
use weir_replay::scenario::{Overrides, Scenario, read};

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
    let variant = |name: &str, accuracy: u32, ms: u32| {
        let rate = 1000.0 / f64::from(ms);
        format!(
            "
    - name: {name}
      cluster: {name}
      accuracy: {accuracy}
      cores: {{ initial: 5, min: 1, max: 12 }}
      capacity: {{ slopeRps: {rate}, interceptRps: 0 }}
      latency: {{ gammaMs: {ms}, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core, tail: 1.26 }}"
        )
    };
    let (small, medium, large) = (
        variant("small", 70, 20),
        variant("medium", 76, 60),
        variant("large", 78, 150),
    );
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
  variants:{small}{medium}{large}
contenders: [{contender}]
{rest}
"
    );
    let path = folder.path().join("scenario.yaml");
    fs::write(&path, text).unwrap();
    let (scenario, sending) = read(&path, Overrides::default()).unwrap();
    let requests = requests(scenario.seed, &sending);
    (scenario, requests)
}

/// Checks that whatever is answered is accurate enough and in time.
fn check(scenario: &Scenario, requests: &[Request], play: &Play) {
    for (request, outcome) in requests.iter().zip(&play.outcomes) {
        if let Fate::Answered(variant) = outcome.fate {
            let accuracy = scenario.service.variants[usize::from(variant)].accuracy;
            assert!(accuracy >= request.min_accuracy, "{request:?}");
            assert!(outcome.ended <= request.deadline(), "{request:?}");
        }
    }
}

#[test]
fn records_without_a_model_are_served_by_accuracy_and_budget() {
    for (policy, control) in [("infadapter", "static"), ("infadapter", "planner")] {
        let contender = format!("{{ plane: weir, control: {control} }}");
        let load = "load: { records: requests.csv }";
        let (scenario, requests) = scenario(policy, &contender, load);
        assert_eq!(requests.len(), 1800);
        let (play, summary) = played(&scenario, &requests);
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
        assert!(on_time >= 1590, "{policy}, {control}: {on_time} of 1600");
    }
}

#[test]
fn plane_without_accuracies_answers_too_inaccurately() {
    let load = "load: { records: requests.csv }";
    let contender = "{ plane: fifo-weights, control: static }";
    let (scenario, requests) = scenario("infadapter", contender, load);
    let (_, summary) = played(&scenario, &requests);
    assert!(summary.too_inaccurate > 300, "{summary:?}");
}
