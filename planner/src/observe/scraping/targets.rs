//! Proxies to scrape: a fixed list, one updated by a watch, or the addresses of a name. Only lists them, does not scrape.

use std::sync::Arc;

use tokio::sync::watch;

use super::dns::DnsWatch;
use crate::clock::Clock;
use crate::service::Service;

/// Proxy that can be scraped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScrapeTarget {
    /// Name under which its counters continue, even if its address changes.
    pub name: Arc<str>,
    /// Address of its statistics. Must be unique: a proxy counted twice would be planned for twice.
    pub url: url::Url,
}

/// Source of a scraper's proxies.
#[derive(Debug, Clone)]
pub enum ScrapeTargets {
    /// Proxies of a service file, named by their addresses.
    Fixed(Vec<url::Url>),
    /// Latest list, still valid after its sender has ended.
    Moving(watch::Receiver<Arc<[ScrapeTarget]>>),
    /// Addresses of a DNS name, as resolved last.
    Named(Arc<DnsWatch>),
}

impl ScrapeTargets {
    /// Returns the proxies of a service that are not found by their pods.
    pub fn of(service: &Service, clock: Clock) -> ScrapeTargets {
        match &service.proxy_dns {
            Some(dns) => ScrapeTargets::Named(Arc::new(DnsWatch::new(dns.clone(), clock))),
            None => ScrapeTargets::Fixed(service.stats.clone()),
        }
    }

    /// Returns the DNS name's watch, if there is one.
    pub(super) fn names(&self) -> Option<&DnsWatch> {
        match self {
            ScrapeTargets::Named(names) => Some(names),
            ScrapeTargets::Fixed(_) | ScrapeTargets::Moving(_) => None,
        }
    }

    /// Returns the current proxies, sorted by name, each name once.
    pub(super) fn now(&self) -> Vec<ScrapeTarget> {
        let mut targets: Vec<ScrapeTarget> = match self {
            ScrapeTargets::Fixed(urls) => urls.iter().map(named_by_address).collect(),
            ScrapeTargets::Moving(latest) => latest.borrow().to_vec(),
            ScrapeTargets::Named(names) => names.targets().to_vec(),
        };
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        targets.dedup_by(|a, b| a.name == b.name);
        targets
    }
}

fn named_by_address(url: &url::Url) -> ScrapeTarget {
    ScrapeTarget {
        name: url.as_str().into(),
        url: url.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(targets: &ScrapeTargets) -> Vec<Arc<str>> {
        let now = targets.now().into_iter();
        now.map(|target| target.name).collect()
    }

    #[test]
    fn fixed_list_is_named_by_addresses() {
        let urls = ["http://b/stats", "http://a:9901/stats"];
        let urls: Vec<url::Url> = urls.map(|url| url.parse().unwrap()).into();
        let targets = ScrapeTargets::Fixed(urls.clone());
        assert_eq!(
            names(&targets).iter().map(|n| &**n).collect::<Vec<_>>(),
            ["http://a:9901/stats", "http://b/stats"]
        );
        assert_eq!(targets.now()[1].url, urls[0]);
    }

    #[test]
    fn moving_list_is_latest_by_name_and_outlives_its_sender() {
        let target = |name: &str, url: &str| ScrapeTarget {
            name: name.into(),
            url: url.parse().unwrap(),
        };
        let (send, latest) = watch::channel(Arc::from([]));
        let targets = ScrapeTargets::Moving(latest);
        assert!(names(&targets).is_empty());
        let (b, a) = (target("b", "http://10.0.0.2/"), target("a", "http://z/"));
        let twice = target("b", "http://10.0.0.9/");
        send.send(Arc::from([b.clone(), a.clone(), twice])).unwrap();
        assert_eq!(targets.now(), [a, b.clone()]);
        send.send(Arc::from([b.clone()])).unwrap();
        drop(send);
        assert_eq!(targets.now(), [b]);
    }
}
