//! Cores and lanes that were asked for → those of each server, and when. Time is an argument; nothing is started here.
//!
//! A change is in force after a delay drawn anew for each. Then servers have other cores at once, and what begins anew
//! loads: all of them where none has a lane, and each further lane where lanes are the replicas (parallelism is a
//! number). Asked for anything else meanwhile, what loads and is still wanted goes on loading.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::time::Instant;
use weir_sim::server::Parallelism;

use super::super::Resources;

/// Time until an Envoy that watches a file has taken new endpoints over.
const TAKE_OVER: Duration = Duration::from_millis(50);

/// Lanes of one server, and their cores.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Seat {
    pub(super) lanes: u32,
    pub(super) cores: f64,
}

impl Seat {
    /// A server that is not there.
    pub(super) const NONE: Seat = Seat {
        lanes: 0,
        cores: 0.0,
    };

    /// Its executions at once, where those of all together are said like `all`.
    pub(super) fn parallelism(self, all: Parallelism) -> Parallelism {
        match (all, NonZeroU32::new(self.lanes)) {
            (Parallelism::Fixed(_), Some(lanes)) => Parallelism::Fixed(lanes),
            (all, _) => all,
        }
    }
}

/// Cores and lanes of all together, spread evenly over the servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Split {
    pub(super) cores: f64,
    pub(super) parallelism: Parallelism,
    pub(super) count: NonZeroU32,
    /// Cores of each lane that serves while others load; an even part if left out.
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

    /// One for each server; the first have one lane more where they cannot all have as many.
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
            // A part of a core that makes no lane.
            Parallelism::PerCore if first => {
                f64::from(lanes) + self.cores - f64::from(self.lanes())
            }
            Parallelism::PerCore => f64::from(lanes),
        }
    }
}

/// One server.
#[derive(Debug, Clone, Default)]
struct Replica {
    /// Lanes that serve.
    lanes: u32,
    /// Lanes that load, and when they are ready, earliest first.
    loading: VecDeque<(Instant, u32)>,
    /// From then on it is in the endpoints as Envoy has them.
    known_from: Option<Instant>,
    /// Since then it executes what it still has.
    leaving: Option<Instant>,
    /// Cores it serves with.
    cores: f64,
}

/// Servers that are to be changed.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// What they have from now on.
    pub(super) seats: Vec<(usize, Seat)>,
    /// Those of them that begin to serve.
    pub(super) begins: Vec<usize>,
    /// Whether others serve than before.
    pub(super) endpoints: bool,
}

/// All of them.
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

    /// Asks for that; the same as is on its way goes on.
    pub(super) fn ask(&mut self, now: Instant, wanted: Split) {
        if self.heading() != wanted {
            let [shortest, longest] = self.resize_delay.map(|delay| delay.as_secs_f64());
            let part: f64 = self.random.random();
            let delay = Duration::from_secs_f64(shortest + (longest - shortest) * part);
            self.pending = (wanted != self.target).then(|| (wanted, now + delay));
        }
    }

    /// Whether something else was asked for since.
    pub(super) fn has_left(&self, wanted: Split) -> bool {
        self.heading() != wanted
    }

    /// What was asked for last.
    pub(super) fn heading(&self) -> Split {
        self.pending.map_or(self.target, |(split, _)| split)
    }

    /// Whether all that was asked for serves.
    pub(super) fn is_settled(&self, now: Instant) -> bool {
        let serves = |replica: &Replica| {
            replica.loading.is_empty() && replica.known_from.is_none_or(|from| from <= now)
        };
        self.pending.is_none() && self.replicas.iter().all(serves)
    }

    /// What serves, as far as Envoy knows of it, where each server makes batches of so many at most.
    pub(super) fn in_force(&self, now: Instant, batch: NonZeroU32) -> Resources {
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
        // Sums of thirds.
        let cores = (cores * 1e6).round() / 1e6;
        Resources {
            cores,
            parallelism,
            batch,
        }
    }

    /// What it has come to, and what is to be changed for that.
    pub(super) fn advance(&mut self, now: Instant) -> Moved {
        self.loading_core_seconds = self.loading_core_seconds(now);
        self.counted_until = now;
        if let Some((split, _)) = self.pending.take_if(|(_, at)| *at <= now) {
            self.target = split;
        }
        let mut moved = Moved::default();
        let lanes_load = matches!(self.target.parallelism, Parallelism::Fixed(_));
        // Where any serves, the others have what they load.
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
        for (replica, wanted) in self.replicas.iter_mut().zip(&seats) {
            replica.go_to(*wanted, ready_at, now);
        }
        let loads = self.replicas.iter().any(|one| !one.loading.is_empty());
        let each = self.target.each.filter(|_| loads);
        let before = before.iter().map(|one| (one.lanes, one.cores));
        let lists = self.replicas.iter_mut().zip(seats).zip(before);
        for (index, ((replica, wanted), (before, cores))) in lists.enumerate() {
            let even = wanted.cores / f64::from(wanted.lanes.max(1));
            replica.cores = match each {
                None if replica.lanes == wanted.lanes => wanted.cores,
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

    /// When something happens next.
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

    /// Executions at once of a server with that.
    pub(super) fn parallelism(&self, seat: Seat) -> Parallelism {
        seat.parallelism(self.target.parallelism)
    }

    /// Servers that serve.
    pub(super) fn serving(&self) -> Vec<usize> {
        let all = self.replicas.iter().enumerate();
        all.filter(|(_, one)| one.lanes > 0)
            .map(|(index, _)| index)
            .collect()
    }

    pub(super) fn lanes(&self) -> Vec<u32> {
        self.replicas.iter().map(|one| one.lanes).collect()
    }

    /// Servers that are to end, and since when.
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

    /// Cores × seconds on which something has loaded.
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

    /// Lanes go at once; those that come are ready then.
    fn go_to(&mut self, wanted: Seat, ready_at: Instant, now: Instant) {
        self.lanes = self.lanes.min(wanted.lanes);
        let loads = |one: &Replica| one.loading.iter().map(|(_, lanes)| lanes).sum::<u32>();
        let missing = wanted.lanes - self.lanes;
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
