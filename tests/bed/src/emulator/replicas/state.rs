//! State machine from the requested total cores and lanes to those of each server over time. Time is an argument; it
//! performs no action.
//!
//! A change takes effect after a random delay. Servers then get their new cores at once, and new capacity loads: all
//! servers if none has a lane, and each further lane if lanes are the replicas (parallelism is a number). If another
//! change is requested meanwhile, capacity that is loading and still needed goes on loading.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;
use weir_sim::server::Parallelism;

use super::super::Resources;

/// Time until Envoy has taken over new endpoints from a watched file.
const TAKE_OVER: Duration = Duration::from_millis(50);

/// Lanes of one server, and their cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seat {
    pub(super) lanes: u32,
    pub(super) cores: f64,
}

impl Seat {
    /// A stopped server.
    pub(super) const NONE: Seat = Seat {
        lanes: 0,
        cores: 0.0,
    };

    /// The parallelism of this server, in the same form (per core or fixed) as `all`.
    pub(super) fn parallelism(self, all: Parallelism) -> Parallelism {
        match (all, NonZeroU32::new(self.lanes)) {
            (Parallelism::Fixed(_), Some(lanes)) => Parallelism::Fixed(lanes),
            (all, _) => all,
        }
    }
}

/// Total cores and lanes, spread evenly over the servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Split {
    pub(super) cores: f64,
    pub(super) parallelism: Parallelism,
    pub(super) count: NonZeroU32,
    /// Cores of each ready lane while others load; an even share by default.
    pub(super) each: Option<f64>,
}

impl Split {
    pub(super) fn new(cores: f64, parallelism: Parallelism, count: NonZeroU32) -> Split {
        Split {
            cores,
            parallelism,
            count,
            each: None,
        }
    }

    fn lanes(self) -> u32 {
        self.parallelism.at_once(self.cores)
    }

    /// The seat of each server. If the lanes do not divide evenly, the first servers have one more.
    pub(super) fn seats(self) -> impl Iterator<Item = Seat> {
        let (lanes, count) = (self.lanes(), self.count.get());
        (0..count).map(move |index| {
            let lanes = lanes / count + u32::from(index < lanes % count);
            Seat {
                lanes,
                cores: self.cores_of(lanes, index == 0),
            }
        })
    }

    fn cores_of(self, lanes: u32, first: bool) -> f64 {
        let part = f64::from(lanes) / f64::from(self.lanes().max(1));
        match self.parallelism {
            Parallelism::Fixed(_) => self.cores * part,
            // Plus the fraction of a core that makes no whole lane.
            Parallelism::PerCore if first => {
                f64::from(lanes) + self.cores - f64::from(self.lanes())
            }
            Parallelism::PerCore => f64::from(lanes),
        }
    }
}

/// State of one server.
#[derive(Debug, Clone, Default)]
struct Replica {
    /// Ready lanes.
    lanes: u32,
    /// Loading lanes and the time each is ready, earliest first.
    loading: VecDeque<(Instant, u32)>,
    /// Time from which Envoy knows the server as an endpoint.
    known_from: Option<Instant>,
    /// Time since which it only finishes the executions it still has.
    leaving: Option<Instant>,
    /// Cores of the ready lanes.
    cores: f64,
}

/// Changes to apply to the servers.
#[derive(Debug, Default)]
pub(super) struct ServerChanges {
    /// New lanes and cores, by server index.
    pub(super) seats: Vec<(usize, Seat)>,
    /// Those of these servers that begin to serve.
    pub(super) begins: Vec<usize>,
    /// Whether the set of endpoints changed.
    pub(super) endpoints: bool,
}

/// State of all servers.
#[derive(Debug)]
pub(super) struct State {
    target: Split,
    pending: Option<(Split, Instant)>,
    replicas: Vec<Replica>,
    readiness: Duration,
    resize_delay: [Duration; 2],
    random: ChaCha8Rng,
    loading_core_seconds: f64,
    counted_until: Instant,
}

