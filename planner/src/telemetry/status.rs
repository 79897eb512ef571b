//! Status of the planner for people and the demo: the latest cycles, in a bounded ring. Data only; no
//! decisions.

mod shared_budget;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use weir_api::{Cores, Revision, Rps, Share};

pub use shared_budget::SharedBudgetReport;

use super::requests::{CycleRequests, RequestStatus, RequestWindows};
use crate::backends::Blocker;
use crate::forecast::Peak;
use crate::observe::{RequestSample, RoutedShare};
use crate::service::{Service, SolveStatus, VariantState};

/// Maximum number of cycles kept: 17 minutes at one a second.
pub const CYCLES_MAX: usize = 1024;

/// Report of one cycle.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CycleReport {
    /// Start of the cycle, Unix time in ms.
    pub at_ms: u64,
    /// Time from the start to the first plan offered, in ms.
    pub cycle_ms: f64,
    /// Time from there until the cores were confirmed, in ms: shrinking, and growth that had to wait for it.
    pub confirm_ms: f64,
    /// Parts of `cycle_ms`.
    pub stages_ms: Stages,
    /// Revision published at the end; `null` if no valid plan could be made.
    pub revision: Option<Revision>,
    /// Plans published.
    pub plans_published: u32,
    /// Plans that failed validation.
    pub plans_rejected: u32,
    /// Arrivals since the last cycle; `null` if unknown.
    pub measured_rps: Option<Rps>,
    /// Forecast of the demand with headroom. Where variants keep a part of their rates, less is planned for: see `why`.
    pub demand_rps: Option<Rps>,
    /// Forecast that the demand is from; `null` while nothing is known.
    pub forecast: Option<ForecastReport>,
    /// Mean accuracy of the variants that the latest requests were routed to; `null` until enough of them
    /// are known. The accuracy that the plan would give is part of `why`.
    pub routed_accuracy_percent: Option<f64>,
    /// Requests since the cycle before, by outcome; `null` if no proxy has answered in this cycle and before.
    pub requests: Option<CycleRequests>,
    /// Proxies whose scrape was answered.
    pub scrapes_answered: usize,
    /// Proxies whose scrape failed.
    pub scrapes_failed: usize,
    /// Proxies that have answered without any metric of Weir for 60 s: their rates no longer count.
    pub proxies_without_weir: usize,
    /// Result of the solve.
    pub outcome: SolveStatus,
    /// Whether the actual cores were preferred to an optimum within the tolerance.
    pub kept: bool,
    /// Reason for the plan, in one sentence.
    pub why: String,
    /// Objective of the target cores.
    pub objective: Option<f64>,
    /// Objective of the optimum, or of the best solution found.
    pub optimum: Option<f64>,
    /// Resizes confirmed.
    pub resizes_confirmed: u32,
    /// Resizes failed.
    pub resizes_failed: u32,
    /// Resources other than cores, by Kubernetes name; empty if none is limited.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub resources: BTreeMap<String, ResourceReport>,
    /// State of the service in the budget that it shares with others; left out for a budget of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shared_budget: Option<SharedBudgetReport>,
    /// Variants, by name.
    pub variants: BTreeMap<String, VariantReport>,
}

/// Forecast of the demand.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ForecastReport {
    /// Demand with headroom, to have cores for.
    pub demand_rps: Rps,
    /// Demand at present with headroom, for shares.
    pub present_rps: Rps,
    /// Rate that arrives now, without headroom.
    pub arriving_rps: Rps,
    /// Whether more is to come.
    pub rises: bool,
    /// Whether the window of the estimates has filled.
    pub window_full: bool,
    /// Peak that a forecaster expects; `null` where `demand.forecast` is reactive, or not enough is known.
    pub ahead: Option<Peak>,
}

/// Use of one resource other than cores at the end of a cycle, in bytes or devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ResourceReport {
    /// Amount used by all replicas, including those that start or terminate.
    pub used: u64,
    /// Limit in the budget.
    pub budget: u64,
}

/// Duration of each stage of a cycle, in ms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[schemars(rename = "StageTimes")]
pub struct Stages {
    /// Scraping proxies and reading the actual cores, concurrently.
    pub observe: f64,
    /// Forecasting the demand.
    pub forecast: f64,
    /// Solving for the cores.
    pub solve: f64,
    /// Growing variants before the first plan.
    pub actuate: f64,
    /// Building, validating and publishing the first plan.
    pub publish: f64,
}

/// One variant at the end of a cycle.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct VariantReport {
    /// Target cores, over all replicas.
    pub cores_target: Cores,
    /// Actual cores, confirmed by the backend, over the replicas that serve.
    pub cores_actual: Cores,
    /// Target number of replicas.
    pub replicas_target: u32,
    /// Replicas that serve.
    pub replicas_ready: u32,
    /// Share of the traffic in the latest plan.
    pub share: Share,
    /// Slots in the latest plan.
    pub slots: u32,
    /// Batch size in the latest plan.
    pub batch: u32,
    /// Rate that the actual cores are planned with: what they sustain, less the reserve of `capacity.utilisation`. 0
    /// without a profile until something is measured.
    pub capacity_rps: Rps,
    /// Share of the latest requests that it got, beside its quota; `null` until enough of them are known.
    pub routed: Option<RoutedShare>,
    /// Reason why the actual allocation differs from the target, or is unknown; `null` if there is
    /// none.
    pub blocker: Option<Blocker>,
    /// Time for which its servers have been failing, as reported by the proxies; `null` if they are
    /// healthy.
    pub failing_ms: Option<u64>,
    /// Measured service time, compared with its profile.
    pub service_time: ServiceTimeReport,
}

