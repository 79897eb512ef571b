//! Requests of the last 5 minutes, hour and 6 hours. Each window is a ring of blocks of equal length, of which the
//! latest is being filled: a window of n blocks holds the requests of at least n - 1 of them and at most n.
//!
//! Blocks are numbered by a clock of the windows, which goes on over a restart of the planner ([`record`]). Time in which
//! no planner ran is in no block.

mod record;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::{ProxyRequests, RequestCounts, RequestStatus, RequestWindow};
use super::{waiting, whole};
use crate::observe::{RequestIncrease, RequestSample};
use crate::service::Service;

pub use record::{RecordError, WindowRecord};

/// Lengths of the windows, and of their blocks.
pub const WINDOWS: [(Duration, Duration); 3] = [
    (Duration::from_secs(300), Duration::from_secs(5)),
    (Duration::from_secs(3600), Duration::from_secs(60)),
    (Duration::from_secs(6 * 3600), Duration::from_secs(300)),
];
/// Maximum number of blocks of a window.
pub const BLOCKS_MAX: usize = 72;

/// Requests of a service, by window.
#[derive(Debug, Clone, Default)]
pub struct RequestWindows {
    /// A time of the planner's clock, and the same time of the windows' own.
    origin: (Duration, Duration),
    rings: [Ring; WINDOWS.len()],
    sample: RequestSample,
    /// Time between the latest two samples with an answer.
    covered: Duration,
    /// Time of the latest sample with an answer.
    answered_at: Option<Duration>,
}

/// Blocks of one window, by number.
#[derive(Debug, Clone, Default)]
struct Ring(VecDeque<Block>);

/// Requests of one block.
#[derive(Debug, Clone)]
struct Block {
    number: u128,
    covered: Duration,
    increase: RequestIncrease,
}

impl RequestWindows {
    /// Adds the requests of a cycle at `at`. A sample without any answer changes no window: the next one covers its time.
    pub fn add(&mut self, at: Duration, sample: RequestSample) {
        if sample.answered {
            let before = self.answered_at.replace(at);
            self.covered = at.saturating_sub(before.unwrap_or(at));
            if let Some(increase) = sample.sum() {
                let time = self.time(at);
                for (ring, (window, block)) in self.rings.iter_mut().zip(WINDOWS) {
                    ring.add(number(time, block), self.covered, &increase);
                    ring.expire(number(time, block), blocks(window, block));
                }
            }
        }
        self.sample = sample;
    }

    /// Returns the requests as of `at`, beside the plan's service times.
    pub fn status(
        &self,
        at: Duration,
        service: &Service,
        predicted_ms: &BTreeMap<String, f64>,
    ) -> RequestStatus {
        let window = |window, covered, increase: &RequestIncrease| {
            RequestWindow::of((window, covered), increase, service, predicted_ms)
        };
        let windows = self
            .rings
            .iter()
            .zip(WINDOWS)
            .map(|(ring, (length, block))| {
                let latest = number(self.time(at), block);
                let (covered, increase) = ring.sum(latest, blocks(length, block));
                window(length, covered, &increase)
            });
        let latest = self.sample.sum();
        let all = waiting(&self.sample);
        let by_variant = all.iter().flat_map(|all| &all.variants);
        RequestStatus {
            on_time_target: service.on_time_target,
            waiting: all.as_ref().map(|all| whole(all.held)),
            waiting_by_variant: by_variant
                .map(|(name, count)| (name.clone(), whole(*count)))
                .collect(),
            latest: latest.map(|increase| window(self.covered, self.covered, &increase)),
            windows: windows.collect(),
            proxies: self.proxies(service),
        }
    }

    /// Whether no requests are known.
    pub fn is_empty(&self) -> bool {
        self.rings.iter().all(|ring| ring.0.is_empty())
    }

    /// Time of the windows' clock.
    fn time(&self, at: Duration) -> Duration {
        let (origin, time) = self.origin;
        time.saturating_add(at.saturating_sub(origin))
    }

    fn proxies(&self, service: &Service) -> BTreeMap<String, ProxyRequests> {
        let mut proxies: BTreeMap<String, ProxyRequests> = BTreeMap::new();
        for (name, increase) in &self.sample.proxies {
            let counts = RequestCounts::of(increase, service);
            proxies.entry(name.to_string()).or_default().counts = counts;
        }
        for (name, waiting) in &self.sample.waiting {
            let waiting = Some(whole(waiting.held));
            proxies.entry(name.to_string()).or_default().waiting = waiting;
        }
        proxies
    }
}

impl Ring {
    fn add(&mut self, number: u128, covered: Duration, increase: &RequestIncrease) {
        match self.0.back_mut().filter(|block| block.number == number) {
            Some(block) => {
                block.covered += covered;
                block.increase.add(increase);
            }
            None => self.0.push_back(Block {
                number,
                covered,
                increase: increase.clone(),
            }),
        }
    }

    /// Removes blocks that are not of the window.
    fn expire(&mut self, latest: u128, blocks: usize) {
        let is_old = |block: &Block| block.number + blocks as u128 <= latest;
        while self.0.front().is_some_and(is_old) || self.0.len() > BLOCKS_MAX {
            self.0.pop_front();
        }
    }

    /// Returns the covered time and the requests of the window.
    fn sum(&self, latest: u128, blocks: usize) -> (Duration, RequestIncrease) {
        let each = self.0.iter();
        let each = each.filter(|block| block.number + blocks as u128 > latest);
        let mut sum = (Duration::ZERO, RequestIncrease::default());
        for block in each {
            sum.0 += block.covered;
            sum.1.add(&block.increase);
        }
        sum
    }
}

/// Number of the block in which a time is.
fn number(at: Duration, block: Duration) -> u128 {
    at.as_millis() / block.as_millis().max(1)
}

/// Number of blocks of a window.
const fn blocks(window: Duration, block: Duration) -> usize {
    (window.as_secs() / block.as_secs()) as usize
}

const _: () = {
    let [(five_min, of_five_min), (hour, of_hour), (hours, of_hours)] = WINDOWS;
    assert!(blocks(five_min, of_five_min) <= BLOCKS_MAX);
    assert!(blocks(hour, of_hour) <= BLOCKS_MAX && blocks(hours, of_hours) <= BLOCKS_MAX);
};

#[cfg(test)]
mod tests;
