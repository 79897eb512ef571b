//! What people and the demo read of the planner: the latest turns, kept in a bounded ring. Data
//! only; nothing here decides.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use serde::Serialize;
use weir_api::{Cores, Revision, Rps, Share};

use crate::backends::Obstacle;
use crate::observe::Got;
use crate::service::SolveStatus;

/// Most turns remembered: 17 minutes of one a second.
pub const CYCLES_MAX: usize = 1024;

/// One turn, as it went.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CycleReport {
    /// When it began, Unix time in ms.
    pub at_ms: u64,
    /// From the beginning to the first plan offered.
    pub cycle_ms: f64,
    /// From there until the cores were settled: shrinking, and growth that had to wait for it.
    pub settle_ms: f64,
    /// Where `cycle_ms` went.
    pub stages_ms: Stages,
    /// The revision out at the end; `null` if no valid plan could be made.
    pub revision: Option<Revision>,
    /// Plans published.
    pub published: u32,
    /// Offers that were no valid plan.
    pub unpublished: u32,
    /// Arrivals since the last turn; `null` where unknown.
    pub measured_rps: Option<Rps>,
    /// The demand planned for.
    pub demand_rps: Option<Rps>,
    /// Mean accuracy of the variants that the latest requests were routed to; `null` until enough of
    /// them are known. What the plan would give is in the why.
    pub routed_accuracy_percent: Option<f64>,
    /// Proxies that answered.
    pub proxies_answered: usize,
    /// Proxies that did not.
    pub proxies_lost: usize,
    /// How the solve went.
    pub outcome: SolveStatus,
    /// Whether the cores in force were preferred to an optimum within the tolerance.
    pub kept: bool,
    /// Why, in a sentence.
    pub why: String,
    /// Worth of the cores asked.
    pub objective: Option<f64>,
    /// Worth of the optimum, or the best found.
    pub optimum: Option<f64>,
    /// Changes of cores that were confirmed.
    pub resizes_confirmed: u32,
    /// Changes of cores that failed.
    pub resizes_failed: u32,
    /// Of what replicas hold besides cores, by its name in Kubernetes; empty where nothing of it is bounded.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub held: BTreeMap<String, HeldReport>,
    /// By name.
    pub variants: BTreeMap<String, VariantReport>,
}

/// What replicas hold of one kind at the end of a turn, in bytes or pieces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct HeldReport {
    /// By all that there may be, those that start and end included.
    pub held: u64,
    /// What the budget bears.
    pub budget: u64,
}

/// How long each stage took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Stages {
    /// Scrapes and the backends' cores, at the same time.
    pub observe: f64,
    /// Demand.
    pub forecast: f64,
    /// Cores.
    pub solve: f64,
    /// Growth before the first plan.
    pub actuate: f64,
    /// Making, checking and handing out the first plan.
    pub publish: f64,
}

/// One variant at the end of a turn.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct VariantReport {
    /// What the decision wants it to have, all replicas together.
    pub cores_asked: Cores,
    /// What its backend has confirmed, of the replicas that serve.
    pub cores_actuated: Cores,
    /// Replicas that the decision wants.
    pub replicas_asked: u32,
    /// Replicas that serve.
    pub replicas_ready: u32,
    /// Its part of the traffic in the plan offered last.
    pub share: Share,
    /// Its slots in the plan offered last.
    pub slots: u32,
    /// Requests it executes together by the plan offered last.
    pub batch: u32,
    /// What it sustains with the cores in force.
    pub capacity_rps: Rps,
    /// What it got of the latest requests, beside its quota; `null` until enough of them are known.
    pub got: Option<Got>,
    /// Why it does not have what was asked, or is not known to; `null` where nothing stands in the way.
    pub unmet: Option<Obstacle>,
    /// For how long its servers have been failing, by the word of the proxies; `null` where they are well.
    pub failing_ms: Option<u64>,
}

/// The latest turns.
#[derive(Debug, Default)]
pub struct Status {
    cycles: Mutex<VecDeque<Arc<CycleReport>>>,
}

impl Status {
    /// Remembers a turn, and forgets the oldest beyond [`CYCLES_MAX`].
    pub fn push(&self, report: CycleReport) {
        let mut cycles = self.cycles.lock().unwrap_or_else(PoisonError::into_inner);
        if cycles.len() == CYCLES_MAX {
            cycles.pop_front();
        }
        cycles.push_back(Arc::new(report));
    }

    /// The latest turns, at most `most`, oldest first.
    pub fn latest(&self, most: usize) -> Vec<Arc<CycleReport>> {
        let cycles = self.cycles.lock().unwrap_or_else(PoisonError::into_inner);
        cycles
            .iter()
            .skip(cycles.len().saturating_sub(most))
            .cloned()
            .collect()
    }
}
