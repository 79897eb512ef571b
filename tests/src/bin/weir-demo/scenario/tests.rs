//! The service files say what the papers say, the planner takes them, and the loads are as stated.

use clap::ValueEnum;
use weir_planner::config::{self, Service};
use weir_planner::solve::law::{Cell, fit};

use super::variant::sigma;
use super::*;

fn shipped(policy: Policy) -> Scenario {
    Scenario::shipped(policy).unwrap()
}

/// The planner's reading of what it is given.
fn planned(scenario: &Scenario) -> Service {
    let count = scenario.variants.len();
    let urls: Vec<String> = (0..count)
        .map(|n| format!("http://127.0.0.1:{n}/r"))
        .collect();
    let listen = "127.0.0.1:7".parse().unwrap();
    let file = scenario
        .service_file(listen, "http://127.0.0.1:9/stats/prometheus", &urls)
        .unwrap();
    Service::from_yaml(&file).unwrap()
}

#[test]
fn the_table_says_what_the_papers_say() {
    let scenario = shipped(Policy::Infadapter);
    let cores: f64 = scenario.variants.iter().map(Variant::initial_cores).sum();
    assert_eq!(cores, f64::from(scenario.budget.cores));
    assert!((scenario.static_capacity_rps() - 233.40).abs() < 0.01);
    let printed = [(69.75, 40.9), (76.13, 96.9), (78.31, 262.5)];
    for (variant, (accuracy, ms)) in scenario.variants.iter().zip(printed) {
        assert_eq!(variant.accuracy, accuracy);
        assert!((variant.law().service_ms(1, 1.0) - ms).abs() < 0.05);
        assert!((1000.0 / variant.slope_rps().unwrap() - ms).abs() < 0.1);
    }
    assert!((sigma(1.26) - 0.1016).abs() < 0.001);
}

#[test]
fn sponges_law_is_the_fit_of_the_papers_table() {
    let table = [
        (1, 1, 55.0),
        (1, 2, 97.0),
        (2, 4, 94.0),
        (4, 8, 92.0),
        (8, 4, 37.0),
        (8, 8, 62.0),
    ];
    let measured = table.map(|(cores, batch, latency_ms)| Cell {
        batch,
        cores: f64::from(cores),
        latency_ms,
    });
    let fitted = fit::sponge(&measured).unwrap();
    let scenario = shipped(Policy::Sponge);
    let [variant] = scenario.variants.as_slice() else {
        panic!("{} variants", scenario.variants.len());
    };
    for (cores, batch, _) in table {
        let (cores, tail) = (f64::from(cores), variant.tail());
        let predicted = variant.law().service_ms(batch, cores) * tail;
        let by_fit = fitted.law.service_ms(batch, cores);
        assert!(
            (predicted - by_fit).abs() < 0.05,
            "{cores} × {batch}: {predicted} {by_fit}"
        );
    }
    // 16·1000 / 101.9 ms; one request alone 21.2 ms; one batch at a time.
    assert!((scenario.static_capacity_rps() - 157.0).abs() < 0.5);
    assert!((variant.alone_ms() - 21.2).abs() < 0.1);
    assert_eq!(variant.at_once(), 1);
}

#[test]
fn servers_batch_where_their_variant_does() {
    for (policy, batch, delayed) in [(Policy::Infadapter, 1, false), (Policy::Sponge, 16, true)] {
        for variant in shipped(policy).variants {
            let server = variant.emulator(1);
            assert!(server.check().is_ok());
            assert_eq!(server.batch_max.get(), batch);
            assert_eq!(!server.batch_delay.is_zero(), delayed);
        }
    }
}

#[test]
fn the_planner_gets_every_key_and_every_address() {
    for policy in Policy::value_variants() {
        let scenario = shipped(*policy);
        assert_eq!(scenario.policy, *policy);
        let service = planned(&scenario);
        assert_eq!(service.listen.port(), 7);
        assert_eq!(
            service.stats[0].as_str(),
            "http://127.0.0.1:9/stats/prometheus"
        );
        assert_eq!(service.mode, config::Mode::Active);
        for (index, (variant, ours)) in service.variants.iter().zip(&scenario.variants).enumerate()
        {
            let resize = format!("http://127.0.0.1:{index}/r");
            assert_eq!(variant.resize.as_ref().unwrap().as_str(), resize);
            let server = ours.emulator(1);
            assert_eq!(variant.profile.parallelism, server.parallelism);
            assert_eq!(variant.profile.latency.law, server.law);
            assert_eq!(variant.profile.batch, server.batch_max.get());
        }
        let initial: f64 = scenario.variants.iter().map(Variant::initial_cores).sum();
        assert!(initial <= f64::from(service.budget));
    }
}

#[test]
fn the_first_plan_is_one() {
    for policy in Policy::value_variants() {
        let plugin = shipped(*policy).plugin("secret");
        let plan: weir_api::Plan = serde_json::from_value(plugin["plan"].clone()).unwrap();
        assert_eq!(plan.check(), Ok(()), "{policy:?}");
    }
}

#[test]
fn the_loads_are_as_stated() {
    let load = shipped(Policy::Infadapter).load();
    let swell = load.rates(60, None).unwrap();
    assert_eq!(swell.rps()[0], 40.0);
    let crest = swell.rps().iter().copied().fold(0.0, f64::max);
    assert!((crest - 1.2 * 233.40).abs() < 0.01, "{crest}");
    assert_eq!(
        load.to_string(),
        "synthetic, 40 requests/s, rising to 1.2 × the starting split's 233"
    );
    let load = shipped(Policy::Sponge).load();
    assert_eq!(load.rates(60, None).unwrap().rps(), [25.0; 60]);
    assert_eq!(load.to_string(), "synthetic, 25 requests/s throughout");
}
