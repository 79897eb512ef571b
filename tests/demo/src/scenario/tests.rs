//! Checks that the service files match the papers, the planner accepts them, and the loads are as
//! stated.

use clap::ValueEnum;
use weir_planner::service::{self, Service};
use weir_planner::solve::latency_model::{Cell, fit};

use super::variant::sigma;
use super::*;

fn shipped(policy: Policy) -> Scenario {
    Scenario::shipped(policy).unwrap()
}

/// The planner's parsed service, and the addresses in it.
fn planned(scenario: &Scenario) -> (Service, Vec<String>, Vec<String>) {
    let address = |n: usize| format!("http://127.0.0.1:{}/r", 100 + n);
    let resize: Vec<String> = (0..scenario.variants().count()).map(address).collect();
    let stats = |n: usize| format!("http://127.0.0.1:{}/stats/prometheus", 10 + n);
    let stats: Vec<String> = (0..scenario.stages.len()).map(stats).collect();
    let listen = "127.0.0.1:7".parse().unwrap();
    let file = scenario.service_file(listen, &stats, &resize).unwrap();
    let file = weir_planner::spec::ServiceFile::from_yaml(&file).unwrap();
    assert_eq!(file.listen.port(), 7);
    (file.service, stats, resize)
}

#[test]
fn service_file_matches_papers() {
    let scenario = shipped(Policy::Infadapter);
    let cores: f64 = scenario.variants().map(Variant::initial_cores).sum();
    assert_eq!(cores, f64::from(scenario.budget.cores));
    assert!((scenario.static_capacity_rps() - 233.40).abs() < 0.01);
    let printed = [(69.75, 40.9), (76.13, 96.9), (78.31, 262.5)];
    for (variant, (accuracy, ms)) in scenario.variants().zip(printed) {
        assert_eq!(variant.accuracy, accuracy);
        assert!((variant.model().service_ms(1, 1.0) - ms).abs() < 0.05);
        assert!((1000.0 / variant.slope_rps().unwrap() - ms).abs() < 0.1);
    }
    assert!((sigma(1.26) - 0.1016).abs() < 0.001);
}

#[test]
fn sponge_latency_model_fits_paper_table() {
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
    let [variant] = scenario.variants().collect::<Vec<_>>()[..] else {
        panic!("{} variants", scenario.variants().count());
    };
    for (cores, batch, _) in table {
        let (cores, tail) = (f64::from(cores), variant.tail());
        let predicted = variant.model().service_ms(batch, cores) * tail;
        let by_fit = fitted.model.service_ms(batch, cores);
        assert!(
            (predicted - by_fit).abs() < 0.05,
            "{cores} × {batch}: {predicted} {by_fit}"
        );
    }
    // 16·1000 / 101.9 ms; a single request takes 21.2 ms; one batch at a time.
    assert!((scenario.static_capacity_rps() - 157.0).abs() < 0.5);
    assert!((variant.alone_ms() - 21.2).abs() < 0.1);
    assert_eq!(variant.at_once(), 1);
}

/// The latency models are IPA's measurements; the accuracy is the product over the stages.
#[test]
fn ipa_latency_models_match_paper() {
    let scenario = shipped(Policy::Ipa);
    let cores: f64 = scenario.variants().map(Variant::initial_cores).sum();
    assert_eq!(cores, f64::from(scenario.budget.cores));
    // The time of one request, and of a batch of 8 if it is published.
    let printed = [
        ("yolov5n", 45.7, 80.0, Some(481.0)),
        ("yolov5s", 56.8, 1000.0 / 6.575, None),
        ("yolov5m", 64.1, 293.6, Some(1654.0)),
        ("resnet18", 69.75, 73.0, Some(383.0)),
        ("resnet34", 73.31, 1000.0 / 9.76, None),
        ("resnet50", 76.13, 136.0, Some(833.0)),
    ];
    assert_eq!(scenario.variants().count(), printed.len());
    for (variant, (name, accuracy, one, eight)) in scenario.variants().zip(printed) {
        assert_eq!((variant.name.as_str(), variant.accuracy), (name, accuracy));
        let model = variant.model();
        assert!((model.service_ms(1, 1.0) - one).abs() < 0.1, "{name}");
        if let Some(eight) = eight {
            assert!((model.service_ms(8, 1.0) - eight).abs() < 1.0, "{name}");
        }
    }
    // The capacity of the narrower stage: 2·4000 / 259.4 + 3·4000 / 364.3 + 3·2000 / 296.9.
    assert!((scenario.static_capacity_rps() - 84.0).abs() < 0.1);
    let both = scenario.accuracy("yolov5m+resnet50").unwrap();
    assert!((both - 64.1 * 0.7613).abs() < 1e-9, "{both}");
    for unknown in [
        "yolov5m",
        "resnet50+yolov5m",
        "yolov5m+resnet50+resnet50",
        "",
    ] {
        assert_eq!(scenario.accuracy(unknown), None, "{unknown}");
    }
    assert_eq!(
        shipped(Policy::Infadapter).accuracy("resnet50"),
        Some(76.13)
    );
}

