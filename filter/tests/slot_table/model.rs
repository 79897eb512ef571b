//! Model check of the protocol: every order of the workers' writes, with every fault, tried mechanically on
//! the code that runs in Envoy ([`Worker`] over a store).
//!
//! A write is one step: its swap succeeds only if the table is the one loaded, so other workers' writes in
//! between are as if done before the load. Time advances in steps too and is stored relative to now, so
//! that states repeat and the check ends without a horizon. `docs/explanation/slot-table.md` lists the assumptions, the
//! guarantees, and the fault that each guarantee has caught.

use crate::time::Span;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use stateright::{Checker, HasDiscoveries, Model, Property, UniformChooser};

use self::state::{Budget, State};
use self::steps::Step;
use super::{SlotTable, Timeouts};
use crate::time::Mono;

mod at_length;
mod state;
mod steps;
mod worker;

/// Workers; each can die and be replaced.
const WORKERS: usize = 3;
/// Slots of the only variant.
const SLOTS: u32 = 3;
/// Predicted time of an execution; the actual time is any up to one step more.
const BRIEF: Span = Span::from_nanos(2);
/// Time after the start of an execution at which another may be sent behind it.
const AFTER: Span = Span::from_nanos(1);
/// Limit of past times, which are not distinguished below it.
const LONG_AGO: Mono = Mono(NOW.0 - 20);
/// An execution that outlasts the lease.
const LONG: Span = Span::from_nanos(7);
/// Steps between two ticks of a worker; a slow one comes a step later.
const TICK: u8 = 2;
/// Steps after which the table of an inactive proxy must be empty.
const QUIET: u8 = 8;
/// The present is fixed: everything else moves.
const NOW: Mono = Mono(1 << 40);

/// Timeouts in steps. As in Envoy: grace < tick, and a lease outlasts a renewal that was not yet due at one
/// tick and comes with a late next one.
const STEPS: Timeouts = Timeouts {
    lease: Span::from_nanos(5),
    poller_lease: Span::from_nanos(5),
    renewal: Span::from_nanos(1),
    grace: Span::from_nanos(1),
    quarantine: Span::from_nanos(5),
    orphan_max: Span::from_nanos(100),
    column_idle: Span::from_nanos(1 << 20),
};

/// Initial state of a check, and its budget of events.
#[derive(Debug)]
struct Proxy {
    /// Slots taken by each worker initially.
    taken: [u32; WORKERS],
    service: Span,
    /// Batch size.
    batch: u32,
    /// Whether the next request is sent before a lane is free.
    ahead: bool,
    budget: Budget,
    /// Number of occurrences of each situation.
    met: [AtomicU64; MET.len()],
}

impl Proxy {
    fn new(taken: [u32; WORKERS], service: Span, budget: Budget) -> Proxy {
        Proxy {
            taken,
            service,
            batch: 1,
            ahead: false,
            budget,
            met: Default::default(),
        }
    }

    /// Batches of two.
    fn in_twos(self) -> Proxy {
        Proxy { batch: 2, ..self }
    }

    /// Sends the next request before a lane is free.
    fn ahead(self) -> Proxy {
        Proxy {
            ahead: true,
            ..self
        }
    }

    /// Number of ticks for which a free slot may wait after the first. Each VM that came, was held off by
    /// another, and then died or stalled costs one more: with many deaths in a row there is no bound.
    fn ticks_allowed(&self) -> u8 {
        if self.budget.deaths > 2 {
            2 * WORKERS as u8
        } else {
            2
        }
    }
}

impl Model for Proxy {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(
            self.taken,
            self.service,
            self.batch,
            self.ahead,
            self.budget,
        )]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        state.steps(steps);
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        let mut met = Vec::new();
        next.take(step, &mut met);
        for (what, count) in MET.iter().zip(&self.met) {
            count.fetch_add(u64::from(met.contains(what)), Ordering::Relaxed);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Proxy>> {
        vec![
            Property::always("no slot is granted twice", |_, state: &State| {
                state.executing() <= SLOTS + state.ending()
            }),
            Property::always("no slot is lost for good", |_, state: &State| {
                state.quiet < QUIET || state.counted() == 0
            }),
            Property::always(
                "a free slot waits at most two ticks after the first",
                |proxy: &Proxy, state: &State| {
                    state
                        .workers
                        .iter()
                        .flatten()
                        .all(|worker| worker.passed_over <= proxy.ticks_allowed())
                },
            ),
            Property::always("the slot table does not grow", |_, state: &State| {
                // At most one worker is dead at a time.
                state.table.rows.len() <= WORKERS + 1 && state.table.columns.len() <= 1
            }),
            Property::always("notified once until it acquires", |_, state: &State| {
                state
                    .workers
                    .iter()
                    .flatten()
                    .all(|worker| worker.notifies <= 1)
            }),
            Property::always("earliest deadline first", |_, state: &State| {
                !state.out_of_order
            }),
            Property::always(
                "no request leaves before its batch is closed",
                |_, state: &State| !state.left_incomplete_batch,
            ),
            Property::always(
                "open places of a batch do not exceed the waiting requests",
                |_, state: &State| !state.open_exceeds_waiting,
            ),
        ]
    }
}

