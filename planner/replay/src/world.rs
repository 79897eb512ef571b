//! Plays requests through one contender, event by event, in virtual time: proxies with the real
//! engine (or what stands in its place), modelled servers, the real planner (or what stands in its
//! place), and the faults. Everything follows from scenario, requests and seed.
//!
//! What happens at one instant happens in the order in which it was entered; what was already due
//! goes before a request that arrives. Once the buffers have grown, a request allocates nothing here.

mod agenda;
mod arrival;
mod course;
mod flight;
mod health;
mod life;
mod plans;
mod shell;
mod site;
pub(super) mod witness;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use weir_api::{Cores, Plan};
use weir_filter::config::ConfigError;
use weir_filter::engine::StreamId;
use weir_filter::verdict::Verdict;
use weir_sim::server::Run;

use self::agenda::Agenda;
pub(super) use self::agenda::What;
use self::flight::open;
pub(super) use self::flight::{Flight, Place};
use self::site::{Job, Site};
use self::witness::Witness;
use super::control::ControlPlane;
use super::plane::{DataPlane, Headers, Tally};
use super::request::{Outcome, Play, Request, Resize, Second};
use super::scenario::{Contender, Scenario};
use weir_planner::distribution::slot_allocation::TooFew;

/// Why a scenario cannot be played.
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

/// Plays `requests` (sorted by `sent`, numbered from 0) through `contender`.
///
/// # Errors
/// What in the scenario or the requests cannot be played.
pub fn play(
    scenario: &Scenario,
    requests: &[Request],
    contender: Contender,
    seed: u64,
) -> Result<Play, PlayError> {
    play_before((), scenario, requests, contender, seed).map(|(play, ())| play)
}

/// The same, saying how many seconds of the scenario are over after each of them.
///
/// # Errors
/// What in the scenario or the requests cannot be played.
pub fn play_telling<F: FnMut(u64)>(
    tell: F,
    scenario: &Scenario,
    requests: &[Request],
    contender: Contender,
    seed: u64,
) -> Result<Play, PlayError> {
    let clock = witness::Clock(tell);
    play_before(clock, scenario, requests, contender, seed).map(|(play, _)| play)
}

/// The same with somebody who looks on.
pub(super) fn play_before<W: Witness>(
    witness: W,
    scenario: &Scenario,
    requests: &[Request],
    contender: Contender,
    seed: u64,
) -> Result<(Play, W), PlayError> {
    let mut world = World::new(witness, scenario, requests, contender, seed)?;
    world.run();
    world.finish(contender)
}

