//! Which proxies are looked at: a list that stands, or one that somebody moves who watches them come
//! and go. Says who they are; looks at none itself.

use std::sync::Arc;

use tokio::sync::watch;

/// A proxy that can be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// What it is known by: its counters go on under this name, whatever its address becomes.
    pub name: Arc<str>,
    /// Its statistics. No two proxies have the same: what is counted twice would be planned for twice.
    pub url: reqwest::Url,
}

/// Where a scraper finds its proxies.
#[derive(Debug, Clone)]
pub enum Targets {
    /// Those of a service file, named by their addresses.
    Fixed(Vec<reqwest::Url>),
    /// The latest list there is, also of a sender that has ended.
    Moving(watch::Receiver<Arc<[Target]>>),
}

impl Targets {
    /// Those of now in the order of their names, each name once.
    pub(super) fn now(&self) -> Vec<Target> {
        let mut targets: Vec<Target> = match self {
            Targets::Fixed(urls) => urls.iter().map(named_by_address).collect(),
            Targets::Moving(latest) => latest.borrow().to_vec(),
        };
        targets.sort_by(|a, b| a.name.cmp(&b.name));
        targets.dedup_by(|a, b| a.name == b.name);
        targets
    }
}

fn named_by_address(url: &reqwest::Url) -> Target {
    Target {
        name: url.as_str().into(),
        url: url.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(targets: &Targets) -> Vec<Arc<str>> {
        let now = targets.now().into_iter();
        now.map(|target| target.name).collect()
    }

    #[test]
    fn a_list_that_stands_is_named_by_its_addresses() {
        let urls = ["http://b/stats", "http://a:9901/stats"];
        let urls: Vec<reqwest::Url> = urls.map(|url| url.parse().unwrap()).into();
        let targets = Targets::Fixed(urls.clone());
        assert_eq!(
            names(&targets).iter().map(|n| &**n).collect::<Vec<_>>(),
            ["http://a:9901/stats", "http://b/stats"]
        );
        assert_eq!(targets.now()[1].url, urls[0]);
    }

    #[test]
    fn a_list_that_moves_is_the_latest_by_name_and_outlives_its_sender() {
        let target = |name: &str, url: &str| Target {
            name: name.into(),
            url: url.parse().unwrap(),
        };
        let (send, latest) = watch::channel(Arc::from([]));
        let targets = Targets::Moving(latest);
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