impl State {
    pub(super) fn new(
        target: Split,
        readiness: Duration,
        resize_delay: [Duration; 2],
        seed: u64,
    ) -> State {
        let now = Instant::now();
        let replica = |seat: Seat| Replica {
            lanes: seat.lanes,
            cores: seat.cores,
            known_from: (seat.lanes > 0).then_some(now),
            ..Replica::default()
        };
        State {
            target,
            pending: None,
            replicas: target.seats().map(replica).collect(),
            readiness,
            resize_delay,
            random: ChaCha8Rng::seed_from_u64(seed),
            loading_core_seconds: 0.0,
            counted_until: now,
        }
    }

    /// Requests new resources; a change to the same resources already under way goes on.
    pub(super) fn request(&mut self, now: Instant, requested: Split) {
        if self.requested() != requested {
            let [shortest, longest] = self.resize_delay.map(|delay| delay.as_secs_f64());
            let part: f64 = self.random.random();
            let delay = Duration::from_secs_f64(shortest + (longest - shortest) * part);
            self.pending = (requested != self.target).then(|| (requested, now + delay));
        }
    }

    /// Whether another change has been requested since.
    pub(super) fn was_replaced(&self, requested: Split) -> bool {
        self.requested() != requested
    }

    /// The resources requested last.
    pub(super) fn requested(&self) -> Split {
        self.pending.map_or(self.target, |(split, _)| split)
    }