/// Measured service time of a variant, compared with its profile.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ServiceTimeReport {
    /// State of the variant.
    pub state: VariantState,
    /// Measured time relative to the profile's; `null` if there are too few executions.
    pub measured_ratio: Option<f64>,
    /// Executions that were measured.
    pub executions: u64,
    /// Those of them that were cut off at their deadlines.
    pub cut_off: u64,
    /// Whether the measured time is a lower bound, because too few of them were answered.
    pub is_bound: bool,
    /// Factor on the profile's time that is planned with, at the actual cores.
    pub correction: f64,
    /// Whether the variant has a profile. Without one, ratios are to a start value, and it is planned with what is measured.
    pub has_profile: bool,
    /// Time of its largest batch by the profile, or the start value, on the actual cores, in ms; `null` without cores.
    pub profile_ms: Option<f64>,
    /// Whether the profile is far off, so that it is planned with what is measured, whatever the largest correction is.
    pub replaces_profile: bool,
    /// Time for which the profile has not held; `null` if it holds, or not for long enough.
    pub drift_ms: Option<u64>,
}

impl Default for ServiceTimeReport {
    fn default() -> ServiceTimeReport {
        ServiceTimeReport {
            state: VariantState::default(),
            measured_ratio: None,
            executions: 0,
            cut_off: 0,
            is_bound: false,
            correction: 1.0,
            has_profile: true,
            profile_ms: None,
            replaces_profile: false,
            drift_ms: None,
        }
    }
}

/// The latest cycles. Cycles are numbered from 1.
#[derive(Debug, Default)]
pub struct Status {
    cycles: Mutex<VecDeque<Arc<CycleReport>>>,
    requests: Mutex<RequestWindows>,
    /// Number of the latest cycle.
    number: watch::Sender<u64>,
}

impl Status {
    /// Adds a cycle, and removes the oldest beyond [`CYCLES_MAX`].
    pub fn push(&self, report: CycleReport) {
        let mut cycles = self.cycles();
        if cycles.len() == CYCLES_MAX {
            cycles.pop_front();
        }
        cycles.push_back(Arc::new(report));
        self.number.send_modify(|number| *number += 1);
    }

    /// Adds the requests of a cycle at `at`.
    pub fn add_requests(&self, at: Duration, sample: RequestSample) {
        self.requests().add(at, sample);
    }

    /// Returns the requests of all windows.
    pub fn request_windows(&self) -> RequestWindows {
        self.requests().clone()
    }

    /// Takes over the requests of an earlier planner. Returns whether it did: not if requests have been added.
    pub fn restore_requests(&self, windows: RequestWindows) -> bool {
        let mut requests = self.requests();
        let restores = requests.is_empty();
        if restores {
            *requests = windows;
        }
        restores
    }

    /// Returns the requests as of `at`, beside the service times of the plan in force.
    pub fn request_status(
        &self,
        at: Duration,
        service: &Service,
        predicted_ms: &BTreeMap<String, f64>,
    ) -> RequestStatus {
        self.requests().status(at, service, predicted_ms)
    }

    /// Returns the latest cycles, at most `most`, oldest first.
    pub fn latest(&self, most: usize) -> Vec<Arc<CycleReport>> {
        let cycles = self.cycles();
        let before = cycles.len().saturating_sub(most);
        cycles.iter().skip(before).cloned().collect()
    }

    /// Returns the cycles after that number as far as they are kept, oldest first, and the number of the latest.
    pub fn after(&self, number: u64) -> (Vec<Arc<CycleReport>>, u64) {
        let cycles = self.cycles();
        let latest = *self.number.borrow();
        let new = usize::try_from(latest.saturating_sub(number)).unwrap_or(usize::MAX);
        let before = cycles.len().saturating_sub(new);
        (cycles.iter().skip(before).cloned().collect(), latest)
    }

    /// Returns the number of the latest cycle that began at `at_ms` or before.
    pub fn number_at(&self, at_ms: u64) -> u64 {
        let cycles = self.cycles();
        let later = cycles
            .iter()
            .rev()
            .take_while(|report| report.at_ms > at_ms);
        let later = u64::try_from(later.count()).unwrap_or(u64::MAX);
        self.number.borrow().saturating_sub(later)
    }

    /// Returns a receiver of the number of the latest cycle.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.number.subscribe()
    }

    fn requests(&self) -> MutexGuard<'_, RequestWindows> {
        let requests = self.requests.lock();
        requests.unwrap_or_else(PoisonError::into_inner)
    }

    fn cycles(&self) -> MutexGuard<'_, VecDeque<Arc<CycleReport>>> {
        self.cycles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
