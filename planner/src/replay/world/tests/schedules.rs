//! Random small scenarios, faults and all, through the core. After every step of every engine: no
//! slot is taken beyond the plan's, and nobody is sent ahead of an earlier deadline in the same
//! queue. At the end: every request ended exactly once, no slot, place or request is left, and no more
//! were on time than the bound allows.
//!
//! A failing seed prints the line that reproduces it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use weir_filter::board::{Key, Scope};
use weir_filter::engine::{Gauge, StreamId};
use weir_filter::gate::{GHOST_MAX, VariantId};
use weir_filter::time::{Mono, Now, Wall};
use weir_filter::verdict::Verdict;

use super::*;
use crate::replay::bound::{self, Kind};
use crate::replay::plane::Worker;

/// The variants' names, in the order of every engine's table.
const VARIANTS: [&str; 3] = ["a", "b", "c"];

/// How many seeds.
const SEEDS: u64 = 20_000;
/// Names one seed to run alone.
const SEED_VARIABLE: &str = "WEIR_REPLAY_SEED";
/// One seed in so many is played twice, and has a planner.
const TWICE_EVERY: u64 = 20;
const PLANNER_EVERY: u64 = 200;

/// How long somebody may wait beside a free slot: two looks of whoever waits, one of them lost, and
/// the timer's rounding.
const IDLE_MAX: Duration = Duration::from_millis(33);

/// Checks every step.
#[derive(Default)]
struct Inspector {
    /// What each worker was last seen to have of each variant, with its proxy.
    gauges: BTreeMap<(u32, usize, usize), Gauge>,
    taken: BTreeMap<(usize, usize), u32>,
    /// Since when somebody waits beside a free slot, by proxy and variant.
    idle_since: BTreeMap<(u32, usize), u64>,
    /// What the last worker's board counts as taken at the end.
    last: Option<Vec<(Key, u32)>>,
    /// Calls that released somebody who was held while others still waited.
    choices: u64,
}

impl Inspector {
    /// What holds of a proxy's workers together.
    fn check_proxy(&mut self, worker: usize, who: &Worker, gauges: &[Gauge], now: u64) {
        let on_board: BTreeMap<Key, u32> = who.taken_on_board(now).into_iter().collect();
        for (variant, gauge) in gauges.iter().enumerate() {
            let before = self.gauges.insert((who.proxy, worker, variant), *gauge);
            let of_proxy = self
                .gauges
                .iter()
                .filter(|((proxy, _, known), _)| *proxy == who.proxy && *known == variant);
            let (mut taken, mut held, mut slots) = (0, 0, u32::MAX);
            for (_, known) in of_proxy {
                taken += known.taken;
                held += known.held;
                slots = slots.min(known.slots);
            }
            if before.map_or(0, |before| before.taken) < gauge.taken {
                let most = gauge.slots;
                assert!(taken <= most, "{taken} slots taken of {most} by one proxy");
            }
            let counted = on_board.get(&Key::of(VARIANTS[variant])).copied();
            let free = counted.unwrap_or(0).max(taken) < slots;
            let since = self.idle_since.entry((who.proxy, variant)).or_insert(now);
            if !free || held == 0 {
                *since = now;
            }
            let idle = Duration::from_nanos(now - *since);
            assert!(
                idle <= IDLE_MAX,
                "{held} wait beside a free slot for {idle:?}"
            );
        }
    }
}

impl Witness for Inspector {
    fn told(&mut self, worker: usize, who: &Worker, verdicts: &[(StreamId, Verdict)], now: u64) {
        let engine = &who.engine;
        let gauges: Vec<_> = engine.gauges().collect();
        if engine.config().scope == Scope::Proxy {
            self.check_proxy(worker, who, &gauges, now);
        }
        let mut last: BTreeMap<VariantId, Mono> = BTreeMap::new();
        for (stream, verdict) in verdicts {
            let Verdict::Forward(dispatch) = verdict else {
                continue;
            };
            assert!(
                !dispatch.remaining.is_zero(),
                "{stream} was sent without time left"
            );
            let deadline = Mono(now) + dispatch.remaining;
            if let Some(before) = last.insert(dispatch.variant, deadline) {
                assert!(
                    before <= deadline,
                    "{stream} was sent after a later deadline"
                );
            }
        }
        for (variant, gauge) in gauges.iter().enumerate() {
            let id = VariantId(variant as u16);
            if let (Some(sent), Some(waits)) = (last.get(&id), gauge.earliest) {
                assert!(*sent <= waits, "sent {sent:?} ahead of {waits:?}");
                self.choices += 1;
            }
            let before = self
                .taken
                .insert((worker, variant), gauge.taken)
                .unwrap_or(0);
            assert!(
                gauge.taken <= gauge.slots.max(before),
                "{} slots taken of {}, {before} before",
                gauge.taken,
                gauge.slots
            );
        }
        let held: usize = gauges.iter().map(|gauge| gauge.held).sum();
        assert!(
            held <= engine.open(),
            "{held} held of {} open",
            engine.open()
        );
        assert!(held <= engine.config().held_max, "{held} held");
    }

