//! Growth of a filter's counters of arrivals, by class, and the records that it makes: as many arrivals in each span as
//! the counter grew by, at times by chance within it.

use std::collections::BTreeSet;

use weir_api::metrics::{Metric, decode};
use weir_sim::load::{CountedSpan, REQUESTS_MAX, spread};

/// Names of the counters that are read.
pub(super) const NAMES: &str = "weir_class_arrivals_total or weir_arrivals_total";
/// Maximum number of spans of which a counter's growth is kept.
const SPANS_MAX: usize = 4_000_000;

/// Counter of a service's arrivals: all of them, or those of a class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Counter {
    pub(super) service: String,
    pub(super) class: Option<String>,
}

impl Counter {
    /// Returns the counter of a series; `None` if it is another metric.
    pub(super) fn of<'a>(name: &str, label: impl Fn(&str) -> Option<&'a str>) -> Option<Counter> {
        let series = decode(name, label)?;
        let class = match series.metric {
            Metric::Arrivals => None,
            Metric::ClassArrivals => Some(series.value),
            _ => return None,
        };
        Some(Counter {
            service: series.service,
            class,
        })
    }
}

/// Returns the service of which counters are read.
///
/// # Errors
/// There is none, the one that was named is not among them, or there are several and none was named.
pub(super) fn service(known: &BTreeSet<String>, named: Option<&str>) -> Result<String, String> {
    let list = || known.iter().cloned().collect::<Vec<_>>().join(", ");
    match (named, known.first(), known.len()) {
        (_, None, _) => Err(format!("no series {NAMES}; has the filter seen a request?")),
        (Some(named), ..) if known.contains(named) => Ok(named.to_owned()),
        (Some(named), ..) => Err(format!("--service: {named}; it must be one of {}", list())),
        (None, Some(only), 1) => Ok(only.clone()),
        (None, ..) => Err(format!("--service: missing; it must be one of {}", list())),
    }
}

/// Growth of counters over spans of time, in µs since the epoch.
#[derive(Debug, Default)]
pub(super) struct Growth {
    spans: Vec<Span>,
    classes: Vec<Option<String>>,
    requests: u64,
}

#[derive(Debug, Clone, Copy)]
struct Span {
    from_us: i64,
    to_us: i64,
    count: u64,
    class: usize,
}

/// Arrivals in the order of their times.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// Time in µs since the epoch, and index of the class.
    pub(super) times: Vec<(i64, usize)>,
    /// Names of the classes; `None` for requests of which no class is known.
    pub(super) classes: Vec<Option<String>>,
    /// Begin of the first span.
    pub(super) begin_us: i64,
}

impl Growth {
    /// Adds the growth of a counter from one of its values to the next; a counter that fell belongs to a proxy that
    /// restarted.
    ///
    /// # Errors
    /// More spans or requests than there may be.
    pub(super) fn add(
        &mut self,
        class: Option<&str>,
        (from_us, to_us): (i64, i64),
        (before, now): (u64, u64),
    ) -> Result<(), String> {
        let count = if now < before { now } else { now - before };
        if self.spans.len() >= SPANS_MAX {
            return Err(format!(
                "more than {SPANS_MAX} values; record a shorter time"
            ));
        }
        let known = self
            .classes
            .iter()
            .position(|known| known.as_deref() == class);
        let class = known.unwrap_or_else(|| {
            self.classes.push(class.map(str::to_owned));
            self.classes.len() - 1
        });
        // All requests are counted once more by their classes.
        self.requests = self.requests.saturating_add(count);
        if self.requests > 2 * REQUESTS_MAX as u64 {
            return Err(format!(
                "more than {REQUESTS_MAX} requests; record a shorter time"
            ));
        }
        self.spans.push(Span {
            from_us,
            to_us,
            count,
            class,
        });
        Ok(())
    }

