//! One cycle: observe → forecast → solve → actuate → publish.
//!
//! Arrivals are sampled several times per cycle. The next cycle starts at once when demand has risen, when clients
//! leave less time (policy sponge), or when a pending write has taken effect. Fallbacks:
//!
//! - one scrape fails: the last rate of that proxy holds; all fail: the last demand holds
//! - no proxy has Weir any more: the demand is unknown
//! - a variant fails: it keeps its cores, and gets no share while another variant of its stage has a capacity
//! - a variant gets less than its quota because requests could not wait for it: the decision is unchanged; its reason
//!   and the status report the shortfall, and the accuracy reported is that of the routed requests
//! - a variant takes another time than its profile says: capacities and policies count with the measured one
//! - a backend does not report its cores: the last confirmed ones hold
//! - demand is unknown, or the solver found nothing in time: the cores stay
//! - demand exceeds the capacity: the largest possible capacity, with shares in proportion
//! - a resize fails: the variant keeps its cores, the plan is made from those, the next cycle retries
//! - no valid plan can be made: the last one stays until proxies find it too old
//!
//! All effects go through [`Ports`], and the time is an argument. The stopwatch only measures how long the stages
//! take.

mod act;
mod attainable;
mod batches;
mod group_times;
mod horizon;
mod known_times;
mod measured;
mod no_capacity;
mod observations;
mod part;
mod readiness;
mod replace;
mod report;
mod rollout;
mod service_times;
mod solver;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;
use std::time::Duration;

pub use act::{DRAIN_MAX, TAKE_OVER_MAX};
pub use known_times::{KnownTimes, KnownTimesError};
use measured::Measured;
use observations::Observations;
pub use part::CoreDemandTimes;
pub use rollout::FULL_NODES_RETRY_AFTER;
use rollout::Rollout;
#[cfg(feature = "kubernetes")]
pub(crate) use service_times::far_off_note;
pub use solver::Solver;

use crate::backends::{Actuate, ActuateError};
use crate::capacity::{Actual, Target};
use crate::clock::Now;
use crate::distribution::Publish;
use crate::error_log::ErrorLog;
use crate::forecast::{History, KnownLoad, Learnt, LearntError, Past};
use crate::observe::{Observation, Observe, RequestSample, Scrape};
use crate::policy::DecisionBasis;
use crate::service::{Decision, Inputs, Mode, Service, SolveStatus};
use crate::telemetry::requests::CycleRequests;
use crate::telemetry::status::{CycleReport, Stages};

/// Ratio of demand to the previous cycle's that starts the next cycle at once; also of the time left before to now.
pub const RISE: f64 = 1.02;

/// State kept from cycle to cycle.
#[derive(Debug)]
pub struct Planner {
    /// The service, with its profiles corrected by measurements.
    service: Arc<Service>,
    observations: Observations,
    rollout: Rollout,
    measured: Measured,
    /// Inputs of the latest decision with a known demand.
    planned: Option<Inputs>,
    /// State of the last decision, and its target.
    basis: Option<Arc<DecisionBasis>>,
    /// Last decision that was logged.
    last: Option<(SolveStatus, Vec<Target>)>,
    /// Time at which the next cycle begins.
    due: Duration,
    /// Time at which this cycle began.
    now: Duration,
    troubles: ErrorLog,
}

/// Ports of a cycle to the outside.
pub struct Ports<'a, O, A, P, S> {
    /// Statistics of the proxies.
    pub observe: &'a O,
    /// Cores of the backends.
    pub actuate: &'a A,
    /// Filters that receive the plans.
    pub publish: &'a P,
    /// Solver port.
    pub solver: &'a S,
    /// Time since any fixed moment; never goes back.
    pub stopwatch: &'a (dyn Fn() -> Duration + Sync),
}

impl Planner {
    /// Creates a planner that knows only the service.
    pub fn new(service: Arc<Service>) -> Planner {
        Planner {
            observations: Observations::new(&service),
            rollout: Rollout::new(&service),
            measured: Measured::new(&service),
            planned: None,
            basis: None,
            last: None,
            due: Duration::ZERO,
            now: Duration::ZERO,
            troubles: ErrorLog::default(),
            service,
        }
    }

    /// Plans in that mode from the next cycle on, which is due at once if the mode is another.
    pub fn set_mode(&mut self, mode: Mode) {
        if self.service.mode != mode {
            Arc::make_mut(&mut self.service).mode = mode;
            self.due = Duration::ZERO;
        }
    }

