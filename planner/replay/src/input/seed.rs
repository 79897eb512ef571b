//! One seed, and as many streams of chance as there are things drawn: what is drawn for one never
//! shifts another.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// What is drawn before a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Draw {
    /// The times of the bursts.
    Shape = 1,
    /// Arrivals.
    Arrivals,
    /// The synthetic link.
    Link,
    /// The requests' classes.
    Classes,
    /// The clients' clocks.
    Clocks,
    /// Faults that the scenario leaves to chance.
    Faults,
    /// The clients that send slowly.
    SlowUploads,
    /// The clients that read slowly.
    SlowReaders,
}

/// The stream for that.
#[must_use]
pub fn rng(seed: u64, draw: Draw) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(draw as u64);
    rng
}

/// The seed for that, where a model wants one of its own.
#[must_use]
pub fn seed(seed: u64, draw: Draw) -> u64 {
    rng(seed, draw).random()
}
