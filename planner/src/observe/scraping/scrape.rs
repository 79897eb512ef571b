//! Scrapes the proxies of one service: the counts of its stages at each, by fetches that all services share. Number and
//! time are limited. Unreadable statistics are an error, never a zero.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, timeout_at};
use url::Url;

use super::dns::DnsWatch;
use super::fetches::{Answer, Fetches, Pending, Proxy, Reader};
use super::{ScrapeTarget, ScrapeTargets};
use crate::clock::Clock;
use crate::error_log::ErrorLog;
use crate::observe::{Observe, Scrape, ScrapeError, WITHOUT_WEIR_AFTER};
use crate::service::STATS_MAX;

/// Scraper of one service's proxies.
#[derive(Debug)]
pub struct Scraper {
    targets: ScrapeTargets,
    fetches: Fetches,
    reader: Reader,
    /// Maximum age of an answer that another service fetched.
    age_max: Duration,
    timeout: Duration,
    proxies: Mutex<BTreeMap<Url, Known>>,
    troubles: Mutex<ErrorLog>,
}

/// Proxy that is scraped.
#[derive(Debug)]
struct Known {
    proxy: Arc<Proxy>,
    /// Time of the latest answer that was taken.
    latest: Option<Duration>,
    /// Whether an answer had metrics of a filter.
    had_metrics: bool,
    /// Time of the first answer without them, of those since the latest with them.
    without_since: Option<Duration>,
}

impl Scraper {
    /// Scrapes `targets` for the counts of these stages' services, the entry stage first, without other services.
    pub fn new(
        http: reqwest::Client,
        clock: Clock,
        stages: &[&str],
        targets: ScrapeTargets,
        timeout: Duration,
    ) -> Scraper {
        let fetches = Fetches::new(http, clock);
        Scraper::sharing(&fetches, stages, targets, Duration::ZERO, timeout)
    }

    /// Scrapes `targets` for the counts of these stages' services, the entry stage first. Answers that were fetched for
    /// other services are taken if they are at most `age_max` old.
    pub fn sharing(
        fetches: &Fetches,
        stages: &[&str],
        targets: ScrapeTargets,
        age_max: Duration,
        timeout: Duration,
    ) -> Scraper {
        let stages = stages.iter().map(|name| (*name).to_owned()).collect();
        Scraper {
            targets,
            fetches: fetches.clone(),
            reader: fetches.reader(stages),
            age_max,
            timeout,
            proxies: Mutex::default(),
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

    /// Takes or begins the fetch of each target.
    fn begin(&self, targets: &[ScrapeTarget]) -> Vec<Pending> {
        let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        let mut before = std::mem::take(&mut *proxies);
        let one = |target: &ScrapeTarget| {
            let url = &target.url;
            let known = before.remove(url).unwrap_or_else(|| Known {
                proxy: self.fetches.proxy(url),
                latest: None,
                had_metrics: false,
                without_since: None,
            });
            let pending = self
                .reader
                .fetch(url, &known.proxy, known.latest, self.age_max);
            proxies.insert(url.clone(), known);
            pending
        };
        targets.iter().map(one).collect()
    }

    /// Returns the scrape of a target with this result, and remembers the answer as taken.
    fn scraped(&self, target: ScrapeTarget, result: Result<Arc<Answer>, ScrapeError>) -> Scrape {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => {
                return Scrape {
                    from: target.name,
                    at: self.fetches.now(),
                    counts: Err(error),
                };
            }
        };
        let mut proxies = self.proxies.lock().unwrap_or_else(PoisonError::into_inner);
        let known = proxies.get_mut(&target.url);
        let taken = known.map_or(Ok(()), |known| known.take(&answer));
        let counts = answer.folded.of(self.reader.stages());
        let counts = counts.ok_or(ScrapeError::NotRead);
        Scrape {
            from: target.name,
            at: answer.at,
            counts: taken.and(counts),
        }
    }
}

impl Known {
    /// Takes an answer.
    ///
    /// # Errors
    /// Fails if it has no metric of a filter, which has some as soon as it runs, before its first request. Without any,
    /// the proxy has not loaded it yet, or has no filter: its requests are not counted, so they are unknown.
    fn take(&mut self, answer: &Answer) -> Result<(), ScrapeError> {
        self.latest = Some(answer.at);
        if answer.folded.has_metrics() {
            (self.had_metrics, self.without_since) = (true, None);
            return Ok(());
        }
        let since = *self.without_since.get_or_insert(answer.at);
        match answer.at.saturating_sub(since) {
            lasts if lasts >= WITHOUT_WEIR_AFTER => Err(ScrapeError::WithoutWeir),
            _ if self.had_metrics => Err(ScrapeError::NoneLeft),
            _ => Err(ScrapeError::NoneYet),
        }
    }
}

impl Scraper {
    /// Returns the watch of the proxies' DNS name, if they have one.
    pub fn names(&self) -> Option<&DnsWatch> {
        self.targets.names()
    }
}

impl Observe for Scraper {
    fn trouble(&self) -> Option<String> {
        self.names()?.trouble()
    }

