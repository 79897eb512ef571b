//! The real planner's cycle on the simulated ports, and its baselines.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Two variants whose servers match the planner's profiles, resized within 100 ms.
pub(crate) fn closed_loop() -> Scenario {
    let mut scenario = scenario([2, 2]);
    let service = &mut scenario.service;
    for (variant, server) in service.variants.iter_mut().zip(&mut scenario.variants) {
        server.latency = variant.profile.latency.model.into();
        server.resize_delay = ms(100);
        server.cores = 2.0;
    }
    scenario.variants[1].parallelism = Parallelism::Fixed(std::num::NonZeroU32::new(2).unwrap());
    scenario.proxies.plugin =
        json!({"deadline": {"default_ms": 1000}, "queue": {"concurrency_max": 0}});
    scenario.length = Duration::from_secs(60);
    scenario
}

/// Requests at random times, with a rate that oscillates between 0.2 and 1 of `rps`.
pub(super) fn waves(seconds: u64, rps: u64) -> Vec<Request> {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut times = Vec::new();
    for second in 0..seconds {
        let wave = 0.6 - 0.4 * libm::cos(second as f64 / 30.0);
        for _ in 0..(rps as f64 * wave) as u64 {
            times.push(second * 1000 + random.random_range(0..1000));
        }
    }
    times.sort_unstable();
    let times: Vec<_> = times.into_iter().map(|at| (at, 1000)).collect();
    requests(&times)
}

pub(super) fn answered(play: &Play) -> f64 {
    let count = play
        .outcomes
        .iter()
        .filter(|o| matches!(o.fate, Fate::Answered(_)))
        .count();
    count as f64 / play.outcomes.len() as f64
}

fn with(control: Control) -> Contender {
    Contender { control, ..WEIR }
}

#[test]
fn planner_follows_load_and_static_split_does_not() {
    let (scenario, all) = (closed_loop(), waves(60, 160));
    let planned = play(&scenario, &all, with(Control::Planner), 1).unwrap();
    let fixed = play(&scenario, &all, with(Control::Static), 1).unwrap();
    assert!(answered(&planned) > 0.97, "{}", answered(&planned));
    assert!(answered(&fixed) < 0.9, "{}", answered(&fixed));
    assert!(planned.plans.len() > 5);
    assert_eq!(fixed.core_seconds, 4.0 * 60.0);
    assert_eq!(planned.seconds.len(), 60);
    let budget = 8.0 + 1e-9;
    for (second, at) in planned.seconds.iter().zip(1..) {
        let cores: f64 = second.cores_actual.iter().sum();
        assert!(cores <= budget, "{cores} cores at {at} s");
    }
    let last = planned.seconds.last().unwrap();
    assert!(last.demand_rps.is_some());
    assert_eq!(
        play(&scenario, &all, with(Control::Planner), 1).unwrap(),
        planned
    );
}

#[test]
fn cores_take_effect_after_delay_and_are_used_when_ready() {
    let mut scenario = closed_loop();
    scenario.variants[1].cores = 0.0;
    scenario.variants[1].resize_delay = Duration::from_secs(3);
    scenario.variants[1].readiness = Duration::from_secs(4);
    let play = play(&scenario, &waves(60, 40), with(Control::Planner), 1).unwrap();
    let first = |what: fn(&Second) -> f64| play.seconds.iter().position(|s| what(s) > 0.0).unwrap();
    let requested = first(|second| second.cores_target[1]);
    let actual = first(|second| second.cores_actual[1]);
    let share = first(|second| second.shares[1]);
    assert!(
        (2..=4).contains(&(actual - requested)),
        "asked at {requested}, in force at {actual} s"
    );
    assert!(
        share >= actual + 4,
        "in force at {actual}, weight at {share} s"
    );
}