/// The seed of the noise of the server at that place in the scenario.
#[must_use]
pub fn noise_seed(seed: u64, index: u64) -> u64 {
    seed ^ (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A stream of its own, so that which worker is met shifts nothing else.
fn spread(seed: u64) -> ChaCha8Rng {
    const STREAM: u64 = u64::from_be_bytes(*b"spread  ");
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(STREAM);
    random
}

/// Everything, at one instant.
pub(super) struct World<'a, W> {
    pub(super) scenario: &'a Scenario,
    requests: &'a [Request],
    contender: Contender,
    /// ns since the start.
    pub(super) now: u64,
    pub(super) agenda: Agenda,
    /// Places of the requests in the order of their first arrival, and how many have arrived.
    order: Vec<u32>,
    arrived: usize,
    pub(super) flights: Vec<Flight>,
    outcomes: Vec<Outcome>,
    ends: Vec<u32>,
    under_way: usize,
    pub(super) plane: DataPlane,
    /// Which worker a request's connection is with: chance, as in Envoy.
    spread: ChaCha8Rng,
    pub(super) sites: Vec<Site>,
    names: BTreeMap<&'a str, u16>,
    pub(super) control: ControlPlane,
    plans: Vec<Rc<Plan>>,
    plans_at: Vec<Duration>,
    /// By proxy.
    pub(super) counted: Vec<Tally>,
    /// By proxy: whether the next plan is lost.
    pub(super) loses_plan: Vec<bool>,
    pub(super) outage_until: u64,
    pub(super) scrapes_lost_until: u64,
    shares: Vec<f64>,
    seconds: Vec<Second>,
    resizes: Vec<Resize>,
    core_seconds: f64,
    events: u64,
    headers: Headers,
    verdicts: Vec<(StreamId, Verdict)>,
    ended: Vec<(Job, Run)>,
    witness: W,
}

impl<'a, W: Witness> World<'a, W> {
    fn new(
        witness: W,
        scenario: &'a Scenario,
        requests: &'a [Request],
        contender: Contender,
        seed: u64,
    ) -> Result<World<'a, W>, PlayError> {
        let (servers, variants) = (scenario.variants.len(), scenario.service.variants.len());
        if servers != variants {
            return Err(PlayError::Servers { servers, variants });
        }
        let order = order(requests)?;
        let cores: Vec<Cores> = scenario
            .variants
            .iter()
            .map(|server| Cores::try_from(server.cores).unwrap_or_default())
            .collect();
        let sites = scenario.variants.iter().zip(&cores).zip(0..);
        let sites = sites
            .map(|((server, cores), index)| Site::new(server, *cores, noise_seed(seed, index)))
            .collect::<Result<Vec<Site>, PlayError>>()?;
        let plane = DataPlane::new(contender.plane, scenario, &cores, seed)?;
        let proxies = match &plane {
            DataPlane::Weir(workers) => workers.iter().map(|worker| worker.proxy + 1).max(),
            DataPlane::Fifo(_) => Some(scenario.proxies.count.max(1)),
        };
        let proxies = proxies.unwrap_or(1) as usize;
        let names = scenario
            .service
            .variants
            .iter()
            .map(|variant| variant.name.as_str());
        let mut world = World {
            scenario,
            requests,
            contender,
            now: 0,
            agenda: Agenda::default(),
            order,
            arrived: 0,
            flights: vec![Flight::NEW; requests.len()],
            outcomes: requests.iter().map(open).collect(),
            ends: vec![0; requests.len()],
            under_way: requests.len(),
            shares: Vec::new(),
            plane,
            spread: spread(seed),
            sites,
            names: names.zip(0..).collect(),
            control: ControlPlane::new(contender.control, scenario, &cores, proxies),
            plans: Vec::new(),
            plans_at: Vec::new(),
            counted: vec![Tally::NEW; proxies],
            loses_plan: vec![false; proxies],
            outage_until: 0,
            scrapes_lost_until: 0,
            seconds: Vec::new(),
            resizes: Vec::new(),
            core_seconds: 0.0,
            events: 0,
            headers: Headers::default(),
            verdicts: Vec::new(),
            ended: Vec::new(),
            witness,
        };
        world.begin();
        Ok(world)
    }

    /// Plays until every request has ended and the scenario's length is over.
    fn run(&mut self) {
        let length = nanos(self.scenario.length);
        loop {
            let next = self.agenda.next_at();
            let arrival = self.next_arrival();
            match (next, arrival) {
                (Some(at), _) if arrival.is_none_or(|(arrives, _)| at <= arrives) => {
                    if self.under_way == 0 && at > length {
                        return;
                    }
                    let Some((at, what)) = self.agenda.pop() else {
                        return;
                    };
                    self.now = at;
                    self.happen(what);
                }
                (_, Some((arrives, request))) => {
                    self.now = arrives;
                    self.arrived += 1;
                    self.arrive(request);
                }
                _ => return,
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
        let play = Play {
            contender: contender.to_string(),
            outcomes: self.outcomes,
            seconds: self.seconds,
            resizes: self.resizes,
            core_seconds: self.core_seconds,
            plans: self.plans_at,
            events: self.events,
        };
        Ok((play, self.witness))
    }
}

/// The requests' places by arrival, then by number.
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

/// Whole ns; what exceeds 584 years is cut.
pub(super) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
pub(super) mod tests;
