//! Time as values. Holding and expiry run on [`Mono`]; [`Wall`] serves only to read what clients
//! sent and to tell the next hop, so a clock step changes nothing that is already held.

use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

const NS_PER_MS: u64 = 1_000_000;

/// Monotonic time in ns since an origin that all VMs of one Envoy share.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Mono(pub u64);

/// Wall-clock time in ns since the Unix epoch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub u64);

/// One moment on both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// For holding and expiry.
    pub mono: Mono,
    /// For what clients and hops say.
    pub wall: Wall,
}

impl Mono {
    /// Time from `earlier` to `self`; zero where `earlier` is the later.
    #[must_use]
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Mono;
    fn add(self, span: Duration) -> Mono {
        Mono(self.0.saturating_add(nanos(span)))
    }
}

impl Wall {
    /// Whole ms since the epoch.
    #[must_use]
    pub const fn as_ms(self) -> u64 {
        self.0 / NS_PER_MS
    }

    /// Time from `earlier` to `self`; zero where `earlier` is the later.
    #[must_use]
    pub fn since(self, earlier: Wall) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Wall {
    type Output = Wall;
    fn add(self, span: Duration) -> Wall {
        Wall(self.0.saturating_add(nanos(span)))
    }
}

/// A span in ns; the longest there is stands for what does not fit (584 years). In 64 bits, because a VM
/// has no more, and `Duration` counts in 128.
#[must_use]
pub fn nanos(span: Duration) -> u64 {
    let whole = span.as_secs().saturating_mul(1_000_000_000);
    whole.saturating_add(u64::from(span.subsec_nanos()))
}

/// Whole ms of a span.
#[must_use]
pub fn millis(span: Duration) -> u64 {
    nanos(span) / NS_PER_MS
}

/// A span in ms, rounded up, so that what took any time is not 0.
#[must_use]
pub fn millis_up(span: Duration) -> u64 {
    nanos(span).div_ceil(NS_PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_counted_in_64_bits() {
        let spans = [0, 1, 999_999, 1_000_000, 1_000_001, 3_600_000_000_000];
        for ns in spans {
            let span = Duration::from_nanos(ns);
            assert_eq!(u128::from(nanos(span)), span.as_nanos());
            assert_eq!(u128::from(millis(span)), span.as_millis());
            assert_eq!(
                u128::from(millis_up(span)),
                span.as_nanos().div_ceil(1_000_000)
            );
        }
        assert_eq!(nanos(Duration::MAX), u64::MAX);
    }
}
