//! Runs a case cycle by cycle, as the control loop does, and checks the invariants at each moment.

mod invariants;

use weir_api::Cores;

use super::super::detour::Detour;
use super::super::under_way::UnderWay;
use super::backend::{Answer, Backend};
use super::case::{CYCLE_MS, Case, Phase, Rng, Variant};
use crate::capacity::{Actual, Allocation, Resize, Target};
use crate::rollout::{STEPS_MAX, Shapes, Step, Transition};

/// Time limit for confirming a change, in ms.
pub(super) const TIMEOUT_MS: u64 = 200;
/// Part of the demand that counts as rounding.
const TOLERANCE: f64 = 2e-6;
/// Samples per cycle, including the one at its beginning.
const SAMPLES: u64 = 4;
/// Maximum number of consecutive steps of a cycle that change nothing: growth, publication, shrinking.
const IDLE_MAX: usize = 6;
/// Cycles without a change after which a case is over: a detour is searched again after some cycles.
const SAME_CYCLES: u32 = 8;
/// Cycles after the last fault in which a lost change may still take effect.
const PENDING_CYCLES: u64 = 61;

/// Figures of many cases.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) transitions: u64,
    pub(super) cycles: u64,
    pub(super) reached: u64,
    /// Targets that no order of steps reaches without a loss.
    pub(super) unreachable: u64,
    /// Publications that carry less than before, because the demand exceeded the capacity.
    pub(super) freed_capacity: u64,
}

impl Counts {
    pub(super) fn add(&mut self, other: Counts) {
        self.transitions += other.transitions;
        self.cycles += other.cycles;
        self.reached += other.reached;
        self.unreachable += other.unreachable;
        self.freed_capacity += other.freed_capacity;
    }
}

pub(super) struct Play<'a, B> {
    case: &'a Case,
    rng: Rng,
    backend: B,
    now: u64,
    actual: Vec<Actual>,
    under_way: UnderWay,
    detour: Detour,
    published: Vec<Allocation>,
    /// Variants that another controller changed since a plan was published.
    undone: Vec<bool>,
    /// Allowed cores and excess of resources in this cycle.
    allowed: (Cores, Vec<u64>),
    counts: Counts,
    /// First failed check, and when.
    failure: Option<String>,
    /// Whether each step is printed.
    is_verbose: bool,
}

impl<'a, B: Backend> Play<'a, B> {
    pub(super) fn new(case: &'a Case, backend: B) -> Play<'a, B> {
        Play {
            case,
            rng: Rng(case.seed ^ 0x5eed),
            backend,
            now: 0,
            actual: case.start.iter().copied().map(Actual::certain).collect(),
            under_way: UnderWay::new(case.variants.len()),
            detour: Detour::default(),
            published: vec![Allocation::NONE; case.variants.len()],
            undone: vec![false; case.variants.len()],
            allowed: (case.budget, Vec::new()),
            counts: Counts::default(),
            failure: None,
            is_verbose: false,
        }
    }

    /// Prints each step.
    pub(super) fn verbose(self) -> Play<'a, B> {
        Play {
            is_verbose: true,
            ..self
        }
    }

    /// Runs all cycles, to the end of the last transition.
    ///
    /// # Errors
    /// The first failed check.
    pub(super) fn run(mut self) -> Result<Counts, String> {
        self.play();
        self.failure.map_or(Ok(self.counts), Err)
    }

    fn play(&mut self) {
        let last = self.case.phases.last().unwrap();
        self.counts.transitions = self.case.phases.len() as u64;
        let load_ms: u64 = self
            .case
            .variants
            .iter()
            .map(|v| v.delay_ms + v.readiness_ms)
            .sum();
        let faultless = self.case.faults + self.case.undone == 0;
        let certain = if faultless {
            0
        } else {
            Case::FAULT_CYCLES + PENDING_CYCLES
        };
        let end = last.cycle.max(certain) + 4 * load_ms / CYCLE_MS + 30;
        let (mut before, mut same) = (None, 0);
        for cycle in 0..end {
            let phase = self
                .case
                .phases
                .iter()
                .rev()
                .find(|phase| phase.cycle <= cycle)
                .unwrap();
            self.now = self.now.max(cycle * CYCLE_MS);
            self.undo();
            self.cycle(phase);
            self.sample(phase, cycle * CYCLE_MS);
            self.counts.cycles += 1;
            if self.failure.is_some() {
                return;
            }
            if cycle < last.cycle {
                continue;
            }
            let allocations = self.backend.allocations();
            let stable = self.backend.is_stable();
            let is_out = self.published == allocations || !self.is_plan(&allocations);
            if allocations == phase.desired && stable && is_out {
                self.counts.reached += 1;
                return;
            }
            // No change is in progress, and nothing changes any more.
            let state = (stable && cycle >= certain).then(|| (allocations, self.actual.clone()));
            same = if state.is_some() && state == before {
                same + 1
            } else {
                0
            };
            if same == SAME_CYCLES {
                break;
            }
            before = state;
        }
        self.check_end(last);
    }

    fn undo(&mut self) {
        if let Some((index, to)) = self.case.undoes(self.now, &mut self.rng) {
            self.backend.advance(self.now);
            self.backend
                .undo(self.now, self.case, index, to, &mut self.rng);
            self.undone[index] = true;
            self.log(|| format!("{index} is made {to} by somebody"));
        }
    }