    fn anew(&mut self, worker: usize) {
        self.gauges.retain(|(_, known, _), _| *known != worker);
        self.idle_since.clear();
        self.taken.retain(|(known, _), _| *known != worker);
    }

    fn end(&mut self, workers: &mut dyn Iterator<Item = &mut Worker>, now: u64) {
        for worker in workers {
            let engine = &mut worker.engine;
            assert_eq!(
                engine.open(),
                0,
                "requests that have ended and are not forgotten"
            );
            let mut verdicts = Vec::new();
            let mono = Mono(now) + GHOST_MAX;
            engine.release(
                Now {
                    mono,
                    wall: Wall(0),
                },
                &mut verdicts,
            );
            assert_eq!(verdicts, [], "somebody was still held");
            for gauge in engine.gauges() {
                assert_eq!((gauge.taken, gauge.held), (0, 0), "{gauge:?}");
            }
            self.last = Some(worker.taken_on_board(mono.0));
        }
    }
}

/// A scenario, its requests and who plays it.
fn drawn(seed: u64) -> (Scenario, Vec<Request>, Contender) {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let planner = seed.is_multiple_of(PLANNER_EVERY);
    let mut scenario = scenario([1, 1]);
    let variants = random.random_range(1..=3_usize);
    let mut third = scenario.service.variants[0].clone();
    "c".clone_into(&mut third.name);
    "c".clone_into(&mut third.cluster);
    scenario.service.variants.push(third);
    scenario.service.variants.truncate(variants);
    scenario.variants = VARIANTS[..variants]
        .iter()
        .map(|name| {
            let cores = f64::from(random.random_range(0..=3_u32));
            let mut server = server(name, random.random_range(0.0..120.0), cores);
            server.batch_max = random.random_range(1..=3);
            server.batch_delay = ms(random.random_range(0..10));
            server.noise_sigma = if random.random_bool(0.3) { 0.3 } else { 0.0 };
            server.resize_delay = ms(random.random_range(0..400));
            server.readiness = ms(random.random_range(0..1000));
            let far = random.random_bool(0.5);
            server.round_trip = Duration::from_micros(if far {
                random.random_range(0..40_000)
            } else {
                0
            });
            server
        })
        .collect();
    scenario.variants[0].cores = scenario.variants[0].cores.max(1.0);
    let scales = !planner && random.random_bool(0.05);
    let length_ms = if scales {
        32_000
    } else {
        random.random_range(100..3000)
    };
    scenario.length = ms(length_ms);
    scenario.proxies.count = random.random_range(1..=2);
    scenario.proxies.workers = random.random_range(1..=3);
    scenario.proxies.plan_delay = ms(random.random_range(0..30));
    scenario.proxies.ring_delay = Duration::from_micros(random.random_range(0..3000));
    let plan = scenario.proxies.plugin["plan"]["variants"].clone();
    let mut plan: Vec<_> = plan.as_array().unwrap().clone();
    plan.push(plan[0].clone());
    plan[2]["name"] = json!("c");
    plan[2]["cluster"] = json!("c");
    plan.truncate(variants);
    for variant in &mut plan {
        variant["share"] = json!(1.0 / variants as f64);
        variant["slots"] = json!(random.random_range(2..=5));
        // Right, too short or too long.
        variant["service_ms"] = json!(random.random_range(0.0..200.0_f64));
    }
    scenario.proxies.plugin["plan"]["variants"] = json!(plan);
    scenario.proxies.plugin["queue"] = json!({"held_max": random.random_range(1..=20)});
    scenario.proxies.plugin["deadline"] =
        json!({"least_ms": 1, "reserve_ms": random.random_range(0..20)});
    let stale = ["keep", "static", "refuse"][random.random_range(0..3_usize)];
    scenario.proxies.plugin["on_stale"] = json!(stale);
    scenario.service.cycle = ms(random.random_range(200..=1000));
    scenario.service.plan_max_age = ms(random.random_range(500..5000));
    scenario.faults = (0..random.random_range(0..4_u32))
        .map(|_| Fault {
            at: ms(random.random_range(0..length_ms)),
            what: fault(&mut random, variants),
        })
        .collect();
    // Spread out, or a crowd for few slots.
    let crowd_ms = if random.random_bool(0.5) {
        length_ms
    } else {
        length_ms.min(200)
    };
    let count = random.random_range(1..=60_u32);
    let mut sent: Vec<u64> = (0..count)
        .map(|_| random.random_range(0..crowd_ms * 1000))
        .collect();
    sent.sort_unstable();
    let request = |(id, sent): (u32, u64)| {
        let way = Duration::from_micros(random.random_range(0..100_000));
        let sent = Duration::from_micros(sent);
        Request {
            id,
            sent,
            arrives: sent + way,
            budget: ms(random.random_range(1..800)),
            way_back: Duration::from_micros(random.random_range(0..50_000)),
            skew_ms: if random.random_bool(0.2) {
                random.random_range(-40_000..40_000)
            } else {
                0
            },
            min_accuracy: if random.random_bool(0.2) {
                random.random_range(0.0..100.0)
            } else {
                0.0
            },
            class: 0,
            patience: ms(random.random_range(1..2000)),
            retries: random.random_range(0..3),
        }
    };
    let requests = (0..).zip(sent).map(request).collect();
    let planes = [Plane::Weir, Plane::Weir, Plane::Weir, Plane::WeirGlobal];
    let plane = if random.random_bool(0.8) {
        planes[random.random_range(0..planes.len())]
    } else {
        Plane::ALL[random.random_range(0..Plane::ALL.len())]
    };
    let control = match (planner, scales, seed % 2) {
        (true, ..) => Control::Planner,
        (_, true, 0) => Control::HpaLike,
        (_, true, _) => Control::VpaLike,
        _ => Control::Static,
    };
    (scenario, requests, Contender { plane, control })
}

