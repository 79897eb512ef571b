//! Tests of the bounds against brute force, and by hand.

use std::num::NonZeroU32;

use proptest::prelude::*;
use weir_sim::server::{Latency, LatencyModel, Parallelism};

use super::brute::{BruteForce, UNIT};
use super::cores::min;
use super::*;

mod measured;
mod objective;

/// End of the load where no request is due after it.
const END: Duration = Duration::from_secs(3600);

/// Window from (release, length, minimum accuracy), in units and percent.
fn window((release, length, min_accuracy): (u32, u32, f64)) -> Window {
    Window {
        release: UNIT * release,
        due: UNIT * (release + length),
        min_accuracy,
    }
}

fn step(from: u32, slots: u32, batch: u32, single: u32, more: u32) -> Step {
    Step::new(UNIT * from, slots, batch, |requests| {
        UNIT * (single + more * (requests - 1))
    })
}

fn servers(variants: Vec<(f64, Vec<Step>)>) -> Servers {
    let lanes = |(accuracy, steps)| Lanes {
        accuracy,
        hop: Duration::ZERO,
        steps,
    };
    Servers {
        variants: variants.into_iter().map(lanes).collect(),
        noisy: false,
    }
}

/// Moves the variants `hops` units away from the proxy.
fn far(mut servers: Servers, hops: &[u32]) -> Servers {
    for (lanes, hop) in servers.variants.iter_mut().zip(hops) {
        lanes.hop = UNIT * *hop;
    }
    servers
}

fn alike(slots: u32, service: u32) -> Servers {
    servers(vec![(70.0, vec![step(0, slots, 1, service, 0)])])
}

fn windows(max: usize) -> impl Strategy<Value = Vec<Window>> {
    let min_accuracy = prop::sample::select(vec![0.0, 0.0, 70.0, 80.0]);
    let one = (0u32..7, 0u32..9, min_accuracy);
    prop::collection::vec(one, 0..=max).prop_map(|all| all.into_iter().map(window).collect())
}

/// A variant whose slots, batch and speed change twice.
fn changing() -> impl Strategy<Value = Vec<Step>> {
    let state = (0u32..3, 1u32..3, 1u32..4, 0u32..2);
    (state.clone(), 1u32..4, state.clone(), 1u32..4, state).prop_map(|(a, t, b, u, c)| {
        let made = |from, (slots, batch, single, more)| step(from, slots, batch, single, more);
        vec![made(0, a), made(t, b), made(t + u, c)]
    })
}

