//! Proxies without Weir: every request goes on at once, and the servers queue. A circuit breaker
//! bounds what is under way.

use weir_api::Cores;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

use weir_filter::routing::router::{Candidate, Requirements, Router};

use crate::scenario::Plane;
use weir_planner::config::Service;
use weir_planner::profile::Fit;

/// Envoy's timeout for a route that names none.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(15);
/// Envoy's bound on requests under way to a cluster that names none.
const REQUESTS_MAX: u32 = 1024;

/// How a variant is chosen.
#[derive(Debug)]
enum Choice {
    /// By weight, smoothly.
    Turns(Router),
    /// The one with the greater weight/(active + 1) of two drawn.
    LeastRequest(Box<ChaCha8Rng>),
}

/// The state all proxies share, as Envoy's workers share their hosts' counts.
#[derive(Debug)]
pub(crate) struct Fifo {
    choice: Choice,
    weights: Vec<f64>,
    active: Vec<u32>,
    requests_max: u32,
    /// For the whole cluster, or for each variant where each is a cluster of its own.
    bound_is_joint: bool,
    /// The route's timeout.
    pub(crate) timeout: Duration,
}

impl Fifo {
    /// For that plane, with weights from what the starting cores sustain.
    pub(crate) fn new(plane: Plane, service: &Service, cores: &[f64], seed: u64) -> Fifo {
        let fitted: Vec<f64> = service
            .variants
            .iter()
            .zip(cores)
            .map(|(variant, cores)| {
                let fitted = |fit: &Fit| fit.slope_rps * cores + fit.intercept_rps;
                let by_law = || {
                    variant.capacity(
                        Cores::from_millis((cores * 1e3).round() as u32),
                        f64::INFINITY,
                    )
                };
                let rps = variant.profile.fit.as_ref().map_or_else(by_law, fitted);
                if *cores > 0.0 { rps.max(0.0) } else { 0.0 }
            })
            .collect();
        let joint: f64 = fitted.iter().sum();
        let weights: Vec<f64> = match plane {
            // Each that has a core in turn.
            Plane::FifoRoundRobin => cores
                .iter()
                .map(|cores| f64::from(u8::from(*cores > 0.0)))
                .collect(),
            _ if joint > 0.0 => fitted,
            _ => cores.to_vec(),
        };
        let sum: f64 = weights.iter().sum();
        let careful = plane == Plane::FifoTimeout;
        // Little's law: no more under way than is answered within the objective.
        let within = (joint * service.slo.as_secs_f64()).round().clamp(1.0, 1e6) as u32;
        Fifo {
            choice: if careful {
                Choice::LeastRequest(Box::new(ChaCha8Rng::seed_from_u64(seed)))
            } else {
                Choice::Turns(Router::default())
            },
            active: vec![0; weights.len()],
            weights: weights
                .into_iter()
                .map(|weight| if sum > 0.0 { weight / sum } else { 0.0 })
                .collect(),
            requests_max: if careful { within } else { REQUESTS_MAX },
            bound_is_joint: careful,
            timeout: if careful { service.slo } else { ROUTE_TIMEOUT },
        }
    }

    /// The static weights, summing to 1.
    pub(crate) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Chooses a variant; `None` where the circuit breaker is open, or nobody has a weight.
    pub(crate) fn choose(&mut self) -> Option<usize> {
        let index = match &mut self.choice {
            Choice::Turns(router) => {
                let candidates = self.weights.iter().map(|weight| Candidate {
                    share: *weight,
                    has_slots: *weight > 0.0,
                    response_time: || Duration::ZERO,
                    accuracy: 0.0,
                });
                let requirements = Requirements {
                    left: Duration::MAX,
                    min_accuracy: 0.0,
                };
                router.choose(candidates, requirements).ok()?.variant
            }
            Choice::LeastRequest(random) => {
                let weighted = |(_, weight): &(usize, &f64)| **weight > 0.0;
                let hosts = self.weights.iter().filter(|weight| **weight > 0.0).count();
                let mut draw = |among: usize| {
                    if among > 1 {
                        random.random_range(0..among)
                    } else {
                        0
                    }
                };
                let first = draw(hosts);
                let second = draw(hosts.saturating_sub(1));
                let second = second + usize::from(second >= first);
                let rank = |n: usize| {
                    let (index, weight) =
                        self.weights.iter().enumerate().filter(weighted).nth(n)?;
                    let active = self.active.get(index).copied().unwrap_or_default();
                    Some((index, weight / f64::from(active + 1)))
                };
                let (one, other) = (rank(first)?, rank(second));
                other.filter(|other| other.1 > one.1).unwrap_or(one).0
            }
        };
        let under_way = if self.bound_is_joint {
            self.active.iter().sum()
        } else {
            self.active.get(index).copied().unwrap_or_default()
        };
        if under_way >= self.requests_max {
            return None;
        }
        *self.active.get_mut(index)? += 1;
        Some(index)
    }

    /// A request under way to that variant has ended, for the proxy.
    pub(crate) fn ended(&mut self, variant: u16) {
        if let Some(active) = self.active.get_mut(usize::from(variant)) {
            *active = active.saturating_sub(1);
        }
    }
}
