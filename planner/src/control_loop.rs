//! One turn: observe → forecast → solve → actuate → publish. Between two turns of a cycle it is looked at what
//! arrives; a demand that has risen, or less time that clients leave (by Sponge), is planned for at once, and so is what
//! comes to be in force after a change without an answer. What each failure falls back to:
//!
//! - a scrape is lost: that proxy's last rate holds; all are lost: the last demand holds
//! - a variant fails: it keeps its cores, and gets no share while another of its stage has a capacity
//! - a variant gets less than its quota, because requests could not wait for it: said in the why and
//!   the status; the decision is the same, and the requests' accuracy is reported as it was
//! - a backend does not say its cores: the last that were confirmed hold
//! - no demand known, or the solver found nothing in time: the cores stay
//! - more demand than capacity: the greatest capacity there is, shared out in proportion
//! - a resize fails: the variant keeps its cores, the plan is made of those, the next turn tries again
//! - no valid plan can be made: the last one stays until proxies find it too old
//!
//! The turn reaches the world through its [`Ports`] and takes the time as an argument; the stopwatch
//! among them serves only to say how long the stages took.

mod act;
mod attainable;
mod horizon;
mod no_capacity;
mod observations;
mod readiness;
mod replace;
mod report;
mod service_times;
mod solver;
#[cfg(test)]
pub(crate) mod tests;
mod told;

use std::sync::Arc;
use std::time::Duration;

pub use act::{DRAIN_MAX, ROOM_AGAIN, TAKE_OVER_MAX};
use horizon::Horizon;
use readiness::Readiness;
use service_times::ServiceTimes;
pub use solver::{Aside, Solver};
use told::Batches;
use weir_api::Share;

use crate::backends::{Actuate, ActuateError, Blocker};
use crate::capacity::{Actual, Allocation, Target};
use crate::clock::Now;
use crate::distribution::Publish;
use crate::error_log::ErrorLog;
use crate::forecast::Demand;
use crate::observe::{Arrivals, Failing, Observe, Routes, Scrape, Slack};
use crate::policy::scale_down::ScaleDownStabilizer;
use crate::rollout::{Detour, UnderWay};
use crate::service::{Decision, Inputs, Mode, Service, SolveStatus, Stage};
use crate::telemetry::status::{CycleReport, Stages};

/// A demand so many times that of the last turn is not left to the next cycle; nor is so many times less time.
pub const RISE: f64 = 1.02;

/// What a planner knows from turn to turn.
#[derive(Debug)]
pub struct Planner {
    service: Arc<Service>,
    /// From look to look.
    looks: Arrivals,
    /// From turn to turn.
    arrivals: Arrivals,
    /// By stage.
    routes: Vec<Routes>,
    slack: Slack,
    failing: Failing,
    /// By stage: the shares of the plan that is out, by which the requests of the next look were routed;
    /// empty before the first.
    quotas: Vec<Vec<Share>>,
    demand: Demand,
    /// What the last turn planned for.
    planned: Option<Inputs>,
    /// When the next cycle begins.
    due: Duration,
    /// In the variants' order, like all such lists.
    actual: Vec<Actual>,
    stabilizer: ScaleDownStabilizer,
    under_way: UnderWay,
    detour: Detour,
    readiness: Readiness,
    horizon: Horizon,
    service_times: ServiceTimes,
    /// Allocations that the plan that is out counts on; empty before the first.
    out: Vec<Allocation>,
    batches: Batches,
    last: Option<(SolveStatus, Vec<Target>)>,
    /// By variant: why it does not have what was asked in this turn.
    unmet: Vec<Option<Blocker>>,
    /// By variant: until when it is planned with what it has at most, because its nodes are full.
    full: Vec<Option<(Duration, Blocker)>>,
    /// The variant that has a pod which is to be replaced and does not end yet.
    retired: Option<usize>,
    /// When this turn began.
    now: Duration,
    troubles: ErrorLog,
    /// Of proxies, by their names.
    lost: ErrorLog,
}