fn machine(latency: impl Into<Latency>, parallelism: Parallelism, batch_max: u32) -> Machine {
    Machine {
        accuracy: 80.0,
        price: 1.0,
        latency: latency.into(),
        parallelism,
        batch_max,
        cores: 0.0,
        cores_min: 0.0,
        cores_max: f64::INFINITY,
        hop: Duration::ZERO,
        resize_delay: Duration::ZERO,
        whole: true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn identical_slots_in_release_order_equal_brute_force(
        mut windows in windows(8), slots in 1u32..4, service in 1u32..5, hop in 0u32..3,
    ) {
        // Sorted separately, releases and dues are in the same order.
        let mut dues: Vec<Duration> = windows.iter().map(|window| window.due).collect();
        dues.sort();
        windows.sort_by_key(|window| window.release);
        for (window, due) in windows.iter_mut().zip(dues) {
            *window = Window { due, min_accuracy: 0.0, ..*window };
        }
        let servers = far(alike(slots, service), &[hop]);
        let bound = most_on_time(&windows, &servers);
        prop_assert_eq!(bound.kind, Kind::Exact);
        prop_assert_eq!(bound.on_time, BruteForce::new(&windows, &servers, false).most_on_time());
    }

    #[test]
    fn one_slot_with_common_release_equals_moore_hodgson(mut windows in windows(8), service in 1u32..5) {
        for window in &mut windows {
            *window = Window { release: UNIT, due: window.due + UNIT, min_accuracy: 0.0 };
        }
        let servers = alike(1, service);
        let bound = most_on_time(&windows, &servers);
        prop_assert_eq!((bound.kind, bound.method), (Kind::Exact, "Moore–Hodgson"));
        prop_assert_eq!(bound.on_time, BruteForce::new(&windows, &servers, false).most_on_time());
        windows.sort_by_key(|window| window.due);
        prop_assert_eq!(ordered::most_on_time(&windows, 1, UNIT * service), bound.on_time);
    }

    #[test]
    fn no_schedule_beats_the_upper_bound(
        windows in windows(6), a in changing(), b in changing(), hops in [0u32..3, 0u32..3],
    ) {
        let servers = far(servers(vec![(70.0, a), (80.0, b)]), &hops);
        let bound = most_on_time(&windows, &servers);
        prop_assert_eq!(bound.kind, Kind::Upper);
        let best = BruteForce::new(&windows, &servers, false).most_on_time();
        prop_assert!(bound.on_time >= best, "{:?} below {}", bound, best);
    }

    #[test]
    fn exact_optimum_never_exceeds_fluid_bound(windows in windows(8), slots in 1u32..4) {
        let servers = alike(slots, 2);
        let mut feasible = windows.clone();
        feasible.retain(|w| w.min_accuracy <= 70.0 && w.length() >= UNIT * 2);
        feasible.sort_by_key(|window| (window.release, window.due));
        let fluid = fluid::most_on_time(&feasible, &servers);
        prop_assert!(fluid >= BruteForce::new(&windows, &servers, false).most_on_time());
        prop_assert!(fluid <= feasible.len() as u64);
    }

    #[test]
    fn no_schedule_costs_less_than_the_lower_bound(
        windows in windows(6), schedule in prop::collection::vec(0u32..4, 8), gamma in 1u32..4,
        eta in 0u32..2, batch_max in 1u32..3, whole: bool, initial in 0u32..3, delay in 0u32..3,
        hop in 0u32..3, end in 2usize..9,
    ) {
        // A unit of work is two units of time; the initial cores stay for the resize delay.
        let unit_ms = UNIT.as_secs_f64() * 1e3;
        let latency = LatencyModel {
            gamma_ms: f64::from(gamma) * unit_ms,
            eta_ms: f64::from(eta) * unit_ms,
            ..LatencyModel::default()
        };
        let machine = Machine {
            cores: f64::from(initial), hop: UNIT * hop, resize_delay: UNIT * 2 * delay, whole,
            ..machine(latency, Parallelism::PerCore, batch_max)
        };
        let cores = |index: usize| if index < delay as usize { initial } else { schedule[index] };
        let steps = (0..8).map(|i| step(2 * i as u32, cores(i), batch_max, gamma + eta, gamma));
        let mut steps: Vec<Step> = steps.collect();
        steps.push(step(16, 0, 1, 1, 0));
        let servers = far(servers(vec![(80.0, steps)]), &[hop]);
        let best = BruteForce::new(&windows, &servers, true).most_on_time();
        // Cores are there until the schedule ends, but count until the load does.
        let paid: u32 = (0..end.min(8)).map(|i| 2 * cores(i)).sum();
        let paid = UNIT.as_secs_f64() * f64::from(paid);
        let bound = min(&windows, best, &[machine], UNIT * 2 * end as u32).expect("it was done");
        prop_assert!(bound <= paid, "{} above {}", bound, paid);
    }
}

#[test]
fn bound_reports_its_kind() {
    let late = [window((0, 3, 0.0)), window((1, 1, 0.0))];
    let batched = servers(vec![(70.0, vec![step(0, 1, 2, 1, 0)])]);
    let moving = servers(vec![(70.0, vec![step(0, 1, 1, 1, 0), step(5, 2, 1, 1, 0)])]);
    let noisy = Servers {
        noisy: true,
        ..alike(1, 1)
    };
    for (servers, kind, why) in [
        (alike(1, 1), Kind::Upper, "not due in the order"),
        (alike(1, 2), Kind::Exact, "one slot"),
        (batched, Kind::Upper, "share batches"),
        (moving, Kind::Upper, "the cores change"),
        (noisy, Kind::Estimate, "mean service times"),
    ] {
        let bound = most_on_time(&late, &servers);
        assert_eq!(bound.kind, kind, "{bound:?}");
        assert!(bound.why.contains(why), "{bound:?}");
    }
    assert_eq!(most_on_time(&[], &alike(1, 1)).on_time, 0);
    assert_eq!(most_on_time(&late, &servers(vec![])).on_time, 0);
}

#[test]
fn overload_is_bounded_by_capacity() {
    // 2 slots at 10 units each for 100 units, and until the last is due: at most 24 of the 100.
    let mut requests: Vec<Window> = (0..100)
        .map(|i| window((i, 20 + 2 * (i % 2), 0.0)))
        .collect();
    let bound = most_on_time(&requests, &alike(2, 10));
    assert_eq!((bound.kind, bound.on_time), (Kind::Upper, 24));
    for request in &mut requests {
        request.due = request.release + UNIT * 20;
    }
    let bound = most_on_time(&requests, &alike(2, 10));
    assert_eq!((bound.kind, bound.on_time), (Kind::Exact, 22));
}

#[test]
fn minimum_accuracies_limit_the_bound() {
    let fast = (70.0, vec![step(0, 10, 1, 1, 0)]);
    let good = (80.0, vec![step(0, 1, 1, 2, 0)]);
    let servers = servers(vec![fast, good]);
    let requests: Vec<Window> = (0..20)
        .map(|i| window((0, 4 + i % 2, if i < 15 { 80.0 } else { 0.0 })))
        .collect();
    // The accurate variant has time for two and a half; the other five fit elsewhere.
    assert_eq!(most_on_time(&requests, &servers).on_time, 7);
    assert_eq!(most_on_time(&[window((0, 9, 90.0))], &servers).on_time, 0);
}

#[test]
fn execution_started_before_shrink_still_counts() {
    let servers = servers(vec![(70.0, vec![step(0, 3, 1, 4, 0), step(1, 0, 1, 1, 0)])]);
    let requests = [window((0, 4, 0.0)); 3];
    assert_eq!(most_on_time(&requests, &servers).on_time, 3);
}

#[test]
fn least_core_seconds_match_hand_computed_values() {
    let latency = LatencyModel {
        gamma_ms: 30.0,
        epsilon_ms: 10.0,
        delta_ms: 0.0,
        eta_ms: 10.0,
    };
    let machine = Machine {
        cores: 4.0,
        ..machine(latency, Parallelism::PerCore, 1)
    };
    let requests: Vec<Window> = (0..10).map(|i| window((100 * i, 9, 0.0))).collect();
    let check = |machine: Machine, on_time, expected: Option<f64>| {
        let got = min(&requests, on_time, &[machine], END);
        let near = match (got, expected) {
            (Some(got), Some(expected)) => (got - expected).abs() < 1e-6 && got <= expected,
            (got, expected) => got == expected,
        };
        assert!(near, "{got:?}, not {expected:?}");
    };
    // 50 ms on one core each.
    check(machine.clone(), 10, Some(0.5));
    check(machine.clone(), 4, Some(0.2));
    check(machine.clone(), 11, None);
    // Two of them together: 30 + 20/2.
    let batching = Machine {
        batch_max: 2,
        ..machine.clone()
    };
    check(batching, 10, Some(0.4));
    // Half a core: 40/0.5 + 10 = 90 ms of half a core.
    let fractions = Machine {
        whole: false,
        ..machine.clone()
    };
    check(fractions, 10, Some(0.45));
    // Two at once on a whole core cost the same: half a core each.
    let fixed = Machine {
        parallelism: Parallelism::Fixed(NonZeroU32::new(2).unwrap()),
        ..machine.clone()
    };
    check(fixed, 10, Some(0.45));
    // Four cores that stay for the first 2.5 s, with three requests in that time.
    let slow_to_leave = Machine {
        resize_delay: Duration::from_millis(2500),
        ..machine.clone()
    };
    check(slow_to_leave, 10, Some(10.0 + 7.0 * 0.05));
    // The sixth is due after 5.09 s, and must leave its server 10 ms before: it and the later ones may be executed
    // after the end of the load.
    let far = Machine {
        hop: UNIT,
        ..machine
    };
    for (end, on_time, expected) in [(5080, 10, 0.3), (5079, 10, 0.25), (5079, 4, 0.0)] {
        let got = min(
            &requests,
            on_time,
            std::slice::from_ref(&far),
            Duration::from_millis(end),
        )
        .unwrap();
        assert!((got - expected).abs() < 1e-6, "{end}: {got}");
    }
}

/// A batch has all cores of its replica, and what limited replicas cannot do is done at a higher cost.
#[test]
fn replicas_limit_the_least_core_seconds() {
    let fixed = |eta_ms, cores_min, cores_max| Machine {
        cores_min,
        cores_max,
        ..machine(
            LatencyModel {
                eta_ms,
                ..LatencyModel::default()
            },
            Parallelism::Fixed(NonZeroU32::MIN),
            1,
        )
    };
    // 10 ms of two cores, or 50 ms of one.
    let small = fixed(50.0, 1.0, f64::INFINITY);
    let requests: Vec<Window> = (0..100).map(|i| window((i, 9, 0.0))).collect();
    let end = Duration::from_secs(2);
    for (most, expected) in [(f64::INFINITY, 2.0), (0.5, 1.0 + 50.0 * 0.05), (0.0, 5.0)] {
        let machines = [fixed(10.0, 2.0, most), small.clone()];
        let got = min(&requests, 100, &machines, end).unwrap();
        assert!(
            (got - expected).abs() < 1e-6,
            "{most}: {got}, not {expected}"
        );
    }
}

#[test]
fn fluid_bound_is_close_to_known_optimum() {
    // 10 slots at 40 ms: 250 requests/s; 0.4 s for each; random arrivals.
    let servers = servers(vec![(70.0, vec![step(0, 10, 1, 4, 0)])]);
    for load_percent in [70, 95, 150, 300] {
        let mut chance = 1u64;
        let mut at = Duration::ZERO;
        let mut next = |_| {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            at += Duration::from_micros((chance >> 33) % 8000 * 100 / load_percent);
            Window {
                release: at,
                due: at + UNIT * 40,
                min_accuracy: 0.0,
            }
        };
        let requests: Vec<Window> = (0..20_000).map(&mut next).collect();
        let exact = most_on_time(&requests, &servers);
        assert_eq!(exact.kind, Kind::Exact);
        let fluid = fluid::most_on_time(&requests, &servers);
        println!("{load_percent} %: {} exact, {fluid} fluid", exact.on_time);
        assert!(fluid >= exact.on_time && fluid as f64 <= exact.on_time as f64 * 1.005);
    }
}

/// Measurement: a million requests, with budgets like a mobile network's.
#[test]
#[ignore = "a measurement"]
fn a_million_requests() {
    let requests: Vec<Window> = (0..1_000_000u64)
        .map(|i| Window {
            release: Duration::from_micros(i * 1000),
            due: Duration::from_micros(i * 1000 + 400_000 + (i * 7919 % 600) * 1000),
            min_accuracy: if i % 10 == 0 { 80.0 } else { 0.0 },
        })
        .collect();
    let steps = |slots| (0..1000).map(move |s| step(100 * s, slots + s % 3, 1, 4, 0));
    let servers = servers(vec![
        (70.0, steps(20).collect()),
        (80.0, steps(5).collect()),
    ]);
    #[allow(clippy::disallowed_methods, reason = "a measurement")]
    let start = std::time::Instant::now();
    let bound = most_on_time(&requests, &servers);
    println!("{bound:?} in {:?}", start.elapsed());
    let latency = LatencyModel {
        gamma_ms: 36.0,
        epsilon_ms: 2.0,
        delta_ms: 2.0,
        eta_ms: 1.0,
    };
    let mut machine = machine(latency, Parallelism::PerCore, 8);
    machine.cores = 4.0;
    let bound = min(
        &requests,
        950_000,
        &[machine.clone(), machine.clone(), machine],
        END,
    );
    println!("{bound:?} in {:?} from the start", start.elapsed());
}
