//! Discrete-event simulation of one contender: proxies with the real engine (or a baseline), simulated
//! servers, the real planner (or a baseline), and the faults. Scenario, requests and seed determine
//! everything.
//!
//! Events at the same time run in insertion order; events due by then run before a request's arrival.
//! Once the buffers have grown, a request allocates next to nothing here.

mod arrival;
mod crash;
mod dispatch;
mod event_queue;
mod fleet;
mod flight;
mod health;
mod lifecycle;
mod observation;
mod plans;
mod server;
mod serving;
mod shared;
mod shell;
mod stages;
pub(super) mod witness;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use weir_api::Plan;
use weir_filter::config::ConfigError;
use weir_filter::coordination::Notification;
use weir_filter::engine::StreamId;
use weir_filter::verdict::Verdict;
use weir_sim::server::Run;

pub(super) use self::event_queue::Event;
use self::event_queue::EventQueue;
use self::fleet::Fleet;
use self::flight::open;
pub(super) use self::flight::{Flight, Place};
use self::server::Job;
pub(super) use self::server::SimulatedServer;
pub use self::shared::play_shared;
use self::stages::StageSpan;
use self::witness::Witness;
use super::control::{self, ControlPlane};
use super::plane::{DataPlane, Headers, Tally};
use super::request::{Outcome, Passage, Play, Request, Resize, Second};
use super::scenario::{Contender, Scenario};
use crate::nanos;
use weir_planner::capacity::Allocation;
use weir_planner::distribution::slot_allocation::TooFew;

/// One simulated second, in ns.
const SECOND: u64 = 1_000_000_000;