    /// Continues from what an earlier planner knew.
    ///
    /// # Errors
    /// Fails if what its forecasters learned does not fit the service; then only its history is taken over.
    pub fn restore(&mut self, now: Now, past: &Past) -> Result<(), LearntError> {
        let horizon = self.measured.horizon.time(self.service.scrape_interval);
        self.observations.restore(now, past, horizon)
    }

    /// Returns what the forecasters have learned, and the time since; `None` if there is nothing.
    pub fn forecast_learnt(&self, now: Now) -> Option<(Learnt, Duration)> {
        self.observations.learnt(now)
    }

    /// Takes the requests of the latest cycle.
    pub fn take_requests(&mut self) -> RequestSample {
        std::mem::take(&mut self.observations.requests)
    }

    /// Plans for a load that is known in advance, for comparison in replays.
    pub fn know(&mut self, load: KnownLoad) {
        self.observations.known = Some(load);
    }

    /// Returns the rates measured of late, and the time since their end; `None` if there are none.
    pub fn history(&self, now: Now) -> Option<(&History, Duration)> {
        self.observations.history(now)
    }

    /// Returns the state of the latest decision, and its target.
    pub fn basis(&self) -> Option<&Arc<DecisionBasis>> {
        self.basis.as_ref()
    }

    /// Called at each scrape interval: runs a cycle when one is due, demand has risen or a change has taken effect;
    /// otherwise only samples arrivals.
    pub async fn tick<O, A, P, S>(
        &mut self,
        ports: &Ports<'_, O, A, P, S>,
        now: Now,
    ) -> Option<CycleReport>
    where
        O: Observe,
        A: Actuate,
        P: Publish,
        S: Solver,
    {
        // Timers are a little early or late.
        if now.at + self.service.scrape_interval / 2 >= self.due {
            self.due = now.at + self.service.cycle;
            return Some(self.run_cycle(ports, now).await);
        }
        let begin = (ports.stopwatch)();
        let scrapes = ports.observe.scrape().await;
        self.sample(now, &scrapes);
        let is_urgent = self.is_urgent();
        if !is_urgent && !self.rollout.awaits_changes() {
            return None;
        }
        let answers = ports.actuate.actual().await;
        if !is_urgent && !self.rollout.is_news(&answers) {
            return None;
        }
        Some(self.plan(ports, now, begin, (scrapes, answers)).await)
    }

    /// Runs one cycle.
    pub async fn run_cycle<O, A, P, S>(
        &mut self,
        ports: &Ports<'_, O, A, P, S>,
        now: Now,
    ) -> CycleReport
    where
        O: Observe,
        A: Actuate,
        P: Publish,
        S: Solver,
    {
        let begin = (ports.stopwatch)();
        let seen = tokio::join!(ports.observe.scrape(), ports.actuate.actual());
        self.sample(now, &seen.0);
        self.plan(ports, now, begin, seen).await
    }

    /// Runs a cycle on the given observations; it began at `begin` of the stopwatch.
    async fn plan<O, A, P, S>(
        &mut self,
        ports: &Ports<'_, O, A, P, S>,
        now: Now,
        begin: Duration,
        (scrapes, answers): (Vec<Scrape>, Vec<Option<Result<Actual, ActuateError>>>),
    ) -> CycleReport
    where
        O: Observe,
        A: Actuate,
        P: Publish,
        S: Solver,
    {
        let elapsed = || (ports.stopwatch)().saturating_sub(begin);
        self.now = now.at;
        self.see_cores(answers);
        let observe = elapsed();
        self.see_service_times(&scrapes);
        self.see_group_times(&scrapes);
        let observation = self.see_arrivals(now, &scrapes);
        let expected = self.inputs();
        let demand = expected.map(|expected| expected.forecast.demand);
        // While the demand is unknown, the plan stays as it was for the last one.
        self.planned = expected.or(self.planned);
        let forecast = elapsed() - observe;
        let routed = self.observations.routed();
        let mut decision = self.decide(ports.solver, expected, now).await;
        decision.why += &self.capacity_notes(decision.status, expected);
        decision.why += &self.shortfalls(routed.as_deref());
        decision.why += &self.failures();
        decision.why += &self.readiness_notes();
        decision.why += &self.observations.without_weir_note();
        decision.why += &self.service_time_notes();
        decision.why += &self.group_time_notes();
        let trouble = ports.observe.trouble();
        decision.why += &trouble.map_or(String::new(), |trouble| format!("; {trouble}"));
        let (actual, targets) = (&self.rollout.actual, &decision.targets);
        decision.targets =
            self.rollout
                .stabilizer
                .stabilize(now.at, &self.service, actual, targets);
        let solve = elapsed() - observe - forecast;
        self.log_decision(&decision);
        let targets = match self.service.mode {
            Mode::Active => decision.targets.clone(),
            Mode::Advisory => self.rollout.actual.iter().map(|one| one.target()).collect(),
        };
        let so_far = now.after(elapsed());
        let acted = self.act(ports, &targets, self.planned, so_far).await;
        decision.why += &self.shortage(expected);
        let stages = [observe, forecast, solve, acted.actuate, acted.publish].map(ms);
        let [observe, forecast, solve, actuate, publish] = stages;
        let planned = self.planned;
        let variants = self.variants(&decision.targets, &acted.plan, routed.as_deref(), planned);
        CycleReport {
            at_ms: now.unix_ms,
            cycle_ms: stages.iter().sum(),
            confirm_ms: ms(acted.confirm),
            stages_ms: Stages {
                observe,
                forecast,
                solve,
                actuate,
                publish,
            },
            revision: acted.revision,
            plans_published: acted.published,
            plans_rejected: acted.rejected,
            measured_rps: observation.measured,
            demand_rps: demand,
            forecast: expected.map(|expected| self.forecast_report(expected)),
            routed_accuracy_percent: routed.as_deref().map(|routed| self.accuracy(routed)),
            requests: CycleRequests::of(&self.observations.requests, &self.service),
            scrapes_answered: observation.answered,
            scrapes_failed: observation.lost,
            proxies_without_weir: observation.without_weir,
            outcome: decision.status,
            kept: decision.kept,
            why: decision.why,
            objective: decision.objective,
            optimum: decision.optimum,
            resizes_confirmed: acted.confirmed,
            resizes_failed: acted.failed,
            resources: self.resources(),
            shared_budget: None,
            variants,
        }
    }

