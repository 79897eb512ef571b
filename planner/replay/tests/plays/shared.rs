//! Several services in one budget, in simulated time; no test depends on wall-clock time.

use std::fs;
use std::time::Duration;

use weir_replay::input::requests;
use weir_replay::report::SharedReport;
use weir_replay::request::SharedPlay;
use weir_replay::scenario::{Overrides, ScenarioFile, read_any};
use weir_replay::simulation::play_shared;

/// Two services with one variant each, of 16 requests/s a core, under these loads.
fn scenario(budget: u32, loads: [&str; 2], division: &str, seed: u64) -> String {
    let service = |(name, load): (&str, &str)| {
        format!(
            "- name: {name}
  scenario:
    service:
      service: {name}
      slo: 1s
      mode: active
      demand: {{ bursts: 0s }}
      variants:
        - name: model
          cluster: model
          accuracy: 70
          cores: {{ initial: 4 }}
          capacity: {{ slopeRps: 20, interceptRps: -4 }}
          latency: {{ gammaMs: 60, epsilonMs: 0, deltaMs: 0, etaMs: 2, parallelism: per-core, tail: 1.26 }}
    servers: {{ model: {{ resize_delay_ms: 100 }} }}
    load: {{ {load} }}
    clients: {{ timeout_ms: 5000 }}
"
        )
    };
    let services: String = ["a", "b"].into_iter().zip(loads).map(service).collect();
    format!(
        "name: shared
seed: {seed}
length_s: 300
budget: {{ cores: {budget} }}
services:
{services}contenders: [{{ plane: weir, control: planner, division: {division} }}]
"
    )
}

fn played(text: &str) -> (SharedPlay, SharedReport) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.yaml");
    fs::write(&path, text).unwrap();
    let read = read_any(&path, Overrides::default()).unwrap();
    let ScenarioFile::Shared(scenario, sendings) = read else {
        panic!("of one service");
    };
    let each = scenario.services.iter().zip(&sendings);
    let requests: Vec<_> = each
        .map(|(service, sending)| requests(service.scenario.seed, sending))
        .collect();
    let play = play_shared(|_| {}, &scenario, &requests, scenario.contenders[0]).unwrap();
    let report = SharedReport::new(&scenario, &requests, vec![play.clone()]).unwrap();
    (play, report)
}

/// Percent of each service's requests that were not on time.
fn losses(report: &SharedReport) -> [f64; 2] {
    let loss =
        |index: usize| 100.0 - report.services()[index].report.contenders()[0].on_time_percent;
    [loss(0), loss(1)]
}

#[test]
fn opposite_bursts_are_met_by_one_budget() {
    // 17 cores carry the peak of each with its headroom.
    const PEAK: u32 = 17;
    let loads = [
        "generator: diurnal, low_rps: 20, high_rps: 220, period_s: 200",
        "generator: diurnal, low_rps: 220, high_rps: 20, period_s: 200",
    ];
    for seed in 1..=2 {
        let of = |budget, division| played(&scenario(budget, loads, division, seed)).1;
        let both = losses(&of(2 * PEAK, "fixed"));
        let shared = of(PEAK * 6 / 5, "shared");
        let fixed = losses(&of(PEAK * 6 / 5, "fixed"));
        println!(
            "seed {seed}: both peaks {both:?}, shared {:?}, fixed {fixed:?}",
            losses(&shared)
        );
        println!("{:#?}", shared.budget());
        for ((shared, both), fixed) in losses(&shared).into_iter().zip(both).zip(fixed) {
            assert!(
                shared <= both + 1.0,
                "seed {seed}: {shared} %, {both} % with both peaks"
            );
            assert!(
                fixed > 4.0 * shared.max(1.0),
                "seed {seed}: {fixed} %, {shared} %"
            );
        }
        let budget = &shared.budget()[0];
        assert!(budget.reserved_max <= budget.budget_cores, "{budget:?}");
        assert!(budget.cores_max <= budget.budget_cores, "{budget:?}");
        assert!(budget.divisions > 0);
    }
}

/// Maximum number of changes in four minutes of constant load: the highest mean over ten seconds varies randomly, and
/// may need a core more than before, for a while.
const CHANGES_MAX: usize = 2;

#[test]
fn constant_load_hardly_changes_a_part_after_the_first_minute() {
    for (budget, loads) in [
        (
            30,
            [
                "generator: poisson, rps: 60",
                "generator: poisson, rps: 200",
            ],
        ),
        // The needs exceed the budget.
        (
            16,
            [
                "generator: poisson, rps: 150",
                "generator: poisson, rps: 200",
            ],
        ),
    ] {
        for seed in 1..=2 {
            let (play, report) = played(&scenario(budget, loads, "shared", seed));
            let late: Vec<_> = play
                .parts
                .iter()
                .filter(|parts| parts.at > Duration::from_secs(60))
                .collect();
            println!(
                "{budget}, seed {seed}: {:?}, {:?}",
                play.parts,
                losses(&report)
            );
            assert!(late.len() <= CHANGES_MAX, "{budget}, seed {seed}: {late:?}");
            let budget = &report.budget()[0];
            assert!(budget.reserved_max <= budget.budget_cores, "{budget:?}");
        }
    }
}