    /// Whether everything requested is ready.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        let serves = |replica: &Replica| {
            replica.loading.is_empty() && replica.known_from.is_none_or(|from| from <= now)
        };
        self.pending.is_none() && self.replicas.iter().all(serves)
    }

    /// Actual resources, as far as Envoy knows of them; `batch` is the maximum batch of each server.
    pub(super) fn actual(&self, now: Instant, batch: NonZeroU32) -> Resources {
        let known = |replica: &&Replica| replica.known_from.is_some_and(|from| from <= now);
        let (mut lanes, mut cores) = (0, 0.0);
        for replica in self.replicas.iter().filter(known) {
            lanes += replica.lanes;
            cores += replica.cores;
        }
        let parallelism = match self.target.parallelism {
            Parallelism::PerCore => Parallelism::PerCore,
            Parallelism::Fixed(_) => NonZeroU32::new(lanes).into(),
        };
        // Removes the rounding error of sums of thirds.
        let cores = (cores * 1e6).round() / 1e6;
        Resources {
            cores,
            parallelism,
            batch,
        }
    }

    /// Advances to `now` and returns the changes to apply.
    pub(super) fn advance(&mut self, now: Instant) -> ServerChanges {
        self.loading_core_seconds = self.loading_core_seconds(now);
        self.counted_until = now;
        if let Some((split, _)) = self.pending.take_if(|(_, at)| *at <= now) {
            self.target = split;
        }
        let mut moved = ServerChanges::default();
        let lanes_load = matches!(self.target.parallelism, Parallelism::Fixed(_));
        // If any server is ready, a further one loads on its own.
        let loaded = !lanes_load && self.replicas.iter().any(|replica| replica.lanes > 0);
        let each = self.replicas.iter();
        let first = each.filter_map(|replica| replica.loading.front().map(|(at, _)| *at));
        let ready_at = match first.min().filter(|_| !lanes_load) {
            Some(at) => at,
            None if loaded => now,
            None => now + self.readiness,
        };
        let seats: Vec<Seat> = self.target.seats().collect();
        let before = self.replicas.clone();
        for (replica, target) in self.replicas.iter_mut().zip(&seats) {
            replica.set_lanes(*target, ready_at, now);
        }
        let loads = self.replicas.iter().any(|one| !one.loading.is_empty());
        let each = self.target.each.filter(|_| loads);
        let before = before.iter().map(|one| (one.lanes, one.cores));
        let lists = self.replicas.iter_mut().zip(seats).zip(before);
        for (index, ((replica, target), (before, cores))) in lists.enumerate() {
            let even = target.cores / f64::from(target.lanes.max(1));
            replica.cores = match each {
                None if replica.lanes == target.lanes => target.cores,
                each => each.unwrap_or(even) * f64::from(replica.lanes),
            };
            if replica.lanes == 0 && before > 0 {
                (replica.leaving, replica.known_from) = (Some(now), None);
                moved.endpoints = true;
                continue;
            }
            if replica.lanes > 0 && before == 0 {
                (replica.leaving, replica.known_from) = (None, Some(now + TAKE_OVER));
                moved.endpoints = true;
                moved.begins.push(index);
            }
            if replica.lanes != before || replica.cores != cores {
                moved.seats.push((index, replica.seat()));
            }
        }
        moved
    }

    /// Time of the next event.
    pub(super) fn next_event(&self) -> Option<Instant> {
        let pending = self.pending.map(|(_, at)| at);
        let each = self.replicas.iter();
        let ready = each
            .clone()
            .filter_map(|one| one.loading.front().map(|(at, _)| *at));
        let known = each
            .filter_map(|one| one.known_from)
            .filter(|at| *at > self.counted_until);
        pending.into_iter().chain(ready).chain(known).min()
    }

    /// Parallelism of a server with this seat.
    pub(super) fn parallelism(&self, seat: Seat) -> Parallelism {
        seat.parallelism(self.target.parallelism)
    }

    /// Indexes of ready servers.
    pub(super) fn serving(&self) -> Vec<usize> {
        let all = self.replicas.iter().enumerate();
        all.filter(|(_, one)| one.lanes > 0)
            .map(|(index, _)| index)
            .collect()
    }

    pub(super) fn lanes(&self) -> Vec<u32> {
        self.replicas.iter().map(|one| one.lanes).collect()
    }

    /// Servers that are to stop, each with the time it left the endpoints.
    pub(super) fn leaving(&self) -> Vec<(usize, Instant)> {
        let all = self.replicas.iter().enumerate();
        all.filter_map(|(index, one)| Some((index, one.leaving?)))
            .collect()
    }

    pub(super) fn ended(&mut self, index: usize) {
        if let Some(replica) = self.replicas.get_mut(index) {
            replica.leaving = None;
        }
    }

    /// Cores × seconds spent loading.
    pub(super) fn loading_core_seconds(&self, now: Instant) -> f64 {
        let loads = self.replicas.iter().any(|one| !one.loading.is_empty());
        let serving: f64 = self.replicas.iter().map(|one| one.cores).sum();
        let loading = match loads {
            true => (self.target.cores - serving).max(0.0),
            false => 0.0,
        };
        let since = now.saturating_duration_since(self.counted_until);
        self.loading_core_seconds + loading * since.as_secs_f64()
    }

    pub(super) fn reset(&mut self, now: Instant) {
        self.loading_core_seconds = 0.0;
        self.counted_until = now;
    }
}

impl Replica {
    fn seat(&self) -> Seat {
        Seat {
            lanes: self.lanes,
            cores: self.cores,
        }
    }

    /// Removes lanes at once; new lanes are ready at `ready_at`.
    fn set_lanes(&mut self, target: Seat, ready_at: Instant, now: Instant) {
        self.lanes = self.lanes.min(target.lanes);
        let loads = |one: &Replica| one.loading.iter().map(|(_, lanes)| lanes).sum::<u32>();
        let missing = target.lanes - self.lanes;
        while loads(self) > missing {
            let more = loads(self) - missing;
            if let Some((_, lanes)) = self.loading.back_mut() {
                *lanes = lanes.saturating_sub(more);
            }
            self.loading.retain(|(_, lanes)| *lanes > 0);
        }
        let more = missing - loads(self);
        if more > 0 {
            self.loading.push_back((ready_at, more));
        }
        while self.loading.front().is_some_and(|(at, _)| *at <= now) {
            self.lanes += self.loading.pop_front().map_or(0, |(_, lanes)| lanes);
        }
    }
}

#[cfg(test)]
mod tests;