    /// Samples until the next cycle, as the control loop does: newly actual capacity is used at once.
    fn sample(&mut self, phase: &Phase, begun: u64) {
        for sample in 1..SAMPLES {
            let at = begun + sample * CYCLE_MS / SAMPLES;
            if self.now > at || self.failure.is_some() {
                continue;
            }
            self.pass(at);
            let awaits = |one: &Actual| one.reserved > one.ready.cores();
            let is_news = self.backend.actual(at) != self.actual;
            if self.actual.iter().any(awaits) && is_news {
                self.cycle(phase);
            }
        }
        self.pass(self.now.max(begun + CYCLE_MS - 1));
    }

    fn cycle(&mut self, phase: &Phase) {
        let (case, begun) = (self.case, self.now);
        self.backend.advance(begun);
        self.allow();
        self.check_use();
        self.actual = self.backend.actual(begun);
        self.under_way.see(&self.actual);
        let ready: Vec<Allocation> = self.actual.iter().map(|one| one.ready).collect();
        let desired = Case::targets(&phase.desired);
        let carried = |allocations: &[Allocation]| case.carried(allocations, phase.demand);
        let by = self
            .detour
            .next(&self.actual, &desired, (&carried, phase.arriving));
        let (targets, min) = by.unwrap_or((desired.clone(), f64::INFINITY));
        let targets = self.under_way.keep(&self.actual, &targets, case.budget);
        self.log(|| format!("in force {:?}, goals {targets:?}", self.actual));
        let transition = Transition::new(&self.actual, &targets, case.budget, &case.limits);
        let transition = transition.after(&self.published).down_to(min);
        let mut transition = transition.serving(phase.arriving);
        let (mut waited, mut is_out) = (true, false);
        // A step without effect is not repeated in the same cycle.
        let (mut steps, mut last) = (0, self.actual.clone());
        for _ in 0..STEPS_MAX {
            let now = transition.actual();
            steps = if now == last { steps + 1 } else { 0 };
            last = now;
            self.ensure(steps < IDLE_MAX, "no end of a cycle", String::new);
            if self.failure.is_some() {
                return;
            }
            transition.hold(&carried);
            match transition.next() {
                Step::Resize(changes) => {
                    if !std::mem::replace(&mut waited, true) {
                        let until = self.now + self.rng.of(0, 350);
                        self.pass(until);
                    }
                    self.resize(&mut transition, &targets, &changes);
                }
                Step::Publish(allocations) => {
                    let is_plan = self.is_plan(&allocations);
                    let now = transition.actual();
                    let now: Vec<Allocation> = now.iter().map(|one| one.ready).collect();
                    if !is_plan && self.is_plan(&now) {
                        break;
                    }
                    self.check_publication(&now, &allocations, (phase, &targets));
                    (waited, is_out) = (false, is_plan);
                    self.undone.fill(false);
                    self.log(|| format!("publishes {}", text(&allocations)));
                    // If a stage has nothing, the others serve nobody.
                    let nothing = vec![Allocation::NONE; allocations.len()];
                    self.published = if is_plan {
                        allocations.clone()
                    } else {
                        nothing
                    };
                    self.check_use();
                    transition.published(allocations);
                }
                Step::Done => break,
            }
        }
        let shapes: Vec<Shapes> = case.variants.iter().map(Variant::range).collect();
        if !phase.rises || carried(&ready) < phase.arriving {
            self.detour.see(&transition, &desired, &shapes, &carried);
        }
        let is_planned = is_out || !self.is_plan(&ready);
        self.ensure(is_planned, "no plan", || format!("{} serves", text(&ready)));
        self.actual = transition.actual();
    }

    fn resize(&mut self, transition: &mut Transition, targets: &[Target], changes: &[Resize]) {
        let now = self.now;
        let mut answers = Vec::with_capacity(changes.len());
        for change in changes {
            let (desired, actual) = (
                targets[change.variant].replicas,
                self.actual[change.variant],
            );
            let ends =
                change.target.replicas < actual.replicas() && actual.starting != Allocation::NONE;
            self.ensure(
                !ends || desired < actual.replicas(),
                "ends what loads",
                || format!("{change:?}, where {desired} are wanted"),
            );
            let fate = self.case.fate(now, &mut self.rng);
            answers.push(
                self.backend
                    .resize(self.case, now, change, fate, &mut self.rng),
            );
            let answer = answers.last();
            self.log(|| format!("{change:?} {fate:?} → {answer:?}"));
            self.check_use();
        }
        let answered = answers.iter().map(|(at, _)| *at).max();
        self.pass(answered.unwrap_or(now));
        for (change, (_, answer)) in changes.iter().zip(answers) {
            match answer {
                Answer::Confirmed(actual) => transition.confirmed(*change, actual),
                Answer::Failed { indeterminate } => {
                    if indeterminate && !self.case.pods {
                        self.under_way.requested(change);
                    }
                    transition.failed(*change, indeterminate);
                }
            }
        }
        let is_requested_anew = self.backend.requested_anew() > 0;
        self.ensure(
            !is_requested_anew,
            "what loads is requested again",
            String::new,
        );
    }

    /// Advances the time and checks on the way.
    fn pass(&mut self, until: u64) {
        while self.now < until {
            self.now = until.min(self.now + 50);
            self.backend.advance(self.now);
            self.check_use();
        }
    }

    fn log(&self, what: impl FnOnce() -> String) {
        if self.is_verbose {
            println!("{} ms: {}", self.now, what());
        }
    }
}

/// Formats allocations, one after the other.
pub(super) fn text(all: &[Allocation]) -> String {
    let each: Vec<String> = all.iter().map(ToString::to_string).collect();
    format!("[{}]", each.join(", "))
}
