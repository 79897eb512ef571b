//! Held bodies: bounded per request, per source and in total.
//!
//! A request is held until its last byte has come, because no server can work on less; until then it owns
//! no slot. Envoy holds the bytes; only their number is known here. At the limit of all bytes, or of all
//! incoming requests, the request whose body has been incoming for the longest is evicted: a normal upload
//! takes milliseconds, so that one is slow.
//!
//! Nothing here depends on time; the deadline runs on while a body is incoming.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

/// Sources are already hashes.
type Hasher = BuildHasherDefault<fnv::FnvHasher>;

/// Configured limits of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes held of one request; a larger one goes upstream as a stream.
    pub request_max: u64,
    /// Bytes held of one source, by one worker.
    pub source_max: u64,
    /// Bytes held in total, by one worker.
    pub total_max: u64,
}

/// Chunk of a request's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BodyChunk {
    /// Bytes of the body so far.
    pub bytes: u64,
    /// Whether the body is complete.
    pub complete: bool,
}

/// Bytes held of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HeldBody {
    /// Bytes held.
    pub bytes: u64,
    /// Hash of the source that they are counted for; `None` if unknown.
    pub source: Option<u64>,
    /// Whether the source was looked up.
    pub source_known: bool,
}

/// Limit that more bytes would exceed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitExceeded {
    /// Limit of the source.
    Source,
    /// Limit of all bytes.
    All,
}

/// Bytes held by one worker, in total and by source.
///
/// While the total is below the limit of a single source, no source can exceed its limit. Until then no
/// source is looked up: a lookup is a hostcall, and costs more than all other work for a small body.
#[derive(Debug, Default)]
pub struct Ledger {
    all: u64,
    /// Bytes of requests whose source was not looked up.
    unknown_source: u64,
    of_source: HashMap<u64, u64, Hasher>,
}

impl Ledger {
    /// Bytes held in total.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.all
    }

    /// Sources with bytes held.
    #[must_use]
    pub fn sources(&self) -> usize {
        self.of_source.len()
    }

    /// Whether bytes are held whose source was not looked up.
    #[must_use]
    pub fn has_unknown_sources(&self) -> bool {
        self.unknown_source > 0
    }

    /// Whether `share` can grow to `bytes` within every limit, whatever the sources.
    #[must_use]
    pub fn fits(&self, share: &HeldBody, bytes: u64, limits: &Limits) -> bool {
        let more = bytes.saturating_sub(share.bytes);
        self.all.saturating_add(more) <= limits.source_max.min(limits.total_max)
    }

    /// Checks whether `share` may grow to `bytes`.
    ///
    /// # Errors
    /// The limit that would be exceeded.
    pub fn check(
        &self,
        share: &HeldBody,
        bytes: u64,
        limits: &Limits,
    ) -> Result<(), LimitExceeded> {
        let more = bytes.saturating_sub(share.bytes);
        if let Some(source) = share.source {
            let held = self.of_source.get(&source).copied().unwrap_or_default();
            if held.saturating_add(more) > limits.source_max {
                return Err(LimitExceeded::Source);
            }
        }
        if self.all.saturating_add(more) > limits.total_max {
            return Err(LimitExceeded::All);
        }
        Ok(())
    }

    /// Sets the source that a request's bytes are counted for, including those already held. `None`: unknown,
    /// so only the limit of all bounds them.
    pub fn set_source(&mut self, share: &mut HeldBody, source: Option<u64>) {
        if share.source_known {
            return;
        }
        share.source_known = true;
        self.unknown_source = self.unknown_source.saturating_sub(share.bytes);
        share.source = source;
        if let Some(source) = source {
            *self.of_source.entry(source).or_default() += share.bytes;
        }
    }

    /// Sets the bytes held of a request.
    pub fn set(&mut self, share: &mut HeldBody, bytes: u64) {
        let grow = |sum: u64| sum.saturating_sub(share.bytes).saturating_add(bytes);
        self.all = grow(self.all);
        if !share.source_known {
            self.unknown_source = grow(self.unknown_source);
        }
        if let Some(source) = share.source {
            let held = self.of_source.entry(source).or_default();
            *held = grow(*held);
        }
        share.bytes = bytes;
    }

    /// Releases the bytes of a request that goes upstream, or has ended.
    pub fn release(&mut self, share: &mut HeldBody) {
        self.set(share, 0);
        if let Some(source) = share.source.take()
            && self.of_source.get(&source) == Some(&0)
        {
            self.of_source.remove(&source);
        }
        share.source_known = false;
    }
}

