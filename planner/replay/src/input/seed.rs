//! One seed with a separate random stream for each purpose, so that draws for one never shift
//! another.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Purpose of a random stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Draw {
    /// Times of bursts.
    Shape = 1,
    /// Arrivals.
    Arrivals,
    /// Synthetic link.
    Link,
    /// Classes of requests.
    Classes,
    /// Clocks of clients.
    Clocks,
    /// Random faults.
    Faults,
    /// Clients that send slowly.
    SlowUploads,
    /// Clients that read slowly.
    SlowReaders,
}

/// Returns the random stream for that purpose.
#[must_use]
pub fn rng(seed: u64, draw: Draw) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(draw as u64);
    rng
}

/// Returns a seed for that purpose, for models with their own generator.
#[must_use]
pub fn seed(seed: u64, draw: Draw) -> u64 {
    rng(seed, draw).random()
}