/// What a turn reaches the world through.
pub struct Ports<'a, O, A, P, S> {
    /// The proxies' statistics.
    pub observe: &'a O,
    /// The backends' cores.
    pub actuate: &'a A,
    /// The filters.
    pub publish: &'a P,
    /// Where is solved.
    pub solver: &'a S,
    /// Time since any fixed moment; never goes back.
    pub stopwatch: &'a (dyn Fn() -> Duration + Sync),
}

impl Planner {
    /// Nothing known but the service.
    pub fn new(service: Arc<Service>) -> Planner {
        Planner {
            looks: Arrivals::new(),
            arrivals: Arrivals::new(),
            routes: routes(&service),
            slack: Slack::new(),
            failing: Failing::new(service.variants.iter().map(|v| v.name.clone())),
            quotas: vec![Vec::new(); service.stages.len()],
            demand: Demand::new(service.demand),
            planned: None,
            due: Duration::ZERO,
            actual: service
                .variants
                .iter()
                .map(|variant| match variant.workload {
                    // Its pods say what there is; until then there is nothing to count on.
                    Some(_) => Actual::default(),
                    None => Actual::certain(variant.initial),
                })
                .collect(),
            stabilizer: ScaleDownStabilizer::new(service.variants.len()),
            under_way: UnderWay::new(service.variants.len()),
            detour: Detour::default(),
            readiness: Readiness::new(service.variants.len()),
            horizon: Horizon::new(service.variants.len()),
            service_times: ServiceTimes::new(service.variants.len()),
            out: Vec::new(),
            batches: Batches::new(service.variants.len()),
            last: None,
            unmet: vec![None; service.variants.len()],
            full: vec![None; service.variants.len()],
            retired: None,
            now: Duration::ZERO,
            troubles: ErrorLog::default(),
            lost: ErrorLog::default(),
            service,
        }
    }