    /// Draws the arrivals. Where a class is known of any request, those are all: the counter of all requests counts them
    /// too.
    ///
    /// # Errors
    /// More requests than there may be.
    pub(super) fn arrivals(self, seed: u64) -> anyhow::Result<Arrivals> {
        let begin_us = self.spans.iter().map(|span| span.from_us).min();
        let begin_us = begin_us.unwrap_or_default();
        let since = |at: i64| u64::try_from(at - begin_us).unwrap_or_default();
        let whole = self.classes.iter().position(Option::is_none);
        let by_class = self.classes.iter().any(Option::is_some);
        let all = self.spans.iter();
        let counted = all.filter(|span| !by_class || Some(span.class) != whole);
        let spans: Vec<CountedSpan> = counted
            .map(|span| CountedSpan {
                from_us: since(span.from_us),
                to_us: since(span.to_us),
                count: span.count,
                kind: span.class,
            })
            .collect();
        let times = spread(&spans, seed)?.into_iter();
        let times = times.map(|(at, class)| (begin_us.saturating_add_unsigned(at), class));
        Ok(Arrivals {
            times: times.collect(),
            classes: self.classes,
            begin_us,
        })
    }
}

/// Value of a counter as a whole number.
///
/// # Errors
/// Another value.
pub(super) fn whole(value: f64) -> Result<u64, String> {
    // Above this, not every whole number is a value.
    const MOST: f64 = 9_007_199_254_740_992.0;
    if !(0.0..=MOST).contains(&value) || value.fract() != 0.0 {
        return Err(format!("{value}; it must be a whole number, 0 or more"));
    }
    Ok(value as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(arrivals: &Arrivals) -> Vec<(Option<&str>, usize)> {
        let classes = arrivals.classes.iter().enumerate();
        let counts = classes.map(|(index, class)| {
            let of = arrivals.times.iter().filter(|(_, class)| *class == index);
            (class.as_deref(), of.count())
        });
        counts.collect()
    }

    #[test]
    fn growth_becomes_arrivals_and_a_fall_is_a_restart() {
        let mut growth = Growth::default();
        growth
            .add(Some("gold"), (1_000_000, 2_000_000), (5, 9))
            .unwrap();
        growth
            .add(Some("bulk"), (1_000_000, 2_000_000), (0, 7))
            .unwrap();
        growth
            .add(Some("gold"), (2_000_000, 3_000_000), (9, 3))
            .unwrap();
        let arrivals = growth.arrivals(1).unwrap();
        assert_eq!(counts(&arrivals), [(Some("gold"), 7), (Some("bulk"), 7)]);
        assert_eq!(arrivals.begin_us, 1_000_000);
        let later = arrivals.times.iter().filter(|(at, _)| *at >= 2_000_000);
        assert_eq!(later.count(), 3);
    }

    #[test]
    fn requests_of_classes_are_not_counted_twice() {
        let mut growth = Growth::default();
        growth.add(None, (0, 10), (0, 12)).unwrap();
        let alone = growth.arrivals(1).unwrap();
        assert_eq!(counts(&alone), [(None, 12)]);
        let mut growth = Growth::default();
        growth.add(None, (0, 1000), (0, 12)).unwrap();
        growth.add(Some("gold"), (0, 1000), (0, 5)).unwrap();
        growth.add(Some("bulk"), (0, 1000), (0, 7)).unwrap();
        let both = growth.arrivals(1).unwrap();
        assert_eq!(
            counts(&both),
            [(None, 0), (Some("gold"), 5), (Some("bulk"), 7)]
        );
    }

    #[test]
    fn limits_are_named() {
        let mut growth = Growth::default();
        let refused = growth.add(None, (0, 1), (0, u64::MAX)).unwrap_err();
        assert!(refused.contains("more than 5000000 requests"), "{refused}");
        for (value, expected) in [(0.0, Some(0)), (1e3, Some(1000)), (0.5, None), (-1.0, None)] {
            assert_eq!(whole(value).ok(), expected, "{value}");
        }
        for value in [f64::NAN, f64::INFINITY, 1e16] {
            assert!(whole(value).is_err(), "{value}");
        }
    }

    #[test]
    fn service_is_the_named_or_the_only_one() {
        let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(service(&known(&["demo"]), None), Ok("demo".to_owned()));
        assert_eq!(service(&known(&["a", "b"]), Some("b")), Ok("b".to_owned()));
        for (names, named, part) in [
            (
                &["a", "b"][..],
                None,
                "--service: missing; it must be one of a, b",
            ),
            (
                &["a", "b"],
                Some("c"),
                "--service: c; it must be one of a, b",
            ),
            (&[], Some("a"), "no series weir_class_arrivals_total"),
        ] {
            let refused = service(&known(names), named).unwrap_err();
            assert!(refused.contains(part), "{refused}");
        }
    }
}
