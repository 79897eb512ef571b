//! Scrapes of the real proxies: their addresses (fixed, by a DNS name, by pods), and the fetches that services share.

mod dns;
mod download;
mod fetches;
#[cfg(feature = "kubernetes")]
pub mod pods;
mod scrape;
mod targets;

pub use dns::{DNS_LOOKUP_MAX, DNS_STALE_AFTER, DnsWatch};
pub use fetches::Fetches;
pub use scrape::Scraper;
pub use targets::{ScrapeTarget, ScrapeTargets};
