//! What the proxies have counted → how many requests arrive. Demand is measured at the input
//! (`weir_arrivals`), never at the output, where overload looks like low load; and a scrape that
//! failed is *unknown*, never zero load.

mod arrivals;
mod scrape;

use std::future::Future;
use std::time::Duration;

pub use arrivals::{Arrivals, Observation, PROXY_GONE_AFTER};
pub use scrape::{SCRAPE_BYTES_MAX, Scraper};

/// One look at one proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Scrape {
    /// When the answer was there; [`crate::clock::Now::at`]'s clock.
    pub at: Duration,
    /// Requests of the service that arrived since the proxy started, or why that is unknown.
    pub arrivals: Result<f64, ScrapeError>,
}

/// Why a look brought nothing.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ScrapeError {
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    #[error("not reachable: {0}")]
    Unreachable(String),
    #[error("status {0}, not 200")]
    Status(u16),
    #[error("more than {SCRAPE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("not UTF-8 text")]
    NotText,
}

/// The port to the proxies' statistics; a replay answers from its simulation.
pub trait Observe {
    /// Looks at every proxy once, at the same time; the answers are in the proxies' order.
    fn scrape(&self) -> impl Future<Output = Vec<Scrape>> + Send;
}