    async fn scrape(&self) -> Vec<Scrape> {
        let deadline = Instant::now() + self.timeout;
        let targets = self.targets();
        let pending = self.begin(&targets);
        let mut scrapes = Vec::with_capacity(targets.len());
        for (target, pending) in targets.into_iter().zip(pending) {
            let result = match pending {
                Pending::Ready(answer) => Ok(answer),
                Pending::Running(fetch) => timeout_at(deadline, fetch.result())
                    .await
                    .unwrap_or(Err(ScrapeError::Timeout(self.timeout))),
            };
            scrapes.push(self.scraped(target, result));
        }
        scrapes
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::observe::{LINE_BYTES_MAX, SCRAPE_BYTES_MAX};

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
            .route(
                "/vast",
                get(|| async { format!("{:1023}\n", "#").repeat(SCRAPE_BYTES_MAX / 1024 + 1) }),
            )
            .route("/long", get(|| async { "#".repeat(LINE_BYTES_MAX + 1) }))
            .route("/binary", get(|| async { b"\xff\n".to_vec() }))
            .route("/page", get(|| async { "<!doctype html>\n" }))
            .route("/silent", get(std::future::pending::<&str>));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let paths = [
            "silent", "good", "fresh", "failing", "vast", "long", "binary", "page",
        ];
        let urls = paths.map(|path| format!("http://{address}/{path}"));
        let targets = ScrapeTargets::Fixed(urls.clone().map(|url| url.parse().unwrap()).into());
        let timeout = Duration::from_secs(3);
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let scraper = Scraper::new(http, Clock::start(), &["demo"], targets, timeout);
        let scrapes = scraper.scrape().await.into_iter();
        let mut arrivals: BTreeMap<Arc<str>, _> = scrapes
            .map(|scrape| (scrape.from, scrape.counts.map(|counts| counts.arrivals)))
            .collect();
        let expected = [
            Err(ScrapeError::Timeout(timeout)),
            Ok(7.0),
            Err(ScrapeError::NoneYet),
            Err(ScrapeError::Status(503)),
            Err(ScrapeError::TooLarge),
            Err(ScrapeError::LongLine),
            Err(ScrapeError::NotText),
            Err(ScrapeError::NotSeries("<!doctype html>".to_owned())),
        ];
        for (url, expected) in urls.iter().zip(expected) {
            assert_eq!(arrivals.remove(&**url), Some(expected), "{url}");
        }
        assert!(arrivals.is_empty());
    }

    #[tokio::test]
    async fn answer_without_any_metric_is_an_error() {
        use axum::routing::get;
        let texts = [
            "",
            "envoy_a{} 1\n",
            "weir_slots{} 0\n",
            "",
            "envoy_a{} 1\n",
            "weir_arrivals_total{service=\"demo\"} 7\n",
        ];
        let next = std::sync::atomic::AtomicUsize::new(0);
        let next = Arc::new(next);
        let answer = move || {
            let at = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            std::future::ready(texts[at])
        };
        let router = axum::Router::new().route("/stats", get(answer));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/stats", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let targets = ScrapeTargets::Fixed([url.parse().unwrap()].into());
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let timeout = Duration::from_secs(3);
        let scraper = Scraper::new(http, Clock::start(), &["demo"], targets, timeout);
        let (none_yet, none_left) = (Err(ScrapeError::NoneYet), Err(ScrapeError::NoneLeft));
        // A proxy that has just started has none until it has loaded the filter.
        let expected = [
            none_yet.clone(),
            none_yet,
            Ok(0.0),
            none_left.clone(),
            none_left,
            Ok(7.0),
        ];
        for (at, expected) in expected.into_iter().enumerate() {
            let [scrape] = scraper.scrape().await.try_into().unwrap();
            assert_eq!(
                scrape.counts.map(|counts| counts.arrivals),
                expected,
                "{at}"
            );
        }
    }

    #[tokio::test]
    async fn too_many_proxies_are_truncated_by_name_and_reported() {
        let url: url::Url = "http://127.0.0.1:1/stats".parse().unwrap();
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
