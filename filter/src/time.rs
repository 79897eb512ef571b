//! Time as values. Holding and expiry use [`Mono`]. [`Wall`] is only for clients' timestamps and for the
//! next hop, so a clock step does not affect held requests.

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

/// One point in time on both clocks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Now {
    /// For holding and expiry.
    pub mono: Mono,
    /// For timestamps of clients and hops.
    pub wall: Wall,
}

impl Mono {
    /// Time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub fn since(self, earlier: Mono) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Mono {
    type Output = Mono;
    #[inline]
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

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    #[must_use]
    #[inline]
    pub fn since(self, earlier: Wall) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Wall {
    type Output = Wall;
    #[inline]
    fn add(self, span: Duration) -> Wall {
        Wall(self.0.saturating_add(nanos(span)))
    }
}

/// Span in ns, saturating at 584 years. In 64 bits, which are native in a VM; `Duration` counts in 128.
#[must_use]
#[inline]
pub fn nanos(span: Duration) -> u64 {
    /// Seconds of the longest span, which are not whole.
    const SECONDS_MAX: u64 = u64::MAX / 1_000_000_000;
    let (seconds, rest) = (span.as_secs(), u64::from(span.subsec_nanos()));
    if seconds < SECONDS_MAX {
        // A product that may saturate takes several steps, and many in WebAssembly.
        return seconds * 1_000_000_000 + rest;
    }
    seconds.saturating_mul(1_000_000_000).saturating_add(rest)
}

/// Span in whole ms.
#[must_use]
pub fn millis(span: Duration) -> u64 {
    nanos(span) / NS_PER_MS
}

/// Span in ms, rounded up so that a positive one is not 0.
#[must_use]
pub fn millis_up(span: Duration) -> u64 {
    nanos(span).div_ceil(NS_PER_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_is_counted_in_64_bits() {
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
