//! Counters of a proxy since its start, as its statistics report them. They sum the engines' samples
//! and add nothing.

use std::rc::Rc;

use weir_api::metrics::Metric;
use weir_filter::reason::Reason;
use weir_filter::routing::group_report::GroupId;
use weir_filter::stats::{Change, Label, Sample};
use weir_filter::variant::VariantId;

use weir_planner::observe::slack::{Buckets, EDGES_MS};
use weir_planner::observe::{
    ByGroup, Counts, Executions, FullTime, Outcomes, VariantOutcomes, add_group,
};

/// Counters of one proxy, over its workers.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    arrivals: u64,
    /// Requests by remaining time: bucket i holds those at most [`EDGES_MS`]\[i\] and above the edge
    /// before; the last bucket holds those above all edges.
    slacks: [u64; EDGES_MS.len() + 1],
    variants: Vec<OfVariant>,
    groups: ByGroup,
    unservable: f64,
    client_disconnects: f64,
    refused: Vec<(Reason, f64)>,
    held: f64,
}

/// Counters of one variant at one worker.
#[derive(Debug, Clone)]
struct OfVariant {
    /// The worker's own copy of the name, by which it is found: names need not be compared.
    name: Rc<str>,
    executions: Option<Executions>,
    /// Times with all slots taken.
    full: Option<FullTime>,
    /// Arrivals for which it is the least accurate variant that has the accuracy they require.
    arrivals: Option<f64>,
    /// Ends of requests, without histograms.
    outcomes: Option<VariantOutcomes>,
}

impl Tally {
    /// Counters of a proxy that has just started.
    pub(crate) const NEW: Tally = Tally {
        arrivals: 0,
        slacks: [0; EDGES_MS.len() + 1],
        variants: Vec::new(),
        groups: ByGroup::new(),
        unservable: 0.0,
        client_disconnects: 0.0,
        refused: Vec::new(),
        held: 0.0,
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
    pub(super) fn add<'a>(
        &mut self,
        samples: &[Sample],
        name: impl Fn(VariantId) -> Option<&'a Rc<str>>,
        group: impl Fn(GroupId) -> Option<String>,
    ) {
        for sample in samples {
            match (sample.label, sample.change) {
                (Label::Variant(id), change) => {
                    if is_counted(sample.metric)
                        && let Some(variant) = name(id).and_then(|name| self.of_variant(name))
                    {
                        variant.count(sample.metric, change);
                    }
                }
                (Label::Group(id, of), Change::By(count)) => {
                    if let Some((variant, group)) = name(id).zip(group(of)) {
                        let count = count as f64;
                        add_group(&mut self.groups, sample.metric, variant, &group, count);
                    }
                }
                (Label::Reason(reason), Change::By(count)) if sample.metric == Metric::Refused => {
                    self.refuse(reason, count as f64);
                }
                (Label::None, change) => self.count(sample.metric, change),
                _ => {}
            }
        }
    }

    /// Counts what has no label.
    fn count(&mut self, metric: Metric, change: Change) {
        match (metric, change) {
            (Metric::Arrivals, _) => self.arrive(),
            (Metric::DemandSlackMs, Change::Value(left_ms)) => {
                let at = EDGES_MS.partition_point(|edge| u64::from(*edge) < left_ms);
                if let Some(slack) = self.slacks.get_mut(at) {
                    *slack += 1;
                }
            }
            (Metric::Unservable, Change::By(count)) => self.unservable += count as f64,
            (Metric::ClientDisconnects, Change::By(count)) => {
                self.client_disconnects += count as f64;
            }
            (Metric::HeldRequests, Change::To(held)) => self.held = held as f64,
            _ => {}
        }
    }

    /// Counters of a variant at a worker, by the worker's copy of its name.
    fn of_variant(&mut self, name: &Rc<str>) -> Option<&mut OfVariant> {
        let mut known = self.variants.iter();
        let at = known.position(|variant| Rc::ptr_eq(&variant.name, name));
        let at = at.unwrap_or_else(|| {
            self.variants.push(OfVariant {
                name: Rc::clone(name),
                executions: None,
                full: None,
                arrivals: None,
                outcomes: None,
            });
            self.variants.len() - 1
        });
        self.variants.get_mut(at)
    }

    fn refuse(&mut self, reason: Reason, count: f64) {
        match self.refused.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, refused)) => *refused += count,
            None => self.refused.push((reason, count)),
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
        let mut counts = Counts {
            slack: if sum > 0 { slack } else { Buckets::new() },
            groups: self.groups.clone().into(),
            ..Counts::of_arrivals(self.arrivals as f64)
        };
        let mut outcomes = Outcomes {
            unservable: self.unservable,
            client_disconnects: self.client_disconnects,
            held: self.held,
            ..Outcomes::NONE
        };
        for (reason, refused) in &self.refused {
            *outcomes.refused.of(reason.label()) += refused;
        }
        for variant in &self.variants {
            variant.add_to(&mut counts, &mut outcomes);
        }
        counts.outcomes = outcomes.into();
        counts
    }
}