/// Two services in an ample budget: the first rises from 5 to 300 requests/s, and may take GPUs of eight cores beside
/// replicas of one core; the second is idle. Percent lost of the first, and its mean cost.
fn risen(weight: f64, division: &str, seed: u64) -> (f64, f64) {
    let service = |name: &str, weight: f64, load: &str| {
        format!(
            "- name: {name}
  weight: {weight}
  scenario:
    service:
      service: {name}
      policy: infaas
      slo: 500ms
      mode: active
      budget: {{ cores: 40, resources: {{ nvidia.com/gpu: 2 }} }}
      variants:
        - name: cpu
          cluster: cpu
          accuracy: 70
          price: 0.048
          cores: {{ initial: 1, min: 1, max: 1 }}
          replicas: {{ initial: 1, min: 0, max: 40 }}
          readiness: 5s
          latency: {{ gammaMs: 38.9, etaMs: 2, parallelism: 1, tail: 1.26 }}
        - name: gpu
          cluster: gpu
          accuracy: 70
          price: 0.3825
          cores: {{ initial: 8, min: 8, max: 8 }}
          resources: {{ nvidia.com/gpu: 1 }}
          replicas: {{ initial: 0, min: 0, max: 2 }}
          readiness: 10s
          batch: 8
          latency: {{ deltaMs: 0.33, etaMs: 0.78, parallelism: 1, tail: 1.1 }}
    servers: {{ cpu: {{ resize_delay_ms: 600 }}, gpu: {{ resize_delay_ms: 600 }} }}
    load: {{ {load} }}
    clients: {{ timeout_ms: 5000 }}
"
        )
    };
    let text = format!(
        "name: rise
seed: {seed}
length_s: 120
budget: {{ cores: 44 }}
services:
{}{}contenders: [{{ plane: weir, control: planner, division: {division} }}]
",
        service("a", weight, "generator: swell, low_rps: 5, high_rps: 300"),
        service("b", 1.0, "generator: poisson, rps: 5"),
    );
    let (play, report) = played(&text);
    let budget = &report.budget()[0];
    assert!(budget.reserved_max <= budget.budget_cores, "{budget:?}");
    println!("{division}, seed {seed}: {:?}", play.parts);
    let cost = report.services()[0].report.contenders()[0].mean_cost;
    (losses(&report)[0], cost.unwrap())
}

#[test]
fn rise_beside_an_idle_service_is_met_as_with_the_whole_budget() {
    for seed in 1..=2 {
        let (shared, cost) = risen(1.0, "shared", seed);
        // Nearly all of the budget.
        let (alone, cost_alone) = risen(40.0, "fixed", seed);
        println!("seed {seed}: {shared} % at {cost}, alone {alone} % at {cost_alone}");
        assert!(
            shared <= alone + 0.3,
            "seed {seed}: {shared} %, alone {alone} %"
        );
        assert!(
            cost <= cost_alone * 1.02,
            "seed {seed}: {cost}, alone {cost_alone}"
        );
    }
}

#[test]
fn baselines_keep_within_fixed_parts() {
    // Both need more than their parts, which are in proportion to the weights: 9 and 3 of 12, but for the 4 at the start.
    let loads = ["generator: poisson, rps: 300"; 2];
    let text =
        scenario(12, loads, "fixed", 1).replacen("- name: a\n", "- name: a\n  weight: 3\n", 1);
    for control in ["static", "hpa", "sm-plus"] {
        let (play, report) =
            played(&text.replace("control: planner", &format!("control: {control}")));
        assert_eq!(play.parts.len(), 1, "{control}: {:?}", play.parts);
        assert_eq!(play.parts[0].steps, [8, 4], "{control}");
        let most = |index: usize| -> f64 {
            let each = play.plays[index].seconds.iter();
            each.map(|second| second.cores_actual.iter().sum())
                .fold(0.0, f64::max)
        };
        let expected = if control == "static" {
            [4.0, 4.0]
        } else {
            [8.0, 4.0]
        };
        assert_eq!([most(0), most(1)], expected, "{control}");
        let budget = &report.budget()[0];
        assert_eq!(
            budget.reserved_max,
            expected.iter().sum::<f64>(),
            "{control}"
        );
    }
}

#[test]
fn equal_scenarios_give_equal_reports() {
    let loads = [
        "generator: poisson, rps: 60",
        "generator: burst, low_rps: 40, high_rps: 150, low_s: 20, high_s: 8",
    ];
    let text = scenario(16, loads, "shared", 5).replace("length_s: 300", "length_s: 60");
    let json = |text: &str| played(text).1.json().unwrap();
    assert_eq!(json(&text), json(&text));
    let report: serde_json::Value = serde_json::from_str(&json(&text)).unwrap();
    assert_eq!(
        report["scenario"]["services"],
        serde_json::json!(["a", "b"])
    );
    for service in ["0", "1"] {
        let of_service = &report["services"][service.parse::<usize>().unwrap()];
        let contender = &of_service["contenders"][0];
        assert_eq!(contender["contender"], "weir+planner-shared");
        assert!(contender["bound"]["on_time"].as_u64() >= contender["on_time"].as_u64());
    }
}
