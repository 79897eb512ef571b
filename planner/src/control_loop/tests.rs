//! Cycles on simulated ports: the fallback for each fault.

mod failing;
mod groups;
mod known_times;
mod measured_times;
mod no_capacity;
mod proxies;
mod requests;
mod resizes;
mod restart;
mod routed;
mod samples;
mod seasonal;
mod slow;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use weir_api::{Cores, PlanError, Revision, Rps, VariantPlan};

use super::*;
use crate::app::Aside;
use crate::backends::NotReplaced;
use crate::capacity::{Allocation, Resize};
use crate::distribution::Receipt;
use crate::observe::{ByGroup, Counts, Executions, Outcomes, Route, ScrapeError};
use crate::plan::Draft;
use crate::policy::sponge::tests::sponge;
use crate::spec::tests::service;

/// Proxies, backends and filters in memory.
#[derive(Debug, Default)]
struct SimPorts {
    /// Name of the only proxy.
    proxy: Mutex<&'static str>,
    /// Total requests at the proxy.
    arrived: Mutex<f64>,
    /// Upper edges in ms, and the number of requests with at most that time left on arrival.
    slack: Mutex<Vec<(f64, f64)>>,
    /// Requests routed to each variant so far, and requests that could not wait for it.
    routes: Mutex<BTreeMap<String, Route>>,
    /// Variants that the proxy reports as failing.
    failing: Mutex<BTreeMap<String, bool>>,
    /// Executions of each variant so far.
    executions: Mutex<BTreeMap<String, Executions>>,
    /// Sums by group so far.
    groups: Mutex<ByGroup>,
    /// Ends of requests so far.
    outcomes: Mutex<Arc<Outcomes>>,
    /// Whether the proxy does not answer.
    lost: Mutex<bool>,
    /// Whether it is without Weir.
    without_weir: Mutex<bool>,
    at: Mutex<Duration>,
    /// Actual cores of each variant.
    real: Mutex<Vec<Cores>>,
    /// Variants whose backend rejects changes, with the error.
    stubborn: Mutex<BTreeMap<usize, ActuateError>>,
    /// Whether backends do not report their cores.
    mute: Mutex<bool>,
    /// Actions in order.
    log: Mutex<Vec<String>>,
    plans: Mutex<Vec<Vec<VariantPlan>>>,
    /// Waits for executions to end.
    drained: Mutex<Vec<Duration>>,
}

impl Observe for SimPorts {
    async fn scrape(&self) -> Vec<Scrape> {
        let lost = *self.lost.lock().unwrap();
        let counts = if *self.without_weir.lock().unwrap() {
            Err(ScrapeError::WithoutWeir)
        } else if lost {
            Err(ScrapeError::Status(503))
        } else {
            Ok(Counts {
                accuracies: BTreeMap::new(),
                arrivals: *self.arrived.lock().unwrap(),
                slack: self.slack.lock().unwrap().clone(),
                routes: self.routes.lock().unwrap().clone(),
                failing: self.failing.lock().unwrap().clone(),
                executions: self.executions.lock().unwrap().clone(),
                full: BTreeMap::new(),
                groups: self.groups.lock().unwrap().clone().into(),
                outcomes: self.outcomes.lock().unwrap().clone(),
            })
        };
        vec![Scrape {
            from: (*self.proxy.lock().unwrap()).into(),
            at: *self.at.lock().unwrap(),
            counts,
        }]
    }
}

impl Actuate for SimPorts {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        let mute = *self.mute.lock().unwrap();
        let answer = |cores: &Cores| {
            if mute {
                Err(ActuateError::NoAddress)
            } else {
                Ok(Actual::certain(Allocation::one(*cores)))
            }
        };
        self.real
            .lock()
            .unwrap()
            .iter()
            .map(|cores| Some(answer(cores)))
            .collect()
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        let mut answers = Vec::new();
        for change in changes {
            let stubborn = self.stubborn.lock().unwrap().get(&change.variant).cloned();
            if stubborn.is_none() {
                self.real.lock().unwrap()[change.variant] = change.cores();
                self.log
                    .lock()
                    .unwrap()
                    .push(format!("{}={}", change.variant, change.cores()));
            }
            let actual = Actual::certain(Allocation::one(change.cores()));
            answers.push(stubborn.map_or(Ok(actual), Err));
        }
        answers
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<Actual, NotReplaced>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<Actual, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

impl Publish for SimPorts {
    fn publish(&self, drafts: Vec<Draft>, _: Now) -> Result<Receipt, PlanError> {
        let variants: Vec<_> = drafts
            .into_iter()
            .flat_map(|draft| draft.variants)
            .collect();
        let slots: String = variants
            .iter()
            .map(|variant| format!(" {}", variant.slots))
            .collect();
        self.log.lock().unwrap().push(format!("plan{slots}"));
        let mut plans = self.plans.lock().unwrap();
        plans.push(variants);
        Ok(Receipt {
            revision: Revision(plans.len() as u64),
            new: 1,
        })
    }

    async fn wait_adopted(&self, revision: Revision, _: Duration) -> bool {
        self.log
            .lock()
            .unwrap()
            .push(format!("taken over {}", revision.0));
        true
    }

    async fn wait_drained(&self, takes: Duration) {
        self.drained.lock().unwrap().push(takes);
    }
}

/// A planner of a (1 to 8 cores, fast) and b (0 to 4 cores, accurate) on simulated ports.
struct Bed {
    sim: SimPorts,
    planner: Planner,
    second: u64,
}

impl Bed {
    /// Creates a bed with a demand window of one second: the forecast settles in the second cycle with arrivals.
    fn new(mut service: Service, real: &[u32]) -> Bed {
        service.demand.window = Duration::from_secs(1);
        service.demand.moving = Duration::from_secs(1);
        let sim = SimPorts::default();
        *sim.real.lock().unwrap() = real.iter().copied().map(Cores::whole).collect();
        Bed {
            sim,
            planner: Planner::new(Arc::new(service)),
            second: 0,
        }
    }

