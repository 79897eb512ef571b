//! Counters of a proxy since its start, as its statistics report them. They sum the engines' samples
//! and add nothing.

use std::collections::BTreeMap;
use std::rc::Rc;

use weir_api::metrics::Metric;
use weir_filter::routing::group_report::GroupId;
use weir_filter::stats::{Change, Label, Sample};
use weir_filter::variant::VariantId;

use weir_planner::observe::slack::{Buckets, EDGES_MS};
use weir_planner::observe::{
    ByGroup, ByVariant, Counts, Executions, FullTime, FullTimes, Outcomes, add_group,
};

/// Counters of one proxy, over its workers.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    arrivals: u64,
    /// Requests by remaining time: bucket i holds those at most [`EDGES_MS`]\[i\] and above the edge
    /// before; the last bucket holds those above all edges.
    slacks: [u64; EDGES_MS.len() + 1],
    executions: ByVariant,
    /// Times with all slots taken.
    full: FullTimes,
    groups: ByGroup,
    /// Arrivals by the least accurate variant that has the accuracy they require.
    accuracies: BTreeMap<String, f64>,
    /// Ends of requests, without histograms.
    outcomes: Outcomes,
}

impl Tally {
    /// Counters of a proxy that has just started.
    pub(crate) const NEW: Tally = Tally {
        arrivals: 0,
        slacks: [0; EDGES_MS.len() + 1],
        executions: ByVariant::new(),
        full: FullTimes::new(),
        groups: ByGroup::new(),
        accuracies: BTreeMap::new(),
        outcomes: Outcomes::NONE,
    };

    /// Requests that have arrived.
    pub(crate) fn arrivals(&self) -> u64 {
        self.arrivals
    }

    /// Counts the arrival of a request at a proxy without the filter.
    pub(crate) fn arrive(&mut self) {
        self.arrivals += 1;
    }

    /// Adds an engine's samples; `name` knows its variants, `group` its groups.
    pub(super) fn add(
        &mut self,
        samples: &[Sample],
        name: impl Fn(VariantId) -> Option<Rc<str>>,
        group: impl Fn(GroupId) -> Option<String>,
    ) {
        for sample in samples {
            match (sample.metric, sample.change) {
                (Metric::Arrivals, _) => self.arrive(),
                (Metric::AccuracyArrivals, _) => self.require(sample.label, &name),
                (Metric::DemandSlackMs, Change::Value(left_ms)) => {
                    let at = EDGES_MS.partition_point(|edge| u64::from(*edge) < left_ms);
                    if let Some(slack) = self.slacks.get_mut(at) {
                        *slack += 1;
                    }
                }
                (
                    Metric::ServiceMs | Metric::CutOffMs | Metric::BatchRequests,
                    Change::Value(value),
                ) => {
                    let executions = self.executions_of(sample.label, &name);
                    execute(executions, sample.metric, value as f64);
                }
                (Metric::FullUs | Metric::FullExecutions, Change::By(count)) => {
                    self.count_full(sample.metric, sample.label, count as f64, &name);
                }
                (
                    Metric::Unservable
                    | Metric::Served
                    | Metric::OnTime
                    | Metric::Late
                    | Metric::Refused
                    | Metric::ClientDisconnects,
                    Change::By(count),
                ) => self.count(sample.metric, sample.label, count, &name),
                (metric, Change::By(count)) if metric.has_group() => {
                    self.count_group((metric, sample.label), count, &name, &group);
                }
                (Metric::HeldRequests, Change::To(held)) => self.outcomes.held = held as f64,
                _ => {}
            }
        }
    }

    /// Counts ends of requests.
    fn count(
        &mut self,
        metric: Metric,
        label: Label,
        count: i64,
        name: &impl Fn(VariantId) -> Option<Rc<str>>,
    ) {
        let variant = match label {
            Label::Variant(id) => name(id),
            _ => None,
        };
        let of = match (&variant, label) {
            (Some(name), _) => name,
            (None, Label::Reason(reason)) => reason.label(),
            (None, _) => "",
        };
        // All that are passed are read.
        let _ = self.outcomes.count(metric, of, count as f64);
    }

    /// Counts executions by group.
    fn count_group(
        &mut self,
        (metric, label): (Metric, Label),
        count: i64,
        name: &impl Fn(VariantId) -> Option<Rc<str>>,
        group: &impl Fn(GroupId) -> Option<String>,
    ) {
        if let Label::Group(id, of) = label
            && let Some((variant, group)) = name(id).zip(group(of))
        {
            add_group(&mut self.groups, metric, &variant, &group, count as f64);
        }
    }

    fn require(&mut self, label: Label, name: &impl Fn(VariantId) -> Option<Rc<str>>) {
        let Label::Variant(id) = label else {
            return;
        };
        let Some(name) = name(id) else {
            return;
        };
        match self.accuracies.get_mut(&*name) {
            Some(count) => *count += 1.0,
            None => {
                self.accuracies.insert(name.to_string(), 1.0);
            }
        }
    }

