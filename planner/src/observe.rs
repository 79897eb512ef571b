//! Reads the proxies' counters: arriving requests, and the variants they went to. Demand is measured at the input
//! (`weir_arrivals_total`), never at the output, where overload looks like low load. A failed scrape is *unknown*,
//! never zero load.
//!
//! A figure is summed over all proxies only if exactly one proxy of a request's path counts it: arrivals (a gate
//! omits requests that a router has tagged), and routed requests (counted by the proxy that chose the variant).

mod accuracies;
mod arrivals;
pub mod buckets;
mod counts;
mod executions;
pub mod exposition;
mod failing;
mod full;
mod groups;
mod outcomes;
mod proxies;
mod routes;
#[cfg(feature = "serve")]
mod scraping;
pub mod slack;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

pub use accuracies::Accuracies;
pub use arrivals::{Arrivals, Observation, Span};
pub use counts::{Fold, Folded, LINE_BYTES_MAX, StageNames};
pub use executions::{ByVariant, ExecutionCounts, Executions};
pub use failing::Failing;
pub use full::{FullRate, FullRates, FullTime, FullTimes};
#[cfg(test)]
pub(crate) use groups::reported;
pub use groups::{ByGroup, GroupCounts, add as add_group};
pub use outcomes::{
    OutcomeCounts, Outcomes, Refusals, RequestIncrease, RequestSample, VariantIncrease,
    VariantOutcomes, Waiting,
};
pub use proxies::{PROXY_DEPARTED_AFTER, WITHOUT_WEIR_AFTER};
pub use routes::{Route, RoutedShare, Routes};
#[cfg(feature = "serve")]
pub use scraping::*;
pub use slack::Slack;

/// Maximum size of a proxy's answer, in bytes, of which only counts are kept: more than a filter with 64 services of 64
/// variants exports.
pub const SCRAPE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Scrape of one proxy.
#[derive(Debug, Clone, PartialEq)]
pub struct Scrape {
    /// Name of the proxy, the same in every scrape.
    pub from: Arc<str>,
    /// Time of the answer, by [`crate::clock::Now::at`]'s clock.
    pub at: Duration,
    /// Counts of the service's requests, or the reason why they are unknown.
    pub counts: Result<Counts, ScrapeError>,
}

/// Counts of a proxy since it started.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Counts {
    /// Requests that arrived.
    pub arrivals: f64,
    /// Arrivals by the least accurate variant that has the accuracy they require.
    pub accuracies: BTreeMap<String, f64>,
    /// Routed requests by variant, for variants that got any.
    pub routes: BTreeMap<String, Route>,
    /// Whether a variant's servers fail, so that the proxy avoids it; by variant known to the proxy.
    pub failing: BTreeMap<String, bool>,
    /// Executions by variant, for variants that had any.
    pub executions: ByVariant,
    /// Times with all slots of a variant taken.
    pub full: FullTimes,
    /// Service times of executions by variant and group, for groups that had any.
    pub groups: Arc<ByGroup>,
    /// Histogram of the requests' remaining time, by rising upper edge; empty before the first request.
    pub slack: slack::Buckets,
    /// Ends of requests, and the requests that wait.
    pub outcomes: Arc<Outcomes>,
}

impl Counts {
    /// Returns counts of arrivals alone.
    pub fn of_arrivals(arrivals: f64) -> Counts {
        Counts {
            arrivals,
            ..Counts::default()
        }
    }
}

/// Reasons why a scrape failed.
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
    #[error("a line of more than {LINE_BYTES_MAX} bytes")]
    LongLine,
    #[error("the service's counts were not read")]
    NotRead,
    #[error("not UTF-8 text")]
    NotText,
    #[error("not Prometheus text: the line \"{0}\"")]
    NotSeries(String),
    #[error("cut short: its last line has no end")]
    CutShort,
    #[error("a count must be a number of 0 or more, the line \"{0}\"")]
    Value(String),
    #[error("no metric of weir any more, after answers that had some")]
    NoneLeft,
    #[error("no metric of weir yet")]
    NoneYet,
    #[error("without Weir: no metric of it for {} s", WITHOUT_WEIR_AFTER.as_secs())]
    WithoutWeir,
}

/// Port to the proxies' statistics; a replay answers from its simulation.
pub trait Observe {
    /// Scrapes every known proxy once, concurrently; the answers are in any order.
    fn scrape(&self) -> impl Future<Output = Vec<Scrape>> + Send;

    /// Returns why the list of proxies may be outdated or is not known; `None` if it is as it should be.
    fn trouble(&self) -> Option<String> {
        None
    }
}
