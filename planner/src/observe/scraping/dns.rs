//! Proxies of a DNS name: it is resolved again and again, and each of its addresses is a proxy. A failed or empty answer
//! keeps the last addresses, and is logged and reported; it never reads as no proxy.
//!
//! Only the IPv4 addresses of a name that has IPv6 ones too are taken: a pod with both would be scraped twice.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::{sleep, timeout};

use super::ScrapeTarget;
use crate::clock::Clock;
use crate::error_log::ErrorLog;
use crate::service::ProxyDns;

/// Time after which a lookup that has not ended counts as failed. No other begins before it has ended.
pub const DNS_LOOKUP_MAX: Duration = Duration::from_secs(5);
/// Time for which lookups have failed after which the proxies count as not observed.
pub const DNS_STALE_AFTER: Duration = Duration::from_secs(60);

/// Reason why a lookup gave no addresses.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
enum LookupError {
    #[error("{0}")]
    Failed(String),
    #[error("it has no address")]
    Empty,
    #[error("no answer within {DNS_LOOKUP_MAX:?}")]
    Timeout,
}

/// Addresses found by a lookup.
type Lookup = Result<Vec<IpAddr>, LookupError>;

/// Addresses of a DNS name, followed until dropped.
#[derive(Debug)]
pub struct DnsWatch {
    targets: watch::Receiver<Arc<[ScrapeTarget]>>,
    failure: watch::Receiver<Option<Failure>>,
    clock: Clock,
    task: AbortHandle,
}

/// Failure of the latest lookups.
#[derive(Debug, Clone, PartialEq)]
struct Failure {
    since: Duration,
    why: String,
    /// Whether an earlier lookup found addresses.
    has_targets: bool,
}

/// Ends of the channels to a [`DnsWatch`].
struct Follower {
    dns: ProxyDns,
    clock: Clock,
    targets: watch::Sender<Arc<[ScrapeTarget]>>,
    failure: watch::Sender<Option<Failure>>,
    log: ErrorLog,
}

impl DnsWatch {
    /// Follows a name by the resolver of this machine.
    pub fn new(dns: ProxyDns, clock: Clock) -> DnsWatch {
        DnsWatch::with(dns, clock, |name, port| Box::pin(resolve(name, port)))
    }

    fn with(
        dns: ProxyDns,
        clock: Clock,
        resolve: impl Fn(String, u16) -> BoxFuture<'static, Lookup> + Send + 'static,
    ) -> DnsWatch {
        let unknown = Failure {
            since: clock.now().at,
            why: format!("proxies.dns: {} is not resolved yet", dns.name),
            has_targets: false,
        };
        let (targets_sender, targets) = watch::channel(Arc::default());
        let (failure_sender, failure) = watch::channel(Some(unknown));
        let follower = Follower {
            dns,
            clock,
            targets: targets_sender,
            failure: failure_sender,
            log: ErrorLog::default(),
        };
        let task = tokio::spawn(follower.run(resolve)).abort_handle();
        DnsWatch {
            targets,
            failure,
            clock,
            task,
        }
    }

    /// Returns the proxies as resolved last.
    pub(super) fn targets(&self) -> Arc<[ScrapeTarget]> {
        self.targets.borrow().clone()
    }

    /// Returns why the proxies may be outdated, or are not known.
    pub fn trouble(&self) -> Option<String> {
        self.failure
            .borrow()
            .as_ref()
            .map(|failure| failure.why.clone())
    }

    /// Returns why the proxies are not known, if the name has never been resolved.
    pub fn failure(&self) -> Option<String> {
        let failure = self.failure.borrow();
        let failure = failure.as_ref().filter(|failure| !failure.has_targets);
        failure.map(|failure| failure.why.clone())
    }

    /// Returns why the proxies may be outdated, if lookups have failed for [`DNS_STALE_AFTER`].
    pub fn stale(&self) -> Option<String> {
        let now = self.clock.now().at;
        let failure = self.failure.borrow();
        let is_old = |one: &&Failure| now.saturating_sub(one.since) >= DNS_STALE_AFTER;
        let failure = failure.as_ref().filter(is_old);
        failure.map(|failure| failure.why.clone())
    }
}