#[test]
fn server_batches_if_variant_does() {
    let max: [(Policy, &[u32]); 4] = [
        (Policy::Themis, &[4, 4]),
        (Policy::Infadapter, &[1, 1, 1]),
        (Policy::Sponge, &[16]),
        (Policy::Ipa, &[4, 2, 1, 4, 4, 2]),
    ];
    for (policy, batches) in max {
        let scenario = shipped(policy);
        assert_eq!(scenario.variants().count(), batches.len());
        for (variant, batch) in scenario.variants().zip(batches) {
            let server = variant.emulator(1);
            assert!(server.check().is_ok());
            assert_eq!(server.batch_max.get(), *batch);
            assert_eq!(!server.batch_delay.is_zero(), *batch > 1);
        }
    }
}

#[test]
fn service_file_has_every_key_and_address() {
    for policy in Policy::value_variants() {
        let scenario = shipped(*policy);
        assert_eq!(scenario.policy, *policy);
        let (service, stats, resize) = planned(&scenario);
        let read: Vec<&str> = service.stats.iter().map(|url| url.as_str()).collect();
        assert_eq!(read, stats);
        assert_eq!(service.mode, service::Mode::Active);
        assert_eq!(service.variants.len(), scenario.variants().count());
        let ours = scenario.variants().zip(&resize);
        for (variant, (ours, resize)) in service.variants.iter().zip(ours) {
            assert_eq!(variant.name, ours.name);
            assert_eq!(variant.resize.as_ref().unwrap().as_str(), resize);
            let server = ours.emulator(1);
            let replicas = variant.initial.replicas();
            let each = variant.initial.each().as_f64();
            let at_once = replicas * variant.profile.parallelism.at_once(each);
            assert_eq!(server.parallelism.at_once(server.cores), at_once);
            assert_eq!(server.latency, variant.profile.latency.model.into());
            assert_eq!(variant.profile.batch, server.batch_max.get());
        }
        let names = |stage: &service::Stage| (stage.name.clone(), stage.variants.len());
        let planned: Vec<_> = service.stages.iter().map(names).collect();
        let named = |stage: &Stage| (stage.name.clone(), stage.variants.len());
        assert_eq!(
            planned,
            scenario.stages.iter().map(named).collect::<Vec<_>>()
        );
        let initial: f64 = scenario.variants().map(Variant::initial_cores).sum();
        assert!(initial <= f64::from(service.budget));
    }
}

#[test]
fn first_plans_are_valid_and_leave_downstream_time() {
    for (policy, rests) in [
        (Policy::Infadapter, vec![0.0]),
        (Policy::Sponge, vec![0.0]),
        (Policy::Ipa, vec![136.0 * 1.26, 0.0]),
    ] {
        let scenario = shipped(policy);
        assert_eq!(scenario.stages.len(), rests.len());
        for (stage, downstream_ms) in scenario.stages.iter().zip(rests) {
            let plugin = scenario.plugin(stage, "secret");
            assert_eq!(plugin["service"], stage.name);
            let plan: weir_api::Plan = serde_json::from_value(plugin["plan"].clone()).unwrap();
            assert_eq!(plan.check(), Ok(()), "{policy:?}");
            assert_eq!(plan.service, stage.name);
            assert!(
                (plan.downstream_ms - downstream_ms).abs() < 1e-9,
                "{}",
                plan.downstream_ms
            );
        }
    }
}

#[test]
fn file_needs_exactly_one_of_variants_and_stages() {
    let (_, sponge) = Policy::Sponge.file();
    let neither = sponge.replace("variants:", "others:");
    let both = format!("{sponge}\nstages: []\n");
    for wrong in [neither, both] {
        let refused = serde_saphyr::from_str::<Scenario>(&wrong).unwrap_err();
        assert!(refused.to_string().contains("exactly one"), "{refused}");
    }
}

#[test]
fn loads_have_stated_rates() {
    let load = shipped(Policy::Infadapter).load();
    let swell = load.rates(60, None).unwrap();
    assert_eq!(swell.rps()[0], 40.0);
    let crest = swell.rps().iter().copied().fold(0.0, f64::max);
    assert!((crest - 1.2 * 233.40).abs() < 0.01, "{crest}");
    assert_eq!(
        load.to_string(),
        "synthetic, 40 requests/s, rising to 1.2 × the capacity of the starting cores, 233"
    );
    let load = shipped(Policy::Sponge).load();
    assert_eq!(load.rates(60, None).unwrap().rps(), [25.0; 60]);
    assert_eq!(load.to_string(), "synthetic, constant 25 requests/s");
    let load = shipped(Policy::Ipa).load();
    let swell = load.rates(60, None).unwrap();
    assert_eq!(swell.rps()[0], 20.0);
    let crest = swell.rps().iter().copied().fold(0.0, f64::max);
    assert!((117.0..118.0).contains(&crest), "{crest}");
    assert_eq!(
        load.to_string(),
        "synthetic, 20 requests/s, rising to 1.4 × the capacity of the starting cores, 84"
    );
}