/// Requests with incoming bodies, oldest first. A list in order of arrival, because most are added and
/// removed at its end within a moment.
#[derive(Debug, Default)]
pub struct Receiving {
    by_arrival: VecDeque<(u64, u32)>,
}

impl Receiving {
    /// Number of them.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_arrival.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_arrival.is_empty()
    }

    /// Adds the request of `stream` with sequence number `arrival`, higher than all before.
    pub fn add(&mut self, arrival: u64, stream: u32) {
        let last = self.by_arrival.back();
        debug_assert!(last.is_none_or(|(last, _)| *last < arrival));
        self.by_arrival.push_back((arrival, stream));
    }

    /// Removes the request with sequence number `arrival`.
    pub fn remove(&mut self, arrival: u64) {
        let found = self
            .by_arrival
            .binary_search_by_key(&arrival, |(at, _)| *at);
        if let Ok(place) = found {
            self.by_arrival.remove(place);
        }
    }

    /// Stream whose body has been incoming for the longest.
    #[must_use]
    pub fn oldest(&self) -> Option<u32> {
        self.by_arrival.front().map(|(_, stream)| *stream)
    }

    /// Streams, oldest first.
    pub fn streams(&self) -> impl Iterator<Item = u32> + '_ {
        self.by_arrival.iter().map(|(_, stream)| *stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits() -> Limits {
        Limits {
            request_max: 100,
            source_max: 150,
            total_max: 400,
        }
    }

    proptest! {
        /// For any sequence of arrivals, departures and source lookups: the sums match the bytes held, no limit
        /// is exceeded, and nothing is kept of a source that holds nothing.
        #[test]
        fn sums_match_the_bytes_held(
            steps in prop::collection::vec((0..8_usize, 0..3_u64, 0..100_u64, any::<bool>()), 1..200),
        ) {
            let limits = limits();
            let mut ledger = Ledger::default();
            let mut held = [HeldBody::default(); 8];
            let mut sources = [0; 8];
            for (at, source, bytes, leaves) in steps {
                if held[at] == HeldBody::default() {
                    sources[at] = source;
                }
                if leaves {
                    ledger.release(&mut held[at]);
                } else if ledger.fits(&held[at], bytes, &limits) {
                    ledger.set(&mut held[at], bytes);
                } else {
                    for (share, source) in held.iter_mut().zip(sources) {
                        ledger.set_source(share, Some(source));
                    }
                    if ledger.check(&held[at], bytes, &limits).is_ok() {
                        ledger.set(&mut held[at], bytes);
                    }
                }
                let sum = |of: &dyn Fn(usize) -> bool| {
                    let its = held.iter().enumerate().filter(|(at, _)| of(*at));
                    its.map(|(_, share)| share.bytes).sum::<u64>()
                };
                prop_assert_eq!(ledger.all(), sum(&|_| true));
                prop_assert_eq!(ledger.unknown_source, sum(&|at| !held[at].source_known));
                prop_assert!(ledger.all() <= limits.total_max);
                for source in 0..3 {
                    prop_assert!(sum(&|at| sources[at] == source) <= limits.source_max);
                }
            }
            for share in &mut held {
                ledger.release(share);
            }
            prop_assert_eq!((ledger.all(), ledger.unknown_source, ledger.of_source.len()), (0, 0, 0));
        }
    }

    #[test]
    fn exceeded_limit_is_identified() {
        let limits = limits();
        let mut ledger = Ledger::default();
        let mut shares = [HeldBody::default(); 4];
        for (at, share) in shares.iter_mut().enumerate() {
            ledger.set_source(share, Some(at as u64 / 2));
            ledger.set(share, 70);
        }
        let check = |share: &HeldBody, bytes| ledger.check(share, bytes, &limits);
        assert_eq!(check(&shares[0], 80), Ok(()));
        assert_eq!(check(&shares[0], 81), Err(LimitExceeded::Source));
        let unnamed = HeldBody::default();
        assert_eq!(check(&unnamed, 120), Ok(()), "its source was not looked up");
        assert_eq!(check(&unnamed, 121), Err(LimitExceeded::All));
    }
}