impl Drop for DnsWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Follower {
    async fn run(mut self, resolve: impl Fn(String, u16) -> BoxFuture<'static, Lookup>) {
        loop {
            let mut lookup = resolve(self.dns.name.clone(), self.dns.port);
            let found = match timeout(DNS_LOOKUP_MAX, &mut lookup).await {
                Ok(found) => found,
                Err(_) => {
                    self.take(Err(LookupError::Timeout));
                    // A lookup cannot be stopped: another one beside it would wait for the same servers.
                    lookup.await
                }
            };
            self.take(found);
            sleep(self.dns.interval).await;
        }
    }

    /// Takes the result of a lookup.
    fn take(&mut self, found: Lookup) {
        let name = &self.dns.name;
        let error = match found.and_then(|found| targets(&self.dns, &found)) {
            Ok(found) => {
                self.log.went_well(name);
                self.failure.send_replace(None);
                self.targets.send_if_modified(|before| {
                    let is_new = **before != *found;
                    if is_new {
                        *before = found.into();
                    }
                    is_new
                });
                return;
            }
            Err(error) => error,
        };
        let known = self.targets.borrow().len();
        let fallback = match known {
            0 => "no proxy is known yet".to_owned(),
            known => format!("its last addresses hold ({known})"),
        };
        self.log.failed(name, &error, &fallback);
        let now = self.clock.now().at;
        let why = format!("proxies.dns: {name} is not resolved: {error}; {fallback}");
        self.failure.send_modify(|before| {
            let since = before.as_ref().map_or(now, |before| before.since);
            let has_targets = known > 0;
            *before = Some(Failure {
                since,
                why,
                has_targets,
            });
        });
    }
}

/// Returns the proxies at these addresses, each once and by address. If there are too many of them, the scraper decides.
fn targets(dns: &ProxyDns, found: &[IpAddr]) -> Result<Vec<ScrapeTarget>, LookupError> {
    let has_v4 = found.iter().any(IpAddr::is_ipv4);
    let found: BTreeSet<&IpAddr> = found.iter().filter(|ip| ip.is_ipv4() == has_v4).collect();
    let target = |ip: &&IpAddr| -> Option<ScrapeTarget> {
        let address = SocketAddr::new(**ip, dns.port);
        let url: url::Url = format!("http://{address}{}", dns.path).parse().ok()?;
        let name = url.as_str().into();
        Some(ScrapeTarget { name, url })
    };
    let targets: Vec<ScrapeTarget> = found.iter().filter_map(target).collect();
    match targets.is_empty() {
        true => Err(LookupError::Empty),
        false => Ok(targets),
    }
}

