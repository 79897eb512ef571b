//! Load of a run: the send time of each request, fixed in advance by rates, a network and a seed.

mod generate;
mod rates;
mod spans;
mod trace;

use std::time::Duration;

pub use generate::Pulse;
pub use rates::{RATE_MAX_RPS, Rates, SECONDS_MAX};
pub use spans::{CountedSpan, spread};
pub use trace::{
    TRACE_BYTES_MAX, TRACE_SECONDS_MAX, UnnamedTrace, parse_trace, read_bounded, read_trace,
};

use crate::network::Network;

/// Maximum number of requests of one run.
pub const REQUESTS_MAX: usize = 5_000_000;

/// One request before it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its `x-request-id`.
    pub id: String,
    /// Send time, since the start of the run.
    pub send_at: Duration,
    /// Payload for the network.
    pub payload_bytes: u64,
    /// Time from the send until its last byte reaches the proxy.
    pub upload: Duration,
}

/// All requests of a run, in the order of sending. It is the same for every target, and for every
/// run with the same rates, network, payload and seed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schedule {
    /// The requests.
    pub requests: Vec<Planned>,
}

impl Schedule {
    /// Creates Poisson arrivals at `rates`, each with `payload_bytes` over `network`.
    ///
    /// # Errors
    /// More than [`REQUESTS_MAX`] requests.
    pub fn new(
        rates: &Rates,
        network: &Network,
        payload_bytes: u64,
        seed: u64,
    ) -> anyhow::Result<Schedule> {
        Schedule::at(rates.arrivals(seed)?, network, payload_bytes, seed)
    }

    /// Creates requests at exactly these times.
    ///
    /// # Errors
    /// More than [`REQUESTS_MAX`] requests.
    pub fn at(
        mut send_at: Vec<Duration>,
        network: &Network,
        payload_bytes: u64,
        seed: u64,
    ) -> anyhow::Result<Schedule> {
        let count = send_at.len();
        anyhow::ensure!(
            count <= REQUESTS_MAX,
            "{count} requests; at most {REQUESTS_MAX}"
        );
        send_at.sort_unstable();
        let plan = |(index, send_at): (usize, Duration)| Planned {
            id: format!("{seed:x}-{index}"),
            send_at,
            payload_bytes,
            upload: network.upload(send_at, payload_bytes),
        };
        Ok(Schedule {
            requests: send_at.into_iter().enumerate().map(plan).collect(),
        })
    }
}