#[test]
fn faults_reach_the_planner() {
    let play_with = |what| {
        let mut scenario = closed_loop();
        scenario.faults = vec![Fault {
            at: Duration::ZERO,
            what,
        }];
        play(&scenario, &waves(60, 110), with(Control::Planner), 1).unwrap()
    };
    let lasts = Duration::from_secs(30);
    let at = |play: &Play, second: usize| play.seconds[second].clone();
    let outage = play_with(FaultKind::PlannerOutage { lasts });
    assert_eq!(
        (at(&outage, 28).demand_rps, at(&outage, 28).cores_actual),
        (None, vec![2.0, 2.0])
    );
    assert!(at(&outage, 40).demand_rps.is_some());
    let lost = play_with(FaultKind::ScrapeLoss { lasts });
    assert_eq!(
        at(&lost, 28).demand_rps,
        None,
        "a lost scrape is not zero load"
    );
    let resizes = |fault| {
        play_with(FaultKind::Resize {
            fault,
            variant: None,
            lasts,
        })
    };
    let refused = resizes(ResizeFault::Refused);
    assert_eq!(at(&refused, 28).cores_actual, [2.0, 2.0]);
    assert_ne!(at(&refused, 28).cores_target, [2.0, 2.0]);
    let deferred = resizes(ResizeFault::Deferred);
    assert_eq!(at(&deferred, 28).cores_actual, [2.0, 2.0]);
    assert_ne!(at(&deferred, 33).cores_actual, [2.0, 2.0]);
    // Without the fault the cores move long before that.
    let well = play(&closed_loop(), &waves(60, 110), with(Control::Planner), 1).unwrap();
    assert_ne!(at(&well, 28).cores_actual, [2.0, 2.0]);
}

#[test]
fn lost_plan_leaves_old_one_until_next_plan() {
    let mut scenario = closed_loop();
    let all = waves(10, 40);
    let shares = |scenario: &Scenario| {
        let play = play(scenario, &all, with(Control::Hpa), 1).unwrap();
        play.seconds[5].shares.clone()
    };
    scenario.service.variants[0].initial = weir_planner::capacity::Allocation::NONE;
    scenario.proxies.plugin["plan"] = json!({"variants": [
        {"name": "a", "cluster": "a", "share": 1, "slots": 2, "service_ms": 50, "accuracy": 70}]});
    assert_ne!(shares(&scenario), [1.0, 0.0], "a plan came");
    scenario.faults = vec![Fault {
        at: Duration::ZERO,
        what: FaultKind::LostPlan { proxy: 0 },
    }];
    assert_eq!(shares(&scenario), [1.0, 0.0]);
}

#[test]
fn autoscalers_follow_utilisation() {
    let mut scenario = closed_loop();
    for (control, seconds) in [(Control::Hpa, 60), (Control::Vpa, 1800)] {
        scenario.length = Duration::from_secs(seconds);
        // A request takes 43 ms of a core on a, or 84 ms on one of b's two cores: an overload of both.
        let play = play(&scenario, &waves(seconds, 200), with(control), 1).unwrap();
        let last = play.seconds.last().unwrap();
        assert!(
            last.cores_actual.iter().sum::<f64>() > 4.0,
            "{control:?}: {last:?}"
        );
        assert!(
            last.cores_actual.iter().sum::<f64>() <= 8.0,
            "{control:?}: {last:?}"
        );
        assert!(!play.plans.is_empty());
    }
}

#[test]
fn budget_holds_for_any_resize_delay() {
    for delay_ms in [0, 150, 250, 900, 2500, 7000] {
        let mut scenario = closed_loop();
        scenario.service.demand.window = Duration::from_secs(3);
        for server in &mut scenario.variants {
            server.resize_delay = ms(delay_ms);
        }
        // 8 s on, 8 s off.
        let all = waves(60, 250)
            .into_iter()
            .filter(|r| r.sent.as_secs() / 8 % 2 == 0);
        let all: Vec<_> = (0..)
            .zip(all)
            .map(|(id, request)| Request { id, ..request })
            .collect();
        let play = play(&scenario, &all, with(Control::Planner), 1).unwrap();
        for (second, at) in play.seconds.iter().zip(1..) {
            let cores: f64 = second.cores_actual.iter().sum();
            assert!(
                cores <= 8.0 + 1e-9,
                "{delay_ms} ms: {cores} cores at {at} s"
            );
        }
    }
}
