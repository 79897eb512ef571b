//! How far a client's clock is from ours, by its own stamps: for each source the least
//! (arrival − stamped start) of the last 30 to 60 s.
//!
//! That least is the quickest way here plus what their clock is behind ours. Of it only what cannot be
//! the way is taken for the clock: below zero, all of it (nothing arrives before it is sent: their
//! clock is ahead); above the delay allowance, the rest (no network is *never* quicker: theirs is
//! behind, once [`SAMPLES_MIN`] stamps say so). Between the two, stamps count as they are written.
//!
//! What holds, whatever is stamped:
//! - a correction is at most the skew allowance, either way. A source makes its requests more urgent
//!   by no more than by writing its stamps that much earlier, and what bears no believed stamp has its
//!   whole budget from its arrival on;
//! - a source's estimate is made of its own stamps alone. Others can at most push it out of the table
//!   ([`SOURCES_MAX`]), and then it begins anew;
//! - what is not believable (see [`deadline`](crate::request::deadline)) never gets here.
//!
//! Whoever shares a source (an address that many clients are behind) shares its estimate.

use std::collections::HashMap;
use std::time::Duration;

use crate::time::Mono;

/// Most sources remembered, 40 bytes each. Of a generation of half as many none goes out; then those
/// not seen during the last one do. So a source stays until at least that half of others was seen since.
pub const SOURCES_MAX: usize = 1024;
const GENERATION: usize = SOURCES_MAX / 2;

/// Half the window: clocks drift by µs in that time, and a step of one is noticed within twice that.
const HALF_NS: u64 = 30_000_000_000;

/// How many stamps it takes to say that none came quicker.
pub const SAMPLES_MIN: u8 = 4;

/// What is known of clients' clocks.
#[derive(Debug, Default)]
pub struct Sources {
    /// The standard library's seeded hasher: clients choose what they are told apart by.
    young: HashMap<u64, Estimate>,
    old: HashMap<u64, Estimate>,
}

/// What a source's stamps say of its clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// Least (arrival − stamped start) in the window, in ns.
    pub min_ns: i64,
    /// Of how many stamps; no more than [`SAMPLES_MIN`] are counted for each half.
    pub samples: u8,
}

/// What to take off a stamp's age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Correction {
    /// In ns; negative where the client's clock is ahead.
    pub ns: i64,
    /// Whether it was cut to the skew allowance.
    pub clamped: bool,
}

#[derive(Debug, Clone, Copy)]
struct Estimate {
    /// Which half window `this` is of.
    half: u64,
    this: Offset,
    last: Option<Offset>,
}

impl Sources {
    /// A believable stamp of `source` has come in: it counts, and this is what all of them say.
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

    /// How many sources are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    /// Whether none is.
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

    /// What of it is the clock, not the way.
    #[must_use]
    pub fn correction(self, delay_allowance: Duration, skew_allowance: Duration) -> Correction {
        let (delay, most) = (nanos(delay_allowance), nanos(skew_allowance));
        let whole = match self.min_ns {
            ahead if ahead < 0 => ahead,
            least if self.samples >= SAMPLES_MIN => least.saturating_sub(delay).max(0),
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

fn nanos(span: Duration) -> i64 {
    i64::try_from(span.as_nanos()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
