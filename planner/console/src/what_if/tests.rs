//! Tests of what-if: its plan is that of `POST /v1/solve`, its prediction that of the replay.

use std::time::Duration;

use serde_json::json;
use weir_planner::forecast::{Demand, Forecast};

use super::*;
use crate::change::CoresRange;
use crate::endpoint::post;
use crate::replay::{TraceReplay, trace};

const SERVICE: &str = include_str!("../../../../tests/demo/service.yaml");
const PIPELINE: &str = include_str!("../../../scenarios/pipeline.yaml");

fn request(rate_rps: f64, changes: Changes) -> WhatIf {
    WhatIf {
        service: SERVICE.to_owned(),
        rate_rps,
        changes,
        ..WhatIf::default()
    }
}

fn names(names: &[&str]) -> std::collections::BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Pipeline of the scenario, as a service file.
fn pipeline() -> String {
    let scenario = document::parse("scenario", PIPELINE).unwrap();
    document::yaml(&scenario["service"]).unwrap()
}

/// The demo's service under these changes, as a problem written by hand: the numbers of its file.
fn problem(rate_rps: f64, changes: &Changes) -> String {
    let variants = [
        ("resnet18", 69.75, 5, 6, 24.45, -6.17, 40.9),
        ("resnet50", 76.13, 8, 7, 10.32, -3.79, 96.9),
        ("resnet152", 78.31, 15, 7, 3.81, -2.25, 262.5),
    ];
    let on = variants
        .iter()
        .filter(|variant| !changes.off.contains(variant.0));
    let variants: Vec<Value> = on
        .map(|(name, accuracy, readiness_s, cores, slope, intercept, ms)| {
            let max = changes.cores.get(*name).and_then(|range| range.max);
            json!({
                "name": name, "accuracy_percent": accuracy, "readiness_s": readiness_s,
                "cores": cores, "cores_min": 1, "cores_max": max.map(|max| max as u32),
                "throughput": { "model": "line", "slope_rps": slope, "intercept_rps": intercept },
                "utilisation": 0.8,
                "latency": { "model": "linear", "item_ms": ms * 1.26, "fixed_ms": 0.0 },
            })
        })
        .collect();
    let slo_ms = changes.slo_ms.unwrap_or(1000.0);
    // Headroom counts once: the variants keep back more of their rates than 1.1 of the demand.
    json!({
        "formulation": "infadapter", "demand_rps": rate_rps, "headroom": 1.0,
        "budget_cores": changes.budget_cores.unwrap_or(20.0) as u32, "latency_max_ms": slo_ms / 2.0,
        "weights": {
            "alpha": 1.0, "beta": changes.weights.get("beta").copied().unwrap_or(0.05), "gamma": 0.001,
        },
        "variants": variants,
    })
    .to_string()
}

#[tokio::test]
async fn plan_is_that_of_the_endpoint() {
    let changes = [
        Changes::default(),
        Changes {
            budget_cores: Some(12.0),
            ..Changes::default()
        },
        Changes {
            off: names(&["resnet50"]),
            ..Changes::default()
        },
        Changes {
            weights: [("beta".to_owned(), 0.4)].into(),
            ..Changes::default()
        },
        Changes {
            slo_ms: Some(600.0),
            cores: [(
                "resnet18".to_owned(),
                CoresRange {
                    min: None,
                    max: Some(4.0),
                },
            )]
            .into(),
            ..Changes::default()
        },
    ];
    let mut plans = std::collections::BTreeSet::new();
    for changes in changes {
        for rate_rps in [2.0, 30.0, 75.0, 120.0, 400.0] {
            let answer = post(&problem(rate_rps, &changes)).await;
            let answer: Value = serde_json::from_str(&answer).unwrap();
            let planned = what_if(&request(rate_rps, changes.clone())).unwrap();
            let expected: Vec<(String, f64)> = answer["plan"]["variants"]
                .as_array()
                .unwrap()
                .iter()
                .map(|variant| {
                    let name = variant["name"].as_str().unwrap().to_owned();
                    (name, variant["cores"].as_f64().unwrap())
                })
                .collect();
            let got = planned.variants.iter();
            let got: Vec<_> = got
                .map(|variant| (variant.name.clone(), variant.cores))
                .collect();
            assert_eq!(got, expected, "{rate_rps} {changes:?}: {}", planned.why);
            assert_eq!(answer["outcome"], planned.outcome.label(), "{rate_rps}");
            plans.insert(format!("{got:?}"));
        }
    }
    assert!(plans.len() > 10, "{plans:?}");
}

