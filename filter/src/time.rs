//! Time as values. Holding and expiry use [`Mono`]. [`Wall`] is only for clients' timestamps and for the
//! next hop, so a clock step does not affect held requests.

use std::ops::{Add, Sub};

use serde::{Deserialize, Serialize};

mod span;

pub use span::Span;

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
    pub fn since(self, earlier: Mono) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Mono {
    type Output = Mono;
    #[inline]
    fn add(self, span: Span) -> Mono {
        Mono(self.0.saturating_add(span.as_nanos()))
    }
}

/// An earlier time, at least the origin.
impl Sub<Span> for Mono {
    type Output = Mono;
    #[inline]
    fn sub(self, span: Span) -> Mono {
        Mono(self.0.saturating_sub(span.as_nanos()))
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
    pub fn since(self, earlier: Wall) -> Span {
        Span::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Span> for Wall {
    type Output = Wall;
    #[inline]
    fn add(self, span: Span) -> Wall {
        Wall(self.0.saturating_add(span.as_nanos()))
    }
}