    /// Runs a cycle after one second with that many arrivals.
    async fn run_cycle(&mut self, arrivals: f64) -> CycleReport {
        let at = self.arrive(Duration::from_secs(self.second), arrivals);
        self.second += 1;
        let ports = ports(&self.sim, &at);
        self.planner.run_cycle(&ports, now(at())).await
    }

    /// Ticks at `at`, with that many arrivals since the last tick.
    async fn tick(&mut self, at: Duration, arrivals: f64) -> Option<CycleReport> {
        let at = self.arrive(at, arrivals);
        let ports = ports(&self.sim, &at);
        self.planner.tick(&ports, now(at())).await
    }

    /// Adds arrivals, and returns a stopwatch that stands at `at`.
    fn arrive(&self, at: Duration, arrivals: f64) -> impl Fn() -> Duration + Sync + use<> {
        *self.sim.at.lock().unwrap() = at;
        *self.sim.arrived.lock().unwrap() += arrivals;
        self.sim.log.lock().unwrap().clear();
        move || at
    }

    /// Runs two cycles, with 20 arrivals in the second; nothing is changed yet.
    async fn warm_up(&mut self) {
        let before = self.sim.real.lock().unwrap().clone();
        self.run_cycle(0.0).await;
        self.run_cycle(20.0).await;
        assert_eq!(
            *self.sim.real.lock().unwrap(),
            before,
            "the forecast has not settled"
        );
    }

    fn log(&self) -> Vec<String> {
        self.sim.log.lock().unwrap().clone()
    }

    fn shares(&self) -> Vec<f64> {
        let plans = self.sim.plans.lock().unwrap();
        plans
            .last()
            .unwrap()
            .iter()
            .map(|variant| variant.share.0)
            .collect()
    }
}

fn ports<'a>(
    sim: &'a SimPorts,
    stopwatch: &'a (dyn Fn() -> Duration + Sync),
) -> Ports<'a, SimPorts, SimPorts, SimPorts, Aside> {
    Ports {
        observe: sim,
        actuate: sim,
        publish: sim,
        solver: &Aside,
        stopwatch,
    }
}

fn now(at: Duration) -> Now {
    let unix_ms = u64::try_from(at.as_millis()).unwrap();
    Now { at, unix_ms }
}

/// Reports of that many cycles, for tests of their presentation.
pub(crate) async fn reports(cycles: usize) -> Vec<CycleReport> {
    let mut bed = Bed::new(service(8), &[2, 2]);
    let mut reports = Vec::new();
    for _ in 0..cycles {
        reports.push(bed.run_cycle(20.0).await);
    }
    reports
}

fn actuated(report: &CycleReport) -> Vec<f64> {
    report
        .variants
        .values()
        .map(|variant| variant.cores_actual.as_f64())
        .collect()
}

fn requested(report: &CycleReport) -> Vec<f64> {
    report
        .variants
        .values()
        .map(|variant| variant.cores_target.as_f64())
        .collect()
}

#[tokio::test]
async fn first_cycle_publishes_actual_cores_without_resizes() {
    let mut bed = Bed::new(service(8), &[3, 1]);
    for _ in 0..3 {
        let report = bed.run_cycle(0.0).await;
        assert_eq!(report.outcome, SolveStatus::NoDemand);
        assert_eq!(
            actuated(&report),
            [3.0, 1.0],
            "what is in force, not the file's initial 2 and 2"
        );
        assert_eq!(bed.log(), ["plan 3 2"]);
    }
}

#[tokio::test]
async fn demand_change_moves_cores_make_before_break() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    bed.warm_up().await;
    let report = bed.run_cycle(20.0).await;
    // 22 requests/s: b alone carries 22.4 on 3 cores.
    assert_eq!(requested(&report), [1.0, 3.0]);
    assert_eq!(actuated(&report), [1.0, 3.0]);
    assert_eq!(bed.log(), ["1=3", "plan 1 2", "taken over 3", "0=1"]);
    // Executions on a may finish before it shrinks.
    let service_ms = bed.sim.plans.lock().unwrap().last().unwrap()[0].service_ms;
    let waited = bed.sim.drained.lock().unwrap().clone();
    let expected = Duration::from_secs_f64(service_ms / 1e3).min(DRAIN_MAX);
    assert_eq!(waited, [expected]);
    assert!(!expected.is_zero());
    assert_eq!(bed.shares(), [0.0, 1.0]);
    assert_eq!(report.measured_rps, Some(Rps(20.0)));
    assert_eq!(
        (
            report.plans_published,
            report.resizes_confirmed,
            report.resizes_failed
        ),
        (1, 2, 0)
    );
    let report = bed.run_cycle(100.0).await;
    assert_eq!(
        report.demand_rps,
        Some(Rps(1.1 * 100.0)),
        "a rise is followed at once"
    );
}

#[tokio::test]
async fn restarted_planner_keeps_cores_until_demand_is_known() {
    let mut bed = Bed::new(service(8), &[1, 4]);
    *bed.sim.arrived.lock().unwrap() = 100_000.0;
    let report = bed.run_cycle(28.0).await;
    assert_eq!(
        (report.outcome, report.demand_rps),
        (SolveStatus::NoDemand, None)
    );
    assert_eq!(bed.log(), ["plan 1 2"]);
    assert_eq!(bed.run_cycle(20.0).await.measured_rps, Some(Rps(20.0)));
}