    /// What is to be done each time the proxies are to be looked at: a turn where a cycle is over or the demand
    /// has risen, else no more than the look.
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
            return Some(self.turn(ports, now).await);
        }
        let begin = (ports.stopwatch)();
        let scrapes = ports.observe.scrape().await;
        self.look(now, &scrapes);
        let is_urgent = self.is_urgent();
        if !is_urgent && !self.awaits_changes() {
            return None;
        }
        let there = ports.actuate.actual().await;
        if !is_urgent && !self.is_news(&there) {
            return None;
        }
        Some(self.plan(ports, now, begin, (scrapes, there)).await)
    }

    /// One turn.
    pub async fn turn<O, A, P, S>(&mut self, ports: &Ports<'_, O, A, P, S>, now: Now) -> CycleReport
    where
        O: Observe,
        A: Actuate,
        P: Publish,
        S: Solver,
    {
        let begin = (ports.stopwatch)();
        let seen = tokio::join!(ports.observe.scrape(), ports.actuate.actual());
        self.look(now, &seen.0);
        self.plan(ports, now, begin, seen).await
    }

    /// A turn from what was seen, since `begin` of the stopwatch.
    async fn plan<O, A, P, S>(
        &mut self,
        ports: &Ports<'_, O, A, P, S>,
        now: Now,
        begin: Duration,
        (scrapes, there): (Vec<Scrape>, Vec<Option<Result<Actual, ActuateError>>>),
    ) -> CycleReport
    where
        A: Actuate,
        P: Publish,
        S: Solver,
    {
        let elapsed = || (ports.stopwatch)().saturating_sub(begin);
        self.now = now.at;
        self.see_cores(there);
        let observe = elapsed();
        self.see_service_times(&scrapes);
        let observation = self.see_arrivals(now, &scrapes);
        let expected = self.inputs();
        let demand = expected.map(|expected| expected.forecast.demand);
        self.planned = expected;
        let forecast = elapsed() - observe;
        let got = self.got();
        let mut decision = self.decide(ports.solver, expected).await;
        decision.why += &self.capacity_notes(decision.status, expected);
        decision.why += &self.shortfalls(got.as_deref());
        decision.why += &self.failures();
        decision.why += &self.readiness_notes();
        decision.why += &self.service_time_notes();
        let (there, targets) = (&self.actual, &decision.targets);
        decision.targets = self
            .stabilizer
            .stabilize(now.at, &self.service, there, targets);
        let solve = elapsed() - observe - forecast;
        self.say(&decision);
        let targets = match self.service.mode {
            Mode::Active => decision.targets.clone(),
            Mode::Advisory => self.actual.iter().map(|one| one.target()).collect(),
        };
        let so_far = now.after(elapsed());
        let acted = self.act(ports, &targets, expected, so_far).await;
        decision.why += &self.shortage(expected);
        let stages = [observe, forecast, solve, acted.actuate, acted.publish].map(ms);
        let [observe, forecast, solve, actuate, publish] = stages;
        let variants = self.variants(&decision.targets, &acted.plan, got.as_deref(), expected);
        CycleReport {
            at_ms: now.unix_ms,
            cycle_ms: stages.iter().sum(),
            settle_ms: ms(acted.settle),
            stages_ms: Stages {
                observe,
                forecast,
                solve,
                actuate,
                publish,
            },
            revision: acted.revision,
            published: acted.published,
            unpublished: acted.unpublished,
            measured_rps: observation.measured,
            demand_rps: demand,
            routed_accuracy_percent: got.as_deref().map(|got| self.accuracy(got)),
            proxies_answered: observation.answered,
            proxies_lost: observation.lost,
            outcome: decision.status,
            kept: decision.kept,
            why: decision.why,
            objective: decision.objective,
            optimum: decision.optimum,
            resizes_confirmed: acted.confirmed,
            resizes_failed: acted.failed,
            held: self.held(),
            variants,
        }
    }

    /// Whether what is to come is not left to the next cycle.
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

    /// Whether something was asked for that is not in force yet.
    fn awaits_changes(&self) -> bool {
        let is_certain = |one: &Actual| one.reserved <= one.ready.cores();
        !self.actual.iter().all(is_certain)
    }

    /// Whether that is in force which was not before: what follows it need not wait for the next cycle.
    fn is_news(&self, there: &[Option<Result<Actual, ActuateError>>]) -> bool {
        let mut each = there.iter().zip(&self.actual);
        each.any(|(there, known)| matches!(there, Some(Ok(there)) if there != known))
    }

    /// Whether clients leave less time than was planned with.
    fn is_slower(&self, now: Inputs) -> bool {
        let all_ms = self.service.own_slo_ms();
        let left_ms = |inputs: Inputs| inputs.left_ms.unwrap_or(all_ms);
        let before = self.planned.map_or(all_ms, left_ms);
        before > left_ms(now) * RISE
    }

    /// Inputs of the next decision. What the policy does not need is left out, so that decisions repeat.
    fn inputs(&self) -> Option<Inputs> {
        let needs = self.service.policy.needs(&self.service);
        let mut forecast = self.demand.forecast()?;
        forecast.lasted = forecast.lasted.filter(|_| needs.lasted);
        let left_ms = needs
            .left
            .and_then(|left| self.slack.percentile(left.percentile, left.least_ms));
        Some(Inputs { forecast, left_ms })
    }

    /// What plans may count on.
    fn ready(&self) -> Vec<Allocation> {
        self.actual.iter().map(|actual| actual.ready).collect()
    }

    async fn decide<S: Solver>(&self, solver: &S, inputs: Option<Inputs>) -> Decision {
        let attainable = self.attainable();
        let decision = solver.decide(&attainable, self.actual.clone(), inputs);
        decision.await
    }
}

/// One for each stage, of its variants.
fn routes(service: &Service) -> Vec<Routes> {
    let names = |stage: &Stage| {
        let variants = service.variants.get(stage.variants.clone());
        let names: Vec<String> = variants
            .into_iter()
            .flatten()
            .map(|v| v.name.clone())
            .collect();
        Routes::new(names.into_iter())
    };
    service.stages.iter().map(names).collect()
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