#[test]
fn forecast_is_that_of_a_rate_that_has_lasted() {
    let mut file = document::parse("service file", SERVICE).unwrap();
    change::fill_in(&mut file).unwrap();
    let service = Service::from_yaml(&file.to_string()).unwrap();
    let mut demand = Demand::new(service.demand.clone());
    for quarter in 0..4 * 600 {
        demand.observe(Duration::from_millis(250 * quarter), Rps(80.0));
    }
    let lasted = demand.forecast().unwrap();
    let found = inputs(&service, 80.0).forecast;
    let rates = |of: Forecast| {
        [
            of.demand,
            of.present,
            of.mean,
            of.average,
            of.arriving,
            of.growth,
            of.extrapolated,
        ]
    };
    for (found, lasted) in rates(found).into_iter().zip(rates(lasted)) {
        assert!((found.0 - lasted.0).abs() < 1e-6, "{found:?} {lasted:?}");
    }
    let lasted_rps = [found.lasted, lasted.lasted].map(|rate| rate.unwrap().0);
    assert!(
        (lasted_rps[0] - lasted_rps[1]).abs() < 1e-6,
        "{lasted_rps:?}"
    );
    assert_eq!(
        (found.rises, found.window_full),
        (lasted.rises, lasted.window_full)
    );
}

#[test]
fn prediction_is_near_the_replay() {
    for rate_rps in [30.0, 90.0, 400.0] {
        let planned = what_if(&request(rate_rps, Changes::default())).unwrap();
        let replayed = trace(&TraceReplay {
            service: planned.service.clone(),
            trace: format!("{rate_rps}\n").repeat(60),
            seed: 1,
            ..TraceReplay::default()
        });
        let replayed = replayed.unwrap().report;
        let replayed = replayed["contenders"][0]["on_time_percent"]
            .as_f64()
            .unwrap();
        let predicted = planned.on_time_percent;
        let off = (predicted - replayed).abs();
        assert!(
            off < 4.0,
            "{rate_rps}: predicted {predicted}, replayed {replayed}"
        );
    }
}

#[test]
fn changed_file_is_read_again_and_plans_the_same() {
    let changes = Changes {
        budget_cores: Some(16.0),
        slo_ms: Some(800.0),
        off: names(&["resnet152"]),
        ..Changes::default()
    };
    let first = what_if(&request(80.0, changes)).unwrap();
    assert!(first.cores <= 16.0 && first.slo_ms == 800.0);
    let again = what_if(&WhatIf {
        service: first.service.clone(),
        ..request(80.0, Changes::default())
    })
    .unwrap();
    assert_eq!(again.variants, first.variants);
    assert_eq!(again.service, first.service);
}

#[test]
fn pipeline_is_planned_with_the_product_of_accuracies() {
    let planned = what_if(&WhatIf {
        service: pipeline(),
        ..request(20.0, Changes::default())
    })
    .unwrap();
    let serving: Vec<_> = planned
        .variants
        .iter()
        .filter(|variant| variant.share == 1.0)
        .collect();
    assert_eq!(serving.len(), 2, "{:?}", planned.variants);
    let product = serving[0].accuracy_percent * serving[1].accuracy_percent / 100.0;
    assert!((planned.accuracy_percent - product).abs() < 1e-9);
    assert!(
        planned.on_time_percent > 90.0,
        "{}",
        planned.on_time_percent
    );
}

#[test]
fn invalid_requests_are_refused() {
    let with = |service: &str, rate_rps| WhatIf {
        service: service.to_owned(),
        ..request(rate_rps, Changes::default())
    };
    let bad_slo = request(
        1.0,
        Changes {
            slo_ms: Some(-1.0),
            ..Changes::default()
        },
    );
    for (request, message) in [
        (with(SERVICE, -1.0), "rate_rps: -1; it must be 0 to 1000000"),
        (with(SERVICE, f64::NAN), "rate_rps: NaN"),
        (with("[1]", 1.0), "service file: no mapping"),
        (with("slo: 1s", 1.0), "service: missing"),
        (bad_slo, "slo: "),
    ] {
        let error = what_if(&request).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
}

#[test]
fn variant_without_a_profile_is_refused() {
    let service = "service: demo\nslo: 1s\nvariants: [{name: a, cluster: a}]\n";
    let request = WhatIf {
        service: service.to_owned(),
        rate_rps: 10.0,
        ..WhatIf::default()
    };
    let error = what_if(&request).unwrap_err().to_string();
    let expected = "variants.a.latency: missing; it must be given, or profile, for a what-if: nothing is known of other loads and \
                    cores; `weir profile` measures it";
    assert_eq!(error, expected);
}
