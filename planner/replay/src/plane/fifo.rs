//! Proxies without Weir: they forward every request at once, and the servers queue. A circuit
//! breaker limits the requests in flight.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;
use std::time::Duration;

use weir_filter::routing::fallback::VariantList;
use weir_filter::routing::group_times::Group;
use weir_filter::routing::router::{Candidate, Requirements, ResponseTime, Router};
use weir_filter::time::Span;

use crate::scenario::{Contender, Plane};
use weir_planner::capacity::Allocation;
use weir_planner::profile::Fit;
use weir_planner::service::{Replicas, Service, Variant};

/// Envoy's default route timeout.
const ROUTE_TIMEOUT: Duration = Duration::from_secs(15);
/// Envoy's default circuit breaker: requests in flight to a cluster.
const REQUESTS_MAX: u32 = 1024;

/// Load-balancing policy.
#[derive(Debug)]
enum LoadBalancing {
    /// Smooth weighted round robin.
    RoundRobin(Router),
    /// Weighted least request: of two random hosts, the one with the greater weight/(active + 1).
    LeastRequest(Box<ChaCha8Rng>),
}

/// State that all proxies share, as Envoy's workers share their hosts' counts.
#[derive(Debug)]
pub(crate) struct Fifo {
    balancing: LoadBalancing,
    /// Index of the stage's first variant.
    first: usize,
    weights: Vec<f64>,
    active: Vec<u32>,
    requests_max: u32,
    /// Circuit breaker as given, which follows nothing.
    breaker: Option<u32>,
    /// Whether the weights follow the shares of plans.
    follows: bool,
    /// Whether they follow the ready replicas, with the circuit breaker.
    counts_replicas: bool,
    /// Objective of the service, in s.
    slo_s: f64,
    /// `true`: one circuit breaker for the whole cluster. `false`: one for each variant, each its own cluster.
    bound_is_joint: bool,
    /// Timeout of the route.
    pub(crate) timeout: Duration,
}

impl Fifo {
    /// Creates the proxies of a stage, with those variants. Weights are the throughput of the starting cores.
    pub(crate) fn new(
        Contender { plane, breaker, .. }: Contender,
        service: &Service,
        variants: Range<usize>,
        initial: &[Allocation],
        seed: u64,
    ) -> Fifo {
        let first = variants.start;
        let initial = initial.get(variants.clone()).unwrap_or_default();
        let variants = service.variants.get(variants).unwrap_or_default();
        let cores: Vec<f64> = initial.iter().map(|one| one.cores().as_f64()).collect();
        let fitted: Vec<f64> = variants
            .iter()
            .zip(initial)
            .map(|(variant, initial)| {
                let cores = &initial.each().as_f64();
                let fitted = |fit: &Fit| fit.slope_rps * cores + fit.intercept_rps;
                let by_latency = || variant.profile.sustained(initial.each()).0;
                let rps = variant.profile.fit.as_ref().map_or_else(by_latency, fitted);
                let one_rps = if *cores > 0.0 { rps.max(0.0) } else { 0.0 };
                f64::from(initial.replicas()) * one_rps
            })
            .collect();
        let joint: f64 = fitted.iter().sum();
        let weights: Vec<f64> = match plane {
            // Each variant with at least one core, in turn.
            Plane::FifoRoundRobin => cores
                .iter()
                .map(|cores| f64::from(u8::from(*cores > 0.0)))
                .collect(),
            _ if joint > 0.0 => fitted,
            _ => cores,
        };
        let sum: f64 = weights.iter().sum();
        let careful = plane == Plane::FifoTimeout;
        let slo_s = service.slo.as_secs_f64();
        let is_replicated = |variant: &Variant| variant.replicas != Replicas::ONE;
        Fifo {
            first,
            balancing: if careful {
                LoadBalancing::LeastRequest(Box::new(ChaCha8Rng::seed_from_u64(seed)))
            } else {
                LoadBalancing::RoundRobin(Router::default())
            },
            active: vec![0; weights.len()],
            weights: weights
                .into_iter()
                .map(|weight| if sum > 0.0 { weight / sum } else { 0.0 })
                .collect(),
            follows: plane == Plane::FifoQuotas,
            counts_replicas: careful && variants.iter().any(is_replicated),
            slo_s,
            breaker,
            requests_max: if careful {
                breaker.unwrap_or_else(|| within(joint, slo_s))
            } else {
                REQUESTS_MAX
            },
            bound_is_joint: careful,
            timeout: if careful { service.slo } else { ROUTE_TIMEOUT },
        }
    }

    /// Takes in the shares of a plan and the capacity that it promises, which become the weights and the circuit
    /// breaker where these follow plans or replicas.
    pub(crate) fn follow(&mut self, shares: &[f64], capacity_rps: f64) -> bool {
        let follows = self.follows || self.counts_replicas;
        if follows {
            self.weights = shares.to_vec();
        }
        if self.counts_replicas {
            let by_capacity = || within(capacity_rps, self.slo_s);
            self.requests_max = self.breaker.unwrap_or_else(by_capacity);
        }
        follows
    }

    /// Weights, summing to 1.
    pub(crate) fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// Chooses a variant; `None` if the circuit breaker is open or all weights are 0.
    pub(crate) fn choose(&mut self) -> Option<usize> {
        let index = match &mut self.balancing {
            LoadBalancing::RoundRobin(router) => {
                let candidates = self.weights.iter().map(|weight| Candidate {
                    share: *weight,
                    has_slots: *weight > 0.0,
                    failing: false,
                    response_time: ResponseTime::default,
                    accuracy: 0.0,
                    streams_full: false,
                });
                let requirements = Requirements {
                    left: Span::MAX,
                    min_accuracy: 0.0,
                    list: &VariantList::EMPTY,
                    after: Span::ZERO,
                    group: Group::default(),
                };
                router.choose(candidates, requirements).ok()?.variant
            }
            LoadBalancing::LeastRequest(random) => {
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
        Some(self.first + index)
    }

    /// Records at the proxy that a request in flight to that variant has ended.
    pub(crate) fn ended(&mut self, variant: u16) {
        let index = usize::from(variant).checked_sub(self.first);
        if let Some(active) = index.and_then(|index| self.active.get_mut(index)) {
            *active = active.saturating_sub(1);
        }
    }
}

/// Little's law: at most as many in flight as can be answered within the objective.
fn within(capacity_rps: f64, slo_s: f64) -> u32 {
    (capacity_rps * slo_s).round().clamp(1.0, 1e6) as u32
}
