//! Reads `/stats/prometheus` of each known proxy. Number, time and size are limited. Unreadable statistics are an
//! error, never a zero.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::counts::counts;
use super::{Observe, Scrape, ScrapeError, ScrapeTarget, ScrapeTargets};
use crate::clock::Clock;
use crate::error_log::ErrorLog;
use crate::service::STATS_MAX;

/// Maximum size of a proxy's answer, in bytes: 100 times what a filter with 64 variants exports.
pub const SCRAPE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Scraper of real proxies.
#[derive(Debug)]
pub struct Scraper {
    targets: ScrapeTargets,
    proxy_scraper: ProxyScraper,
    troubles: Mutex<ErrorLog>,
}

/// Scrape of a single proxy.
#[derive(Debug, Clone)]
struct ProxyScraper {
    http: reqwest::Client,
    clock: Clock,
    stages: Arc<[String]>,
    timeout: Duration,
}

impl Scraper {
    /// Scrapes `targets` for the counts of these stages' services, the entry stage first.
    pub fn new(
        http: reqwest::Client,
        clock: Clock,
        stages: &[&str],
        targets: ScrapeTargets,
        timeout: Duration,
    ) -> Self {
        Scraper {
            targets,
            proxy_scraper: ProxyScraper {
                http,
                clock,
                stages: stages.iter().map(|name| (*name).to_owned()).collect(),
                timeout,
            },
            troubles: Mutex::default(),
        }
    }

    /// Returns the current targets; if there are too many, the same ones in every scrape.
    fn targets(&self) -> Vec<ScrapeTarget> {
        const WHO: &str = "proxies";
        let mut targets = self.targets.now();
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        if targets.len() > STATS_MAX {
            let error = format_args!("{} are there", targets.len());
            let fallback = format!("the first {STATS_MAX} by name are looked at");
            troubles.failed(WHO, &error, &fallback);
            targets.truncate(STATS_MAX);
        } else {
            troubles.went_well(WHO);
        }
        targets
    }
}

impl ProxyScraper {
    async fn scrape(self, target: ScrapeTarget) -> Scrape {
        let body = tokio::time::timeout(self.timeout, fetch(&self.http, target.url));
        let counts = match body.await {
            Ok(text) => text.map(|text| counts(&text, &self.stages)),
            Err(_) => Err(ScrapeError::Timeout(self.timeout)),
        };
        Scrape {
            from: target.name,
            at: self.clock.now().at,
            counts,
        }
    }
}

impl Observe for Scraper {
    async fn scrape(&self) -> Vec<Scrape> {
        let start = |target: ScrapeTarget| {
            let from = Arc::clone(&target.name);
            (
                from,
                tokio::spawn(self.proxy_scraper.clone().scrape(target)),
            )
        };
        let started: Vec<_> = self.targets().into_iter().map(start).collect();
        let mut scrapes = Vec::with_capacity(started.len());
        for (from, scrape) in started {
            scrapes.push(scrape.await.unwrap_or_else(|error| Scrape {
                from,
                at: self.proxy_scraper.clock.now().at,
                counts: Err(ScrapeError::Unreachable(error.to_string())),
            }));
        }
        scrapes
    }
}

async fn fetch(http: &reqwest::Client, url: reqwest::Url) -> Result<String, ScrapeError> {
    let unreachable = |error: reqwest::Error| ScrapeError::Unreachable(reason(&error));
    let mut answer = http.get(url).send().await.map_err(unreachable)?;
    if answer.status() != reqwest::StatusCode::OK {
        return Err(ScrapeError::Status(answer.status().as_u16()));
    }
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(unreachable)? {
        if body.len() + chunk.len() > SCRAPE_BYTES_MAX {
            return Err(ScrapeError::TooLarge);
        }
        body.extend_from_slice(&chunk);
    }
    String::from_utf8(body).map_err(|_| ScrapeError::NotText)
}

/// Returns the innermost cause, without the address, which the log line names already.
fn reason(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;

    #[tokio::test]
    async fn unreadable_statistics_are_an_error_and_never_zero() {
        use axum::http::StatusCode;
        use axum::routing::get;
        let router = axum::Router::new()
            .route(
                "/good",
                get(|| async { "weir_arrivals_total__service__demo{} 7\n" }),
            )
            .route("/fresh", get(|| async { "" }))
            .route(
                "/failing",
                get(|| async { StatusCode::SERVICE_UNAVAILABLE }),
            )
            .route("/vast", get(|| async { "#".repeat(SCRAPE_BYTES_MAX + 1) }))
            .route("/binary", get(|| async { vec![0xff; 3] }))
            .route("/silent", get(std::future::pending::<&str>));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let paths = ["silent", "good", "fresh", "failing", "vast", "binary"];
        let urls = paths.map(|path| format!("http://{address}/{path}"));
        let targets = ScrapeTargets::Fixed(urls.clone().map(|url| url.parse().unwrap()).into());
        let timeout = Duration::from_millis(500);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let scraper = Scraper::new(http, Clock::start(), &["demo"], targets, timeout);
        let scrapes = scraper.scrape().await.into_iter();
        let mut arrivals: BTreeMap<Arc<str>, _> = scrapes
            .map(|scrape| (scrape.from, scrape.counts.map(|counts| counts.arrivals)))
            .collect();
        let expected = [
            Err(ScrapeError::Timeout(timeout)),
            Ok(7.0),
            Ok(0.0),
            Err(ScrapeError::Status(503)),
            Err(ScrapeError::TooLarge),
            Err(ScrapeError::NotText),
        ];
        for (url, expected) in urls.iter().zip(expected) {
            assert_eq!(arrivals.remove(&**url), Some(expected), "{url}");
        }
        assert!(arrivals.is_empty());
    }

    #[tokio::test]
    async fn too_many_proxies_are_truncated_by_name_and_reported() {
        let url: reqwest::Url = "http://127.0.0.1:1/stats".parse().unwrap();
        let list = |count: usize| -> Arc<[ScrapeTarget]> {
            let target = |index: usize| ScrapeTarget {
                name: format!("proxy-{index:03}").into(),
                url: url.clone(),
            };
            (0..count).rev().map(target).collect()
        };
        let (send, latest) = tokio::sync::watch::channel(list(1));
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let (targets, timeout) = (ScrapeTargets::Moving(latest), Duration::from_secs(10));
        let scraper = Scraper::new(http, Clock::start(), &["demo"], targets, timeout);
        for (count, reported) in [
            (1, None),
            (STATS_MAX + 2, Some(1)),
            (STATS_MAX + 1, Some(2)),
            (STATS_MAX, None),
            (0, None),
        ] {
            send.send(list(count)).unwrap();
            let scraped: BTreeSet<_> = scraper.scrape().await.into_iter().map(|s| s.from).collect();
            let first = list(count.min(STATS_MAX))
                .iter()
                .map(|t| Arc::clone(&t.name))
                .collect();
            assert_eq!(scraped, first, "{count}");
            assert_eq!(
                scraper.troubles.lock().unwrap().count("proxies"),
                reported,
                "{count}"
            );
        }
    }
}
