//! Service times of each variant by group of requests between two cycles, over all proxies, by the sums that these
//! report. Pure: the time comes with the scrape.
//!
//! A new proxy begins with its first answer. A count that fell belongs to a restarted proxy and counts from 0. A proxy
//! that does not answer adds nothing, and what it counted meanwhile comes with its next answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_api::metrics::Metric;
use weir_api::moments::Moments;

use super::Scrape;
use super::counts::of;
use super::proxies::Proxies;

/// Maximum number of groups of a variant: 15 sizes and 8 classes. Further ones do not count.
const GROUPS_MAX: usize = 23;
/// Units of the sums that proxies report: thousandths, and millionths of squares.
const ONE: f64 = 1e3;

/// Ratios of service times to the planned ones, by variant and group: as proxies report them, or in ones.
pub type ByGroup = BTreeMap<String, BTreeMap<String, Moments>>;

/// Adds the value of a series to the sums of a proxy.
pub fn add(groups: &mut ByGroup, metric: Metric, variant: &str, group: &str, value: f64) {
    let Some(known) = of(groups, variant) else {
        return;
    };
    if known.len() >= GROUPS_MAX && !known.contains_key(group) {
        return;
    }
    let Some(sums) = of(known, group) else {
        return;
    };
    match metric {
        Metric::GroupExecutions => sums.count += value,
        Metric::GroupRatioPermille => sums.sum += value,
        _ => sums.squares += value,
    }
}

/// Adds the sums of another stage at the same proxy.
pub(super) fn add_stage(groups: &mut ByGroup, more: &ByGroup) {
    for (variant, more) in more {
        let known = groups.entry(variant.clone()).or_default();
        for (group, more) in more {
            let sums = known.entry(group.clone()).or_default();
            *sums = *sums + *more;
        }
    }
}

/// Returns the increase of one group's sums, in ones.
fn increase(now: Moments, before: Moments) -> Moments {
    let fell = now.count < before.count || now.sum < before.sum || now.squares < before.squares;
    let more = if fell { now } else { now - before };
    Moments {
        count: more.count,
        sum: more.sum / ONE,
        squares: more.squares / (ONE * ONE),
    }
}

/// Last sums of each proxy.
#[derive(Debug, Clone, Default)]
pub struct GroupCounts(Proxies<Arc<ByGroup>>);

impl GroupCounts {
    /// Returns the executions since the last call, in ones.
    pub fn observe(&mut self, at: Duration, scrapes: &[Scrape]) -> ByGroup {
        let mut new = ByGroup::new();
        self.0.observe(at, scrapes, |last, _, counts| {
            let each = last.iter().flat_map(|_| counts.groups.iter());
            for (variant, groups) in each {
                let before = last.and_then(|last| last.get(variant));
                for (group, sums) in groups {
                    let before = before.and_then(|before| before.get(group));
                    let more = increase(*sums, before.copied().unwrap_or_default());
                    if more.count <= 0.0 && more.sum <= 0.0 && more.squares <= 0.0 {
                        continue;
                    }
                    let sums = of(&mut new, variant).and_then(|known| of(known, group));
                    if let Some(sums) = sums {
                        *sums = *sums + more;
                    }
                }
            }
            Arc::clone(&counts.groups)
        });
        new
    }
}

/// Sums as a proxy reports them.
#[cfg(test)]
pub(crate) fn reported(sums: Moments) -> Moments {
    Moments {
        count: sums.count,
        sum: (sums.sum * ONE).round(),
        squares: (sums.squares * ONE * ONE).round(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Counts, ScrapeError};
    use super::*;

    /// That many executions of twice the planned time each.
    fn twice(count: f64) -> Moments {
        Moments::with(count, 2.0, 0.0)
    }

    fn scrape(from: &str, count: Option<f64>) -> Scrape {
        let counts = |count| {
            let groups = [("class-gold".to_owned(), reported(twice(count)))].into();
            Counts {
                groups: Arc::new([("a".to_owned(), groups)].into()),
                ..Counts::default()
            }
        };
        Scrape {
            from: from.into(),
            at: Duration::ZERO,
            counts: count.map(counts).ok_or(ScrapeError::Status(503)),
        }
    }

    #[test]
    fn increases_of_all_proxies_are_summed() {
        let mut counts = GroupCounts::default();
        for (second, (scrapes, expected)) in (0..).zip([
            // Counted before, at unknown times.
            (vec![("x", Some(900.0))], None),
            (vec![("x", Some(910.0))], Some(10.0)),
            (vec![("x", Some(915.0)), ("y", Some(500.0))], Some(5.0)),
            (vec![("x", None), ("y", Some(500.0))], None),
            // What the lost scrape missed comes with the next one; y has restarted.
            (vec![("x", Some(945.0)), ("y", Some(7.0))], Some(37.0)),
        ]) {
            let scrapes: Vec<Scrape> = scrapes
                .into_iter()
                .map(|(from, count)| scrape(from, count))
                .collect();
            let found = counts.observe(Duration::from_secs(second), &scrapes);
            let found = found.get("a").map(|groups| groups["class-gold"]);
            assert_eq!(found, expected.map(twice), "{second} s");
        }
    }

    #[test]
    fn group_of_a_known_proxy_counts_from_zero() {
        let mut counts = GroupCounts::default();
        let idle = Scrape {
            counts: Ok(Counts::default()),
            ..scrape("x", Some(0.0))
        };
        assert_eq!(counts.observe(Duration::ZERO, &[idle]), ByGroup::new());
        let found = counts.observe(Duration::from_secs(1), &[scrape("x", Some(4.0))]);
        assert_eq!(found["a"]["class-gold"], twice(4.0));
    }

    #[test]
    fn number_of_groups_is_bounded() {
        let mut groups = ByGroup::new();
        for index in 0..100 {
            let group = format!("size-{index}");
            add(&mut groups, Metric::GroupExecutions, "a", &group, 1.0);
        }
        assert_eq!(groups["a"].len(), GROUPS_MAX);
    }
}