impl OfVariant {
    fn count(&mut self, metric: Metric, change: Change) {
        match change {
            Change::Value(value) => self.execute(metric, value as f64),
            Change::By(by) => self.increase(metric, by as f64),
            Change::To(_) => {}
        }
    }

    /// Adds a value of a histogram of executions.
    fn execute(&mut self, metric: Metric, value: f64) {
        let executions = self.executions.get_or_insert_default();
        let (count, sum) = match metric {
            Metric::ServiceMs => (&mut executions.answered, &mut executions.total_ms),
            Metric::CutOffMs => (&mut executions.cut_off, &mut executions.cut_off_ms),
            _ => (&mut executions.batches, &mut executions.batched),
        };
        *count += 1.0;
        *sum += value;
    }

    /// Adds to a counter.
    fn increase(&mut self, metric: Metric, by: f64) {
        *match metric {
            Metric::AccuracyArrivals => self.arrivals.get_or_insert_default(),
            Metric::FullUs => &mut self.full.get_or_insert_default().us,
            Metric::FullExecutions => &mut self.full.get_or_insert_default().executions,
            Metric::Served => &mut self.outcomes.get_or_insert_default().served,
            Metric::OnTime => &mut self.outcomes.get_or_insert_default().on_time,
            Metric::Late => &mut self.outcomes.get_or_insert_default().late,
            _ => return,
        } += by;
    }

    /// Adds it to the contents of a scrape, in which all workers are together.
    fn add_to(&self, counts: &mut Counts, outcomes: &mut Outcomes) {
        let name = || self.name.to_string();
        if let Some(more) = self.executions {
            counts.executions.entry(name()).or_default().add(more);
        }
        if let Some(more) = self.full {
            counts.full.entry(name()).or_default().add(more);
        }
        if let Some(more) = self.arrivals {
            *counts.accuracies.entry(name()).or_default() += more;
        }
        if let Some(more) = &self.outcomes {
            let all = outcomes.variants.entry(name()).or_default();
            all.served += more.served;
            all.on_time += more.on_time;
            all.late += more.late;
        }
    }
}

/// Whether it is counted by variant.
fn is_counted(metric: Metric) -> bool {
    matches!(
        metric,
        Metric::ServiceMs
            | Metric::CutOffMs
            | Metric::BatchRequests
            | Metric::AccuracyArrivals
            | Metric::FullUs
            | Metric::FullExecutions
            | Metric::Served
            | Metric::OnTime
            | Metric::Late
    )
}

#[cfg(test)]
mod tests {
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
        let a = Rc::from("a");
        tally.add(&samples, |_| Some(&a), |_| None);
        let outcomes = tally.counts().outcomes;
        assert_eq!((outcomes.client_disconnects, outcomes.held), (1.0, 4.0));
        let a = &outcomes.variants["a"];
        assert_eq!((a.served, a.on_time, a.late), (1.0, 1.0, 0.0));
        let refused: Vec<_> = outcomes.refused.each().filter(|it| it.1 > 0.0).collect();
        assert_eq!(refused, [("queue-full", 2.0)]);
    }

    #[test]
    fn times_with_all_slots_taken_are_summed_over_workers_by_name() {
        let mut tally = Tally::NEW;
        for names in [["a", "b"], ["a", "b"], ["b", "a"]] {
            let mut stats = Stats::default();
            for (variant, us, ended) in [(0, 1500, 1), (1, 700, 2), (0, 500, 3), (2, 9, 9)] {
                let label = Label::Variant(VariantId(variant));
                stats.by(Metric::FullUs, label, us);
                stats.by(Metric::FullExecutions, label, ended);
            }
            let mut samples = Vec::new();
            stats.swap(&mut samples);
            let names = names.map(Rc::from);
            tally.add(&samples, |id| names.get(usize::from(id.0)), |_| None);
        }
        let full = |us, executions| FullTime { us, executions };
        let expected = [("a", full(4700.0, 10.0)), ("b", full(3400.0, 8.0))];
        let expected = expected.map(|(name, full)| (name.to_owned(), full));
        assert_eq!(tally.counts().full, expected.into());
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
        let mut samples = Vec::new();
        stats.swap(&mut samples);
        let mut tally = Tally::NEW;
        let names = ["a", "b"].map(Rc::from);
        tally.add(&samples, |id| names.get(usize::from(id.0)), |_| None);
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
    }
}