fn fault(random: &mut ChaCha8Rng, variants: usize) -> FaultKind {
    let lasts = ms(random.random_range(0..1500));
    let (proxy, worker) = (random.random_range(0..2), random.random_range(0..3));
    let variant = random.random_range(0..variants);
    match random.random_range(0..10_u32) {
        0 => FaultKind::ProxyRestart { proxy },
        1 => FaultKind::WorkerTrap { proxy, worker },
        2 => FaultKind::PlannerOutage { lasts },
        3 => FaultKind::ScrapeLoss { lasts },
        4 => FaultKind::ServerCrash { variant, lasts },
        5 => FaultKind::ServerSlow {
            variant,
            percent: random.random_range(50..500),
            lasts,
        },
        6 => FaultKind::LostWake { proxy, worker },
        7 => FaultKind::LostPlan { proxy },
        8 => FaultKind::ResizeRefused { lasts },
        _ => FaultKind::ResizeDeferred { lasts },
    }
}

fn on_time(scenario: &Scenario, requests: &[Request], play: &Play) -> u64 {
    let is_on_time = |(request, outcome): &(&Request, &Outcome)| {
        let Fate::Answered(variant) = outcome.fate else {
            return false;
        };
        let accuracy = scenario.service.variants[usize::from(variant)].accuracy;
        outcome.ended <= request.deadline() && accuracy >= request.min_accuracy
    };
    requests
        .iter()
        .zip(&play.outcomes)
        .filter(is_on_time)
        .count() as u64
}

/// Plays a seed; how many choices among those held were checked.
fn check(seed: u64) -> u64 {
    let (scenario, requests, contender) = drawn(seed);
    let once = || play_before(Inspector::default(), &scenario, &requests, contender, seed).unwrap();
    let (play, inspector) = once();
    let taken = inspector.last.clone().unwrap_or_default();
    assert!(
        taken.iter().all(|(_, taken)| *taken == 0),
        "lost: {taken:?}"
    );
    for (request, outcome) in requests.iter().zip(&play.outcomes) {
        assert_eq!(outcome.request, request.id);
        assert!(outcome.ended >= request.sent, "{outcome:?} of {request:?}");
        let leaves = request.sent + request.patience;
        assert!(outcome.ended <= leaves, "{outcome:?} after {leaves:?}");
        let answered = matches!(outcome.fate, Fate::Answered(_));
        assert!(!answered || outcome.dispatched.is_some(), "{outcome:?}");
    }
    let seconds = scenario.length.as_secs_f64().ceil() as usize;
    assert_eq!(play.seconds.len(), seconds);
    let bound = &bound::of_plays(&scenario, &requests, std::slice::from_ref(&play))[0];
    if bound.kind != Kind::Estimate {
        let on_time = on_time(&scenario, &requests, &play);
        assert!(
            bound.on_time >= on_time,
            "{on_time} on time beats {bound:?}"
        );
    }
    if seed.is_multiple_of(TWICE_EVERY) {
        assert_eq!(once().0, play, "the same seed played twice");
    }
    inspector.choices
}

#[test]
fn random_schedules_keep_order_slots_and_count() {
    if let Ok(seed) = std::env::var(SEED_VARIABLE) {
        check(seed.parse().unwrap());
        return;
    }
    let run = |seeds: std::ops::Range<u64>| {
        let mut choices = 0;
        for seed in seeds {
            match catch_unwind(AssertUnwindSafe(|| check(seed))) {
                Ok(checked) => choices += checked,
                Err(panic) => {
                    eprintln!("{SEED_VARIABLE}={seed} cargo test -p weir-planner random_schedules");
                    resume_unwind(panic);
                }
            }
        }
        choices
    };
    let half = SEEDS / 2;
    let choices = std::thread::scope(|scope| {
        let other = scope.spawn(|| run(half..SEEDS));
        run(0..half) + other.join().unwrap_or_else(|panic| resume_unwind(panic))
    });
    assert!(
        choices > 2 * SEEDS,
        "only {choices} choices were there to check"
    );
}
