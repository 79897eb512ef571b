//! Time as values. Holding and expiry run on [`Mono`]; [`Wall`] serves only to read what clients
//! sent and to tell the next hop, so a clock step changes nothing that is already held.

use std::ops::Add;
use std::time::Duration;

use serde::{Deserialize, Serialize};

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
        self.0 / 1_000_000
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

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