    /// Samples the arrivals since the last sample.
    fn sample(&mut self, now: Now, scrapes: &[Scrape]) {
        let horizon = self.measured.horizon.time(self.service.scrape_interval);
        self.observations
            .sample(now, scrapes, (horizon, self.lead()));
    }

    /// Takes in the scrapes of a cycle, and logs the variants that begin or end to fail.
    fn see_arrivals(&mut self, now: Now, scrapes: &[Scrape]) -> Observation {
        let observation = self.observations.observe(now, scrapes);
        let since = self.observations.failing_since();
        for (variant, since) in self.service.variants.iter().zip(since) {
            let who = format!("servers of {}", variant.name);
            match since {
                Some(_) => self.troubles.failed(
                    &who,
                    &"proxies cannot reach them, or they answer with errors",
                    "no share",
                ),
                None => self.troubles.went_well(&who),
            }
        }
        observation
    }

    /// Takes in the backends' answers.
    fn see_cores(&mut self, answers: Vec<Option<Result<Actual, ActuateError>>>) {
        self.rollout
            .observe(&self.service, answers, self.now, &mut self.troubles);
        self.measured.observe(&self.rollout.actual, self.now);
    }

    /// Whether the forecast calls for a cycle now.
    fn is_urgent(&self) -> bool {
        let Some(now) = self.inputs() else {
            return false;
        };
        let rates = |inputs: Inputs| (inputs.forecast.present.0, inputs.forecast.demand.0);
        let before = self.planned.map_or((0.0, 0.0), rates);
        let (present, demand) = rates(now);
        let has_risen = present > before.0 * RISE || demand > before.1 * RISE;
        let may_rise = now.forecast.rises || before.0 == 0.0;
        (has_risen && may_rise) || self.is_slower(now)
    }

    /// Whether clients leave less time than was planned for.
    fn is_slower(&self, now: Inputs) -> bool {
        let all_ms = self.service.own_slo_ms();
        let left_ms = |inputs: Inputs| inputs.left_ms.unwrap_or(all_ms);
        let before = self.planned.map_or(all_ms, left_ms);
        before > left_ms(now) * RISE
    }

    /// Inputs of the next decision.
    fn inputs(&self) -> Option<Inputs> {
        self.observations.inputs(&self.service)
    }

    async fn decide<S: Solver>(
        &mut self,
        solver: &S,
        inputs: Option<Inputs>,
        now: Now,
    ) -> Decision {
        let attainable = self.attainable();
        let decision = solver.decide(&attainable, self.rollout.actual.clone(), inputs);
        let decision = decision.await;
        let before = self.basis.as_ref().map(|basis| basis.targets.clone());
        self.basis = Some(Arc::new(DecisionBasis {
            at_ms: now.unix_ms,
            service: attainable,
            actual: self.rollout.actual.clone(),
            inputs,
            targets: decision.targets.clone(),
            before: before.unwrap_or_default(),
        }));
        decision
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
