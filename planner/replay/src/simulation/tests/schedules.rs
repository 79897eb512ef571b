//! Random small scenarios with faults: variants of different speed and accuracy, classes, batches,
//! pipeline stages, roles. Every step of every engine is checked: no slot is taken beyond the plan's,
//! each queue dispatches by deadline (`class_order`: within a class, and no class is passed over more often
//! than allowed), and queue limits hold. At the end every request has exactly one outcome, no slot,
//! place or request is left, and no more requests were on time than the bound allows.
//!
//! A failing seed prints the command line that reproduces it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

mod class_order;
mod random_scenario;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use weir_filter::coordination::Scope;
use weir_filter::engine::{Gauge, StreamId};
use weir_filter::priority::ORPHAN_MAX;
use weir_filter::time::{Mono, Now, Wall};
use weir_filter::variant::{VariantId, VariantKey};
use weir_filter::verdict::Verdict;

use super::*;
use crate::bound::{self, Kind};
use crate::plane::Worker;
use class_order::ClassOrder;
use random_scenario::random_scenario;

/// Names of the variants, in the order of every engine's table.
const VARIANTS: [&str; 3] = ["a", "b", "c"];

/// Number of seeds.
const SEEDS: u64 = 20_000;
/// Environment variable with a single seed to run.
const SEED_VARIABLE: &str = "WEIR_REPLAY_SEED";
/// One in this many seeds is played twice.
const TWICE_EVERY: u64 = 20;
const PLANNER_EVERY: u64 = 200;

/// Maximum wait beside a free slot: two polls of the waiting worker, one of them lost, and the timer's
/// rounding.
const IDLE_MAX: Duration = Duration::from_millis(33);

/// Witness that checks every step.
#[derive(Default)]
struct Inspector {
    /// Last known gauges by proxy, worker and variant.
    gauges: BTreeMap<(u32, usize, usize), Gauge>,
    taken: BTreeMap<(usize, usize), u32>,
    /// Earliest deadline in each worker's queue of each variant after its last call.
    earliest: BTreeMap<(usize, usize), Mono>,
    /// Start of a wait beside a free slot, by proxy and variant.
    idle_since: BTreeMap<(u32, usize), u64>,
    /// Slots counted as taken in the last worker's slot table at the end.
    last: Option<Vec<(VariantKey, u32)>>,
    /// Number of checked calls that dispatched a queued request while others still waited.
    choices: u64,
    /// Checks of the class scheduler.
    class_order: ClassOrder,
    /// Whether any variant executes batches; requests then wait for a batch beside free slots.
    batches: bool,
}

impl Inspector {
    /// Checks the invariants over all workers of a proxy.
    fn check_proxy(&mut self, worker: usize, who: &Worker, gauges: &[Gauge], now: u64) {
        let in_slot_table: BTreeMap<VariantKey, u32> =
            who.taken_in_slot_table(now).into_iter().collect();
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
                // As many again may queue behind the executing ones.
                let most = 2 * gauge.slots;
                assert!(taken <= most, "{taken} slots taken of {most} by one proxy");
            }
            let counted = in_slot_table
                .get(&VariantKey::of(VARIANTS[variant]))
                .copied();
            let free = counted.unwrap_or(0).max(taken) < slots;
            let since = self.idle_since.entry((who.proxy, variant)).or_insert(now);
            if !free || held == 0 || self.batches {
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
    fn on_verdicts(
        &mut self,
        worker: usize,
        who: &Worker,
        verdicts: &[(StreamId, Verdict)],
        now: u64,
    ) {
        let engine = &who.engine;
        let gauges: Vec<_> = engine.gauges().collect();
        if engine.config().scope == Scope::Proxy {
            self.check_proxy(worker, who, &gauges, now);
        }
        self.class_order.on_verdicts(worker, verdicts, now);
        let alike = engine.config().classes.len() == 1;
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
                    !alike || before <= deadline,
                    "{stream} was sent after a later deadline"
                );
            }
        }
        for (variant, gauge) in gauges.iter().enumerate() {
            let id = VariantId(variant as u16);
            if let (Some(sent), Some(waits)) = (last.get(&id), gauge.earliest) {
                // With several variants a request may have been moved here after that.
                let before = self.earliest.get(&(worker, variant));
                let waited = gauges.len() == 1 || before == Some(&waits);
                assert!(
                    !alike || !waited || *sent <= waits + self.class_order.rest.into(),
                    "sent {sent:?} ahead of {waits:?}"
                );
                self.choices += 1;
            }
            match gauge.earliest {
                Some(earliest) => self.earliest.insert((worker, variant), earliest),
                None => self.earliest.remove(&(worker, variant)),
            };
            let before = self
                .taken
                .insert((worker, variant), gauge.taken)
                .unwrap_or(0);
            assert!(
                gauge.taken <= (2 * gauge.slots).max(before),
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
        assert!(held <= engine.config().max_requests, "{held} held");
        let mut of_classes = 0;
        for (class, known) in engine.config().classes.iter() {
            let of_class = engine.held_of(class);
            of_classes += of_class;
            // A new plan reroutes queued requests, and rejects none for a limit.
            let most = known.max_requests.unwrap_or(usize::MAX);
            assert!(of_class <= most, "{of_class} held of {}", known.name);
        }
        assert_eq!(of_classes, held, "held in rooms and counted by class");
    }

    fn on_last_byte(&mut self, worker: usize, stream: StreamId) {
        self.class_order.on_last_byte(worker, stream);
    }

    fn on_new_engine(&mut self, worker: usize) {
        self.gauges.retain(|(_, known, _), _| *known != worker);
        self.idle_since.clear();
        self.taken.retain(|(known, _), _| *known != worker);
        self.earliest.retain(|(known, _), _| *known != worker);
        self.class_order.on_new_engine(worker);
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
            let mono = Mono(now) + ORPHAN_MAX;
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
            self.last = Some(worker.taken_in_slot_table(mono.0));
        }
    }
}

fn batches(scenario: &Scenario) -> bool {
    let plan = scenario.proxies.plugin["plan"]["variants"].as_array();
    plan.is_some_and(|plan| plan.iter().any(|variant| variant["batch"] != 1))
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

/// Plays a seed; returns the number of dispatch choices that were checked.
fn check(seed: u64) -> u64 {
    let (scenario, requests, contender) = random_scenario(seed);
    let once = || {
        let inspector = Inspector {
            class_order: ClassOrder::of(&scenario, &requests, contender),
            batches: batches(&scenario),
            ..Inspector::default()
        };
        play_with(inspector, &scenario, &requests, contender, seed).unwrap()
    };
    let (play, inspector) = once();
    let taken = inspector.last.clone().unwrap_or_default();
    assert!(
        taken.iter().all(|(_, taken)| *taken == 0),
        "lost: {taken:?}"
    );
    for (request, outcome) in requests.iter().zip(&play.outcomes) {
        assert_eq!(outcome.request, request.id);
        assert!(outcome.ended >= request.sent, "{outcome:?} of {request:?}");
        let leaves = request.sent + request.timeout;
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
fn random_schedules_keep_order_slot_limits_and_request_count() {
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
                    eprintln!("{SEED_VARIABLE}={seed} cargo test -p weir-replay random_schedules");
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
