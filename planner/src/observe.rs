//! What the proxies have counted → how many requests arrive, and which variants they went to. Demand
//! is measured at the input (`weir_arrivals`), never at the output, where overload looks like low load;
//! and a scrape that failed is *unknown*, never zero load.
//!
//! Only what one proxy of a path counts is summed over all of them: arrivals (a gate leaves out what a
//! router has tagged), and what whoever chose the variant has chosen.

mod arrivals;
mod failing;
pub mod pods;
mod proxies;
mod routes;
mod scrape;
pub mod slack;
mod targets;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use arrivals::{Arrivals, Observation};
pub use failing::Failing;
pub use proxies::PROXY_GONE_AFTER;
pub use routes::{Got, Route, Routes};
pub use scrape::{SCRAPE_BYTES_MAX, Scraper};
pub use slack::Slack;
pub use targets::{Target, Targets};

/// One look at one proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Scrape {
    /// Which proxy it is of: its name, the same in every look.
    pub from: Arc<str>,
    /// When the answer was there; [`crate::clock::Now::at`]'s clock.
    pub at: Duration,
    /// What the proxy has counted of the service, or why that is unknown.
    pub counts: Result<Counts, ScrapeError>,
}

/// What a proxy has counted since it started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Requests that arrived.
    pub arrivals: f64,
    /// By variant, where any was chosen.
    pub routes: BTreeMap<String, Route>,
    /// By variant that it knows: whether its servers fail, so that the proxy has left it.
    pub failing: BTreeMap<String, bool>,
    /// Predicted time of a request at each variant that it knows, in ms, by what it has measured.
    pub predicted_ms: BTreeMap<String, f64>,
    /// Requests by the time that they had left, by rising edge; empty before the first.
    pub slack: slack::Buckets,
}

impl Counts {
    /// So many arrivals, and nothing known of where they went.
    pub fn of_arrivals(arrivals: f64) -> Counts {
        Counts {
            arrivals,
            ..Counts::default()
        }
    }
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
    /// Looks at every proxy there is now once, at the same time; the answers are in any order.
    fn scrape(&self) -> impl Future<Output = Vec<Scrape>> + Send;
}