/// Situations that every check must cover, or it checks nothing.
const MET: [&str; 14] = [
    "slot passed on within a worker, in one swap",
    "slot passed to another worker, which was notified",
    "a notification lost, and repaired by a tick",
    "a reservation revoked",
    "an arrival ahead of a notified worker",
    "all swaps of a transaction lost",
    "a request abandoned",
    "a dead worker's slots counted",
    "a row reused",
    "a slot table reset",
    "refused during quarantine",
    "a batch of several workers closed",
    "a batch closed because one was due",
    "sent before a lane is free",
];

/// Explores `proxy` and reports; panics with the steps that violate a property.
fn check(name: &str, proxy: Proxy, bound: Bound) -> BTreeMap<&'static str, u64> {
    let began = began();
    let checker = proxy
        .checker()
        .threads(std::thread::available_parallelism().map_or(1, Into::into))
        .finish_when(HasDiscoveries::AnyFailures);
    match bound {
        Bound::All => report(name, &checker.spawn_bfs().join(), began),
        Bound::Walks { seed, span } => {
            let walks = checker.timeout(span).spawn_simulation(seed, UniformChooser);
            report(name, &walks.join(), began)
        }
    }
}

/// Extent of a check.
#[derive(Debug, Clone, Copy)]
enum Bound {
    /// All states.
    All,
    /// Random walks of this duration.
    Walks { seed: u64, span: Duration },
}

fn report(
    name: &str,
    checker: &impl Checker<Proxy>,
    began: Instant,
) -> BTreeMap<&'static str, u64> {
    println!(
        "{name}: {} states, {} steps, {} deep, {:.1} s",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth(),
        began.elapsed().as_secs_f64(),
    );
    if let Some((promise, path)) = checker.discoveries().into_iter().next() {
        for (state, step) in path.into_vec() {
            println!("{state}");
            step.iter().for_each(|step| println!("→ {step:?}"));
        }
        panic!("{name}: broken: {promise}");
    }
    let counted = checker
        .model()
        .met
        .iter()
        .map(|count| count.load(Ordering::Relaxed));
    MET.into_iter().zip(counted).collect()
}

#[allow(clippy::disallowed_methods, reason = "how long a check took")]
fn began() -> Instant {
    Instant::now()
}

/// Runs all checks; together they must cover all situations.
fn check_all(proxies: Vec<(&str, Proxy, Bound)>) {
    let mut met: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, proxy, bound) in proxies {
        for (what, count) in check(name, proxy, bound) {
            *met.entry(what).or_default() += count;
        }
    }
    for what in MET {
        println!("{:>9} × {what}", met.get(what).copied().unwrap_or(0));
    }
    let missed: Vec<_> = MET
        .into_iter()
        .filter(|what| met.get(what) == Some(&0))
        .collect();
    assert!(missed.is_empty(), "never met: {missed:?}");
}

/// Small budgets, each check with another mix: part of every test run.
#[test]
fn invariants_hold_in_small_models() {
    let base = Budget {
        arrivals: 2,
        urgencies: 2,
        ..Budget::default()
    };
    let [mut slow, mut early, mut orphans] = [base; 3];
    let [mut death, mut deaths, mut corrupted] = [base; 3];
    (slow.slow, slow.lost) = (1, 1);
    early.early = 1;
    orphans.abandons = 1;
    death.deaths = 1;
    (deaths.deaths, deaths.arrivals) = (2, 1);
    (corrupted.corruptions, corrupted.arrivals) = (1, 1);
    let short = Budget {
        arrivals: 1,
        ..death
    };
    let once = Budget {
        arrivals: 1,
        ..slow
    };
    check_all(vec![
        (
            "slow and contended",
            Proxy::new([3, 0, 0], BRIEF, slow),
            Bound::All,
        ),
        ("early", Proxy::new([3, 0, 0], BRIEF, early), Bound::All),
        (
            "clients leave",
            Proxy::new([2, 1, 0], BRIEF, orphans),
            Bound::All,
        ),
        (
            "a death among many",
            Proxy::new([3, 0, 0], BRIEF, death),
            Bound::All,
        ),
        ("deaths", Proxy::new([2, 1, 0], BRIEF, deaths), Bound::All),
        (
            "a death amid long work",
            Proxy::new([3, 0, 0], LONG, short),
            Bound::All,
        ),
        (
            "spoilt",
            Proxy::new([2, 1, 0], BRIEF, corrupted),
            Bound::All,
        ),
        (
            "spoilt amid long work",
            Proxy::new([3, 0, 0], LONG, corrupted),
            Bound::All,
        ),
        (
            "in twos, clients leave",
            Proxy::new([2, 1, 0], BRIEF, orphans).in_twos(),
            Bound::All,
        ),
        (
            "in twos, a death among many",
            Proxy::new([2, 0, 0], BRIEF, death).in_twos(),
            Bound::All,
        ),
        (
            "sent ahead, clients leave",
            Proxy::new([2, 1, 0], BRIEF, orphans).ahead(),
            Bound::All,
        ),
        (
            "sent ahead, a death",
            Proxy::new([2, 1, 0], BRIEF, short).ahead(),
            Bound::All,
        ),
        (
            "sent ahead, slow and contended",
            Proxy::new([3, 0, 0], BRIEF, once).ahead(),
            Bound::All,
        ),
    ]);
}