/// Reason why a scenario cannot be simulated.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum PlayError {
    #[error("proxies.plugin: it must be a mapping, the filter's configuration")]
    PluginShape,
    #[error("proxies.plugin: {0}")]
    Plugin(#[from] ConfigError),
    #[error("variants: none has a core at the start; at least one must")]
    NoCores,
    #[error(
        "variants: {servers} servers for {variants} variants; there must be one for each, in their order"
    )]
    Servers { servers: usize, variants: usize },
    #[error("proxies.count: {0}")]
    TooFew(#[from] TooFew),
    #[error("server of {name}: {why}")]
    Server { name: String, why: String },
    #[error("requests[{place}]: {why}")]
    Request { place: usize, why: &'static str },
    #[error("request {request} ended {times} times; this is a bug of the replay")]
    Ends { request: usize, times: u32 },
}

/// Simulates `requests` (sorted by `sent`, numbered from 0) with `contender`.
///
/// # Errors
/// A scenario or request that cannot be simulated.
pub fn play(
    scenario: &Scenario,
    requests: &[Request],
    contender: Contender,
    seed: u64,
) -> Result<Play, PlayError> {
    play_with((), scenario, requests, contender, seed).map(|(play, ())| play)
}

/// Like [`play`], and calls `tell` with the number of elapsed seconds after each.
///
/// # Errors
/// A scenario or request that cannot be simulated.
pub fn play_telling<F: FnMut(u64)>(
    tell: F,
    scenario: &Scenario,
    requests: &[Request],
    contender: Contender,
    seed: u64,
) -> Result<Play, PlayError> {
    let clock = witness::Progress(tell);
    play_with(clock, scenario, requests, contender, seed).map(|(play, _)| play)
}

/// Like [`play`], and calls `goes_on` after each simulated second; `None` once that is false.
///
/// # Errors
/// A scenario or request that cannot be simulated.
pub fn play_while(
    goes_on: &mut dyn FnMut() -> bool,
    scenario: &Scenario,
    requests: &[Request],
    contender: Contender,
    seed: u64,
) -> Result<Option<Play>, PlayError> {
    let mut simulation = Simulation::new((), scenario, requests, contender, seed)?;
    let mut until = SECOND;
    while !simulation.advance(until) {
        if !goes_on() {
            return Ok(None);
        }
        until = until.saturating_add(SECOND);
    }
    simulation.finish(contender).map(|(play, ())| Some(play))
}

/// Like [`play`], with a witness.
pub(super) fn play_with<W: Witness>(
    witness: W,
    scenario: &Scenario,
    requests: &[Request],
    contender: Contender,
    seed: u64,
) -> Result<(Play, W), PlayError> {
    let mut simulation = Simulation::new(witness, scenario, requests, contender, seed)?;
    simulation.advance(u64::MAX);
    simulation.finish(contender)
}

/// Returns the noise seed of that replica of the variant with that index in the scenario.
#[must_use]
pub fn replica_seed(seed: u64, variant: u64, replica: u64) -> u64 {
    /// Distance of the seeds of two replicas of a variant: more than there are variants.
    const DISTANCE: u64 = 1 << 16;
    let index = variant + replica * DISTANCE;
    seed ^ (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Separate random stream, so that the choice of workers does not shift other random numbers.
fn spread(seed: u64) -> ChaCha8Rng {
    const STREAM: u64 = u64::from_be_bytes(*b"spread  ");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(STREAM);
    random
}

/// State of the simulation.
pub(super) struct Simulation<'a, W> {
    pub(super) scenario: &'a Scenario,
    requests: &'a [Request],
    contender: Contender,
    /// Time since the start, ns.
    pub(super) now: u64,
    pub(super) event_queue: EventQueue,
    /// Request indices in order of first arrival; `arrived` of them have arrived.
    order: Vec<u32>,
    arrived: usize,
    pub(super) flights: Vec<Flight>,
    outcomes: Vec<Outcome>,
    ends: Vec<u32>,
    under_way: usize,
    pub(super) plane: DataPlane,
    /// Workers, proxies and variants of each stage.
    pub(super) stages: Vec<StageSpan>,
    /// Passages of each request through all stages; empty if there is one.
    passages: Vec<Passage>,
    /// Chooses the worker of a request's connection at random, as in Envoy.
    spread: ChaCha8Rng,
    /// Chooses among the servers of a variant.
    balance: ChaCha8Rng,
    pub(super) simulated_servers: Vec<SimulatedServer>,
    /// Servers of each variant.
    pub(super) fleets: Vec<Fleet>,
    seed: u64,
    names: BTreeMap<&'a str, u16>,
    pub(super) control: ControlPlane,
    /// Published plans, each with its stage.
    plans: Vec<(u16, Rc<Plan>)>,
    plans_at: Vec<Duration>,
    /// Counters of each proxy.
    pub(super) counted: Vec<Tally>,
    /// Fault: each proxy loses its next plan.
    pub(super) loses_plan: Vec<bool>,
    pub(super) outage_until: u64,
    pub(super) scrapes_lost_until: u64,
    shares: Vec<f64>,
    seconds: Vec<Second>,
    resizes: Vec<Resize>,
    core_seconds: f64,
    variant_core_seconds: Vec<f64>,
    events: u64,
    headers: Headers,
    verdicts: Vec<(StreamId, Verdict)>,
    /// Notifications of the latest call of a worker: rows and reasons.
    notified: Vec<(usize, Notification)>,
    ended: Vec<(Job, Run)>,
    witness: W,
}

impl<'a, W: Witness> Simulation<'a, W> {
    fn new(
        witness: W,
        scenario: &'a Scenario,
        requests: &'a [Request],
        contender: Contender,
        seed: u64,
    ) -> Result<Simulation<'a, W>, PlayError> {
        let (servers, variants) = (scenario.variants.len(), scenario.service.variants.len());
        if servers != variants {
            return Err(PlayError::Servers { servers, variants });
        }
        let order = order(requests)?;
        let cores = control::initial_cores(contender.control, scenario);
        let initial = scenario.variants.iter().zip(&cores);
        let initial: Vec<Allocation> = initial
            .map(|(server, cores)| Allocation::new(server.count(), *cores))
            .collect();
        let plane = DataPlane::new(contender, scenario, &initial, seed)?;
        let proxies = match &plane {
            DataPlane::Weir(workers) => workers.iter().map(|worker| worker.proxy + 1).max(),
            DataPlane::Fifo(stages) => Some(scenario.proxies.count.max(1) * stages.len() as u32),
        };
        let proxies = proxies.unwrap_or(1) as usize;
        let workers = match &plane {
            DataPlane::Weir(workers) => workers.len(),
            DataPlane::Fifo(_) => proxies,
        };
        let stages = stages::spans(scenario, &plane);
        let passages = match stages.len() {
            1 => Vec::new(),
            count => vec![Passage::NONE; requests.len() * count],
        };
        let (simulated_servers, fleets) =
            fleet::at_start(scenario, &cores, (workers, proxies), seed)?;
        let names = scenario
            .service
            .variants
            .iter()
            .map(|variant| variant.name.as_str());
        let mut simulation = Simulation {
            scenario,
            requests,
            contender,
            now: 0,
            event_queue: EventQueue::default(),
            order,
            arrived: 0,
            flights: vec![Flight::NEW; requests.len()],
            outcomes: requests.iter().map(open).collect(),
            ends: vec![0; requests.len()],
            under_way: requests.len(),
            shares: Vec::new(),
            plane,
            stages,
            passages,
            spread: spread(seed),
            balance: fleet::balance(seed),
            simulated_servers,
            fleets,
            seed,
            names: names.zip(0..).collect(),
            control: ControlPlane::new(contender.control, scenario, requests, &cores, proxies),
            plans: Vec::new(),
            plans_at: Vec::new(),
            counted: vec![Tally::NEW; proxies],
            loses_plan: vec![false; proxies],
            outage_until: 0,
            scrapes_lost_until: 0,
            seconds: Vec::new(),
            resizes: Vec::new(),
            core_seconds: 0.0,
            variant_core_seconds: vec![0.0; variants],
            events: 0,
            headers: Headers::default(),
            verdicts: Vec::new(),
            notified: Vec::new(),
            ended: Vec::new(),
            witness,
        };
        simulation.begin();
        Ok(simulation)
    }

    /// Handles all events before `until`, ns. Returns whether the simulation is over: every request has ended and the
    /// scenario's length has elapsed.
    fn advance(&mut self, until: u64) -> bool {
        let length = nanos(self.scenario.length);
        loop {
            let flights = &self.flights;
            let next = self.event_queue.next_at(|event| matters(flights, event));
            let arrival = self.next_arrival();
            match (next, arrival) {
                (Some(at), _) if arrival.is_none_or(|(arrives, _)| at <= arrives) => {
                    if self.under_way == 0 && at > length {
                        return true;
                    }
                    if at >= until {
                        return false;
                    }
                    let Some((at, what)) = self.event_queue.pop() else {
                        return true;
                    };
                    self.now = at;
                    self.handle(what);
                }
                (_, Some((arrives, _))) if arrives >= until => return false,
                (_, Some((arrives, request))) => {
                    self.now = arrives;
                    self.arrived += 1;
                    self.arrive(request);
                }
                _ => return true,
            }
            self.events += 1;
        }
    }

    fn next_arrival(&self) -> Option<(u64, u32)> {
        let request = *self.order.get(self.arrived)?;
        let head = self.requests.get(request as usize)?.head;
        Some((nanos(head), request))
    }

    fn finish(mut self, contender: Contender) -> Result<(Play, W), PlayError> {
        let not_once = self.ends.iter().position(|times| *times != 1);
        if let Some(request) = not_once {
            let times = self.ends.get(request).copied().unwrap_or_default();
            return Err(PlayError::Ends { request, times });
        }
        if let DataPlane::Weir(workers) = &mut self.plane {
            self.witness.end(&mut workers.iter_mut(), self.now);
        }
        let initial = control::initial_cores(contender.control, self.scenario);
        let play = Play {
            contender: contender.label(&self.scenario.service),
            outcomes: self.outcomes,
            passages: self.passages,
            seconds: self.seconds,
            initial: initial.iter().map(|cores| cores.as_f64()).collect(),
            resizes: self.resizes,
            core_seconds: self.core_seconds,
            variant_core_seconds: self.variant_core_seconds,
            plans: self.plans_at,
            events: self.events,
        };
        Ok((play, self.witness))
    }
}

/// Whether an event may have an effect: a limit has none once its request has ended.
fn matters(flights: &[Flight], event: &Event) -> bool {
    event.limits().is_none_or(|(request, attempt)| {
        let flight = flights.get(request as usize);
        flight.is_some_and(|flight| flight.place != Place::Ended && flight.attempt == attempt)
    })
}

/// Request indices by arrival, then by number.
fn order(requests: &[Request]) -> Result<Vec<u32>, PlayError> {
    let mut before = Duration::ZERO;
    for (place, request) in requests.iter().enumerate() {
        let why = if request.id as usize != place {
            "its id must be its place"
        } else if request.sent < before {
            "it was sent before the one ahead of it; they must be sorted by sending"
        } else if request.head < request.sent {
            "it arrives before it was sent"
        } else if request.arrives < request.head {
            "its body has come before its head"
        } else {
            before = request.sent;
            continue;
        };
        return Err(PlayError::Request { place, why });
    }
    let mut order: Vec<u32> = requests.iter().map(|request| request.id).collect();
    order.sort_by_key(|id| requests.get(*id as usize).map(|request| request.head));
    Ok(order)
}

#[cfg(test)]
pub(super) mod tests;
