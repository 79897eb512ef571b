//! Stages of a pipeline. A request passes them one after another, each through proxies of its own, under the deadline
//! that the first one has read. The answer of a stage frees its slot; at the same moment the request enters the next
//! stage, as if whoever calls the stages were beside the proxies. A service without stages has one.

use std::ops::Range;

use weir_sim::server::Run;

use super::Simulation;
use super::server::Job;
use super::witness::Witness;
use crate::control::ControlPlane;
use crate::plane::DataPlane;
use crate::request::Passage;
use crate::scenario::Scenario;

/// Workers and proxies of a stage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct StageSpan {
    /// Workers; without Weir each proxy counts as one.
    pub(crate) workers: Range<u32>,
    /// Proxies.
    pub(crate) proxies: Range<u32>,
    /// Variants.
    pub(crate) variants: Range<usize>,
}

/// Returns the workers and proxies of each stage.
pub(super) fn spans(scenario: &Scenario, plane: &DataPlane) -> Vec<StageSpan> {
    let (mut workers, mut proxies) = (0, 0);
    let stages = (0_u16..).zip(scenario.stages());
    let span = |(stage, variants): (u16, Range<usize>)| {
        let (each, of_stage) = match plane {
            DataPlane::Weir(all) => {
                let own = || all.iter().filter(|worker| worker.stage == stage);
                let last = own().map(|worker| worker.proxy + 1).max();
                (own().count() as u32, last.map_or(0, |last| last - proxies))
            }
            DataPlane::Fifo(_) => (scenario.proxies.count.max(1), scenario.proxies.count.max(1)),
        };
        let span = StageSpan {
            workers: workers..workers + each,
            proxies: proxies..proxies + of_stage,
            variants,
        };
        (workers, proxies) = (span.workers.end, span.proxies.end);
        span
    };
    stages.map(span).collect()
}

impl<W: Witness> Simulation<'_, W> {
    /// Lets a request that a stage has answered enter the next one.
    pub(super) fn enter_next_stage(&mut self, request: u32) {
        if let Some(flight) = self.flights.get_mut(request as usize) {
            flight.stage += 1;
            flight.attempt += 1;
        }
        self.arrive(request);
    }

    /// Runs a cycle of IPA's control plane, which counts what arrives at the first stage.
    pub(super) fn run_ipa(&mut self) {
        let (at, entry) = (self.time(), self.stages.first());
        let entry = entry.map_or(0, |span| span.proxies.len());
        let counted = self.counted.iter().take(entry);
        let arrivals = counted.map(|proxy| proxy.arrivals()).sum();
        let ControlPlane::Ipa(driver) = &mut self.control else {
            return;
        };
        let plans = driver.run_cycle(at, arrivals);
        self.start_changes();
        self.publish(plans);
    }

    /// Stage of a proxy.
    pub(super) fn stage_of(&self, proxy: usize) -> usize {
        let of_stage = |span: &StageSpan| span.proxies.contains(&(proxy as u32));
        self.stages.iter().position(of_stage).unwrap_or_default()
    }

    /// Records that a request is at a proxy of its stage.
    pub(super) fn record_arrival(&mut self, request: u32) {
        let (arrived, stages) = (self.time(), self.stages.len());
        let first = request as usize * stages;
        let stage = self
            .flights
            .get(request as usize)
            .map(|flight| flight.stage);
        if stage == Some(0)
            && let Some(all) = self.passages.get_mut(first..first + stages)
        {
            all.fill(Passage::NONE);
        }
        if let Some(passage) = self.passage(request) {
            passage.arrived = Some(arrived);
        }
    }

    /// Records that a request is sent to a server of that variant.
    pub(super) fn record_dispatch(&mut self, request: u32, variant: u16) {
        let now = self.time();
        if let Some(passage) = self.passage(request) {
            passage.variant = variant;
            passage.dispatched = Some(now);
        }
    }

    /// Records the execution of a request, unless it has left the stage.
    pub(super) fn record_execution(&mut self, job: Job, run: &Run) {
        let flight = self.flights.get(job.request as usize);
        if flight.is_some_and(|flight| flight.attempt == job.attempt)
            && let Some(passage) = self.passage(job.request)
        {
            passage.executed = Some((run.started, run.ended));
        }
    }

    /// Passage of a request through its present stage; `None` if there is only one.
    fn passage(&mut self, request: u32) -> Option<&mut Passage> {
        let stage = self.flights.get(request as usize)?.stage;
        let place = request as usize * self.stages.len() + usize::from(stage);
        self.passages.get_mut(place)
    }
}
