//! Clock offset of clients, estimated from their timestamps: for each source the minimum of (arrival −
//! stated start) over the last 30 to 60 s.
//!
//! That minimum is the shortest network latency plus the lag of their clock. Only the part that cannot be
//! latency counts as clock offset. Below zero it is all of it: nothing arrives before it is sent, so their
//! clock is ahead. Above the delay allowance it is the rest: no network is *never* faster, so their clock
//! is behind, once [`SAMPLES_MIN`] timestamps agree. Between the two, timestamps count as stated.
//!
//! Guarantees for any timestamps:
//! - A correction is at most the skew allowance, either way. A source gains no more urgency than by stating
//!   an earlier start, and a request without a valid timestamp has its whole budget from its arrival on.
//! - A source's estimate uses only its own timestamps. Others can at most evict it from the table
//!   ([`SOURCES_MAX`]), after which it starts again.
//! - Invalid timestamps (see [`deadline`](crate::request::deadline)) are never used.
//!
//! Clients that share a source, such as an address, share its estimate.

use std::collections::HashMap;

use crate::time::{Mono, Span};

/// Maximum number of sources, 40 bytes each, in two generations. When a generation is full, the sources not
/// seen during the previous one are dropped. So a source stays until at least half as many others have been
/// seen since.
pub const SOURCES_MAX: usize = 1024;
const GENERATION: usize = SOURCES_MAX / 2;

/// Half the window. Clocks drift by µs in that time, and a step is noticed within twice that.
const HALF_NS: u64 = 30_000_000_000;

/// Minimum number of timestamps to conclude that none was faster.
pub const SAMPLES_MIN: u8 = 4;

/// Estimates of clients' clock offsets.
#[derive(Debug, Default)]
pub struct Sources {
    /// The standard library's seeded hasher, because clients choose the keys.
    young: HashMap<u64, Estimate>,
    old: HashMap<u64, Estimate>,
}

/// Clock offset of a source, by its timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Minimum of (arrival − stated start) in the window, in ns.
    pub min_ns: i64,
    /// Number of timestamps; at most [`SAMPLES_MIN`] are counted per half.
    pub samples: u8,
}

/// Correction of a timestamp's age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// In ns; negative if the client's clock is ahead.
    pub ns: i64,
    /// Whether it was clamped to the skew allowance.
    pub clamped: bool,
}

#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// Index of the half window of `this`.
    half: u64,
    this: Offset,
    last: Option<Offset>,
}

impl Sources {
    /// Adds a valid timestamp of `source`; returns the source's offset.
    pub fn observe(&mut self, source: u64, delta_ns: i64, now: Mono) -> Offset {
        let half = now.0 / HALF_NS;
        if let Some(known) = self.young.get_mut(&source) {
            return known.add(delta_ns, half);
        }
        let mut estimate = self.old.remove(&source).unwrap_or(Estimate::new(half));
        let offset = estimate.add(delta_ns, half);
        if self.young.len() >= GENERATION {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(source, estimate);
        offset
    }

    /// Number of sources remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Offset {
    const NONE: Offset = Offset {
        min_ns: i64::MAX,
        samples: 0,
    };

    /// Part of the offset that is the clock, not the network.
    #[must_use]
    pub fn correction(self, delay_allowance: Span, skew_allowance: Span) -> Correction {
        let (delay, most) = (nanos(delay_allowance), nanos(skew_allowance));
        let whole = match self.min_ns {
            ahead if ahead < 0 => ahead,
            min if self.samples >= SAMPLES_MIN => min.saturating_sub(delay).max(0),
            _ => 0,
        };
        let ns = whole.clamp(-most, most);
        Correction {
            ns,
            clamped: ns != whole,
        }
    }

    fn add(&mut self, delta_ns: i64) {
        self.min_ns = self.min_ns.min(delta_ns);
        self.samples = self.samples.saturating_add(1).min(SAMPLES_MIN);
    }
}

impl Estimate {
    fn new(half: u64) -> Estimate {
        Estimate {
            half,
            this: Offset::NONE,
            last: None,
        }
    }

    fn add(&mut self, delta_ns: i64, half: u64) -> Offset {
        if half != self.half {
            let follows = half == self.half.saturating_add(1);
            self.last = follows.then_some(self.this);
            self.this = Offset::NONE;
            self.half = half;
        }
        self.this.add(delta_ns);
        let last = self.last.unwrap_or(Offset::NONE);
        Offset {
            min_ns: self.this.min_ns.min(last.min_ns),
            samples: self.this.samples.saturating_add(last.samples),
        }
    }
}

fn nanos(span: Span) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
