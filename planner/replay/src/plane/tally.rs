//! Counters of a proxy since its start, as its statistics report them. They sum the engines' samples
//! and add nothing.

use weir_api::metrics::Metric;
use weir_filter::stats::{Change, Sample};

use weir_planner::observe::Counts;
use weir_planner::observe::slack::{Buckets, EDGES_MS};

/// Counters of one proxy, over its workers.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    arrivals: u64,
    /// Requests by remaining time: bucket i holds those at most [`EDGES_MS`]\[i\] and above the edge
    /// before; the last bucket holds those above all edges.
    slacks: [u64; EDGES_MS.len() + 1],
}

impl Tally {
    /// Counters of a proxy that has just started.
    pub(crate) const NEW: Tally = Tally {
        arrivals: 0,
        slacks: [0; EDGES_MS.len() + 1],
    };

    /// Counts the arrival of a request at a proxy without the filter.
    pub(crate) fn arrive(&mut self) {
        self.arrivals += 1;
    }

    /// Adds an engine's samples.
    pub(super) fn add(&mut self, samples: &[Sample]) {
        for sample in samples {
            match (sample.metric, sample.change) {
                (Metric::Arrivals, _) => self.arrive(),
                (Metric::DemandSlackMs, Change::Value(left_ms)) => {
                    let at = EDGES_MS.partition_point(|edge| u64::from(*edge) < left_ms);
                    if let Some(slack) = self.slacks.get_mut(at) {
                        *slack += 1;
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns the contents of a scrape. It leaves out routing counts and, as Envoy does, histograms without
    /// a value. Envoy shows histogram values only after a flush, up to a quarter of a second later.
    pub(crate) fn counts(&self) -> Counts {
        let mut sum = 0;
        let above = |edge: u32| f64::from(edge);
        let edges = EDGES_MS.into_iter().map(above).chain([f64::INFINITY]);
        let slack: Buckets = edges
            .zip(self.slacks)
            .map(|(edge, slack)| {
                sum += slack;
                (edge, sum as f64)
            })
            .collect();
        Counts {
            slack: if sum > 0 { slack } else { Buckets::new() },
            ..Counts::of_arrivals(self.arrivals as f64)
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_filter::stats::{Label, Stats};

    use super::*;

    #[test]
    fn slacks_are_counted_in_buckets_with_inclusive_upper_edges() {
        let mut tally = Tally::NEW;
        tally.arrive();
        assert_eq!(tally.counts(), Counts::of_arrivals(1.0));
        let mut stats = Stats::default();
        stats.count(Metric::Arrivals, Label::None);
        for left_ms in [0, 1, 2, 99, 100, 119, 9999, 10_000, u64::MAX] {
            stats.value(Metric::DemandSlackMs, Label::None, left_ms);
        }
        stats.value(Metric::WaitMs, Label::None, 1);
        let mut samples = Vec::new();
        stats.swap(&mut samples);
        tally.add(&samples);
        let counts = tally.counts();
        assert_eq!(counts.arrivals, 2.0);
        for (edge, expected) in [
            (1.0, 2.0),
            (2.0, 3.0),
            (75.0, 3.0),
            (99.0, 4.0),
            (119.0, 6.0),
            (6999.0, 6.0),
            (9999.0, 7.0),
            (f64::INFINITY, 9.0),
        ] {
            assert!(counts.slack.contains(&(edge, expected)), "{edge}");
        }
        assert_eq!(counts.slack.len(), EDGES_MS.len() + 1);
    }
}