    /// Counts time with all slots taken, or the executions that ended in it.
    fn count_full(
        &mut self,
        metric: Metric,
        label: Label,
        count: f64,
        name: &impl Fn(VariantId) -> Option<Rc<str>>,
    ) {
        let Label::Variant(id) = label else {
            return;
        };
        let Some(name) = name(id) else {
            return;
        };
        if !self.full.contains_key(&*name) {
            self.full.insert(name.to_string(), FullTime::default());
        }
        match (self.full.get_mut(&*name), metric) {
            (Some(full), Metric::FullUs) => full.us += count,
            (Some(full), _) => full.executions += count,
            (None, _) => {}
        }
    }

    fn executions_of(
        &mut self,
        label: Label,
        name: &impl Fn(VariantId) -> Option<Rc<str>>,
    ) -> Option<&mut Executions> {
        let Label::Variant(id) = label else {
            return None;
        };
        let name = name(id)?;
        if !self.executions.contains_key(&*name) {
            self.executions
                .insert(name.to_string(), Executions::default());
        }
        self.executions.get_mut(&*name)
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
            executions: self.executions.clone(),
            full: self.full.clone(),
            groups: self.groups.clone().into(),
            accuracies: self.accuracies.clone(),
            outcomes: self.outcomes.clone().into(),
            ..Counts::of_arrivals(self.arrivals as f64)
        }
    }
}

/// Adds a value of a histogram of executions.
fn execute(executions: Option<&mut Executions>, metric: Metric, value: f64) {
    let Some(executions) = executions else {
        return;
    };
    let (count, sum) = match metric {
        Metric::ServiceMs => (&mut executions.answered, &mut executions.total_ms),
        Metric::CutOffMs => (&mut executions.cut_off, &mut executions.cut_off_ms),
        _ => (&mut executions.batches, &mut executions.batched),
    };
    *count += 1.0;
    *sum += value;
}

#[cfg(test)]
mod tests {
    use weir_filter::reason::Reason;
    use weir_filter::stats::Stats;

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
        tally.add(&samples, |_| None, |_| None);
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

    #[test]
    fn ends_are_counted_by_variant_and_reason() {
        let mut stats = Stats::default();
        for (metric, label) in [
            (Metric::Served, Label::Variant(VariantId(0))),
            (Metric::OnTime, Label::Variant(VariantId(0))),
            (Metric::Refused, Label::Reason(Reason::QueueFull)),
            (Metric::Refused, Label::Reason(Reason::QueueFull)),
            (Metric::ClientDisconnects, Label::None),
        ] {
            stats.count(metric, label);
        }
        stats.set(Metric::HeldRequests, Label::None, 4);
        let mut samples = Vec::new();
        stats.swap(&mut samples);
        let mut tally = Tally::NEW;
        tally.add(&samples, |_| Some(Rc::from("a")), |_| None);
        let outcomes = tally.counts().outcomes;
        assert_eq!((outcomes.client_disconnects, outcomes.held), (1.0, 4.0));
        let a = &outcomes.variants["a"];
        assert_eq!((a.served, a.on_time, a.late), (1.0, 1.0, 0.0));
        let refused: Vec<_> = outcomes.refused.each().filter(|it| it.1 > 0.0).collect();
        assert_eq!(refused, [("queue-full", 2.0)]);
    }

    #[test]
    fn executions_are_counted_by_variant() {
        let mut stats = Stats::default();
        for (metric, variant, value) in [
            (Metric::ServiceMs, 0, 20),
            (Metric::ServiceMs, 0, 30),
            (Metric::BatchRequests, 0, 2),
            (Metric::ServiceMs, 1, 90),
            (Metric::CutOffMs, 1, 120),
            (Metric::ServiceMs, 2, 1),
        ] {
            stats.value(metric, Label::Variant(VariantId(variant)), value);
        }
        for (metric, value) in [(Metric::FullUs, 40_000), (Metric::FullExecutions, 2)] {
            stats.by(metric, Label::Variant(VariantId(0)), value);
        }
        let mut samples = Vec::new();
        stats.swap(&mut samples);
        let mut tally = Tally::NEW;
        let names = ["a", "b"];
        let name = |id: VariantId| names.get(usize::from(id.0)).map(|name| Rc::from(*name));
        tally.add(&samples, name, |_| None);
        let a = Executions {
            answered: 2.0,
            total_ms: 50.0,
            batches: 1.0,
            batched: 2.0,
            ..Executions::default()
        };
        let b = Executions {
            answered: 1.0,
            total_ms: 90.0,
            cut_off: 1.0,
            cut_off_ms: 120.0,
            ..Executions::default()
        };
        let expected = [("a".to_owned(), a), ("b".to_owned(), b)];
        assert_eq!(tally.counts().executions, expected.into());
        let full = FullTime {
            us: 40_000.0,
            executions: 2.0,
        };
        assert_eq!(tally.counts().full, [("a".to_owned(), full)].into());
    }
}