/// Resolves a name by this machine's resolver.
async fn resolve(name: String, port: u16) -> Lookup {
    let found = tokio::net::lookup_host((name, port)).await;
    let found = found.map_err(|error| LookupError::Failed(error.to_string()))?;
    Ok(found.map(|address| address.ip()).collect())
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::observe::{Arrivals, Observe, ScrapeTargets, Scraper, Span};

    fn dns(name: &str) -> ProxyDns {
        ProxyDns {
            name: name.to_owned(),
            port: 9901,
            path: "/stats".to_owned(),
            interval: Duration::from_secs(5),
        }
    }

    fn ips(words: &str) -> Vec<IpAddr> {
        let words = words.split_whitespace();
        words.map(|word| word.parse().unwrap()).collect()
    }

    /// Addresses that are scraped, without what is the same in all.
    fn addresses(targets: &[ScrapeTarget]) -> String {
        let one = |target: &ScrapeTarget| {
            assert_eq!(target.url.as_str(), &*target.name);
            let place = target.name.strip_prefix("http://").unwrap();
            place.strip_suffix(":9901/stats").unwrap().to_owned()
        };
        targets.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_address_of_one_family_is_a_proxy() {
        for (found, expected) in [
            ("10.0.0.2 10.0.0.1", "10.0.0.1 10.0.0.2"),
            ("10.0.0.1 10.0.0.1", "10.0.0.1"),
            ("fd00::2 fd00::1", "[fd00::1] [fd00::2]"),
            ("fd00::1 10.0.0.9 fd00::2 10.0.0.8", "10.0.0.8 10.0.0.9"),
        ] {
            let targets = targets(&dns("envoy"), &ips(found)).unwrap();
            assert_eq!(addresses(&targets), expected, "{found}");
        }
        assert_eq!(targets(&dns("envoy"), &[]), Err(LookupError::Empty));
    }

    /// A watch whose lookups have these results, one after the other: addresses, `!` for a failure, or `?` for none
    /// within a minute. The last is repeated.
    fn watch(results: &[&'static str]) -> DnsWatch {
        let left = Mutex::new(results.iter().rev().copied().collect::<Vec<_>>());
        DnsWatch::with(dns("envoy"), Clock::start(), move |name, port| {
            assert_eq!((&*name, port), ("envoy", 9901));
            let mut left = left.lock().unwrap();
            let next = *left.last().unwrap();
            if left.len() > 1 {
                left.pop();
            }
            drop(left);
            Box::pin(async move {
                match next {
                    "!" => Err(LookupError::Failed("no such name".to_owned())),
                    "?" => {
                        sleep(Duration::from_secs(60)).await;
                        Ok(ips("10.0.0.7"))
                    }
                    found => Ok(ips(found)),
                }
            })
        })
    }

    #[tokio::test(start_paused = true)]
    async fn failed_and_empty_answers_keep_the_last_addresses() {
        let watch = watch(&[
            "!",
            "",
            "10.0.0.1",
            "!",
            "",
            "10.0.0.1 10.0.0.2",
            "?",
            "10.0.0.3",
        ]);
        let holds = "proxies.dns: envoy is not resolved: ";
        let rows = [
            (0, "", Some("no such name; no proxy is known yet")),
            (5, "", Some("it has no address; no proxy is known yet")),
            (10, "10.0.0.1", None),
            (
                15,
                "10.0.0.1",
                Some("no such name; its last addresses hold (1)"),
            ),
            (
                20,
                "10.0.0.1",
                Some("it has no address; its last addresses hold (1)"),
            ),
            (25, "10.0.0.1 10.0.0.2", None),
            (34, "10.0.0.1 10.0.0.2", None),
            (
                36,
                "10.0.0.1 10.0.0.2",
                Some("no answer within 5s; its last addresses hold (2)"),
            ),
            (91, "10.0.0.7", None),
            (96, "10.0.0.3", None),
        ];
        for (second, expected, trouble) in rows {
            let since = watch.clock.now().at;
            // Just after the lookup.
            sleep(Duration::from_millis(1000 * second + 100) - since).await;
            assert_eq!(addresses(&watch.targets()), expected, "{second} s");
            let trouble = trouble.map(|trouble| format!("{holds}{trouble}"));
            assert_eq!(watch.trouble(), trouble, "{second} s");
            let unknown = trouble.filter(|_| expected.is_empty());
            assert_eq!(watch.failure(), unknown, "{second} s");
            assert_eq!(watch.stale(), None, "{second} s");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn name_that_is_not_resolved_is_no_load_of_zero() {
        let watch = Arc::new(watch(&["!"]));
        let fetches = crate::observe::Fetches::new(reqwest::Client::new(), watch.clock);
        let second = Duration::from_secs(1);
        let targets = ScrapeTargets::Named(Arc::clone(&watch));
        let scraper = Scraper::sharing(&fetches, &["demo"], targets, second, second);
        let not_yet = "proxies.dns: envoy is not resolved yet";
        assert_eq!(scraper.trouble().unwrap(), not_yet);
        let mut arrivals = Arrivals::new();
        for tick in 0..70 {
            sleep(second).await;
            let scrapes = scraper.scrape().await;
            let seen = arrivals.observe(second * tick, &scrapes, Span::Cycle);
            assert_eq!((seen.measured, seen.answered, seen.lost), (None, 0, 0));
            assert_eq!(watch.stale().is_some(), tick >= 59, "{tick}");
        }
        assert!(scraper.trouble().unwrap().contains("no such name"));
    }

    #[tokio::test]
    async fn localhost_is_resolved() {
        let watch = DnsWatch::new(dns("localhost"), Clock::start());
        let mut targets = watch.targets.clone();
        let found = targets.wait_for(|targets| !targets.is_empty()).await;
        let found = addresses(&found.unwrap());
        assert!(["127.0.0.1", "[::1]"].contains(&&*found), "{found}");
        assert_eq!(watch.trouble(), None);
    }
}
