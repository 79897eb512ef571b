//! Series of a text in Prometheus' format, of the planner, an Envoy or a filter within it.

use std::collections::BTreeSet;

use weir_api::metrics::{Metric, decode};
use weir_planner::observe::exposition::Sample;

/// A text, read line by line at each query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Samples<'a>(&'a str);

impl<'a> Samples<'a> {
    pub(crate) const fn new(text: &'a str) -> Samples<'a> {
        Samples(text)
    }

    fn all(self) -> impl Iterator<Item = Sample<'a>> {
        let lines = self.0.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(Sample::parse)
    }

    /// Returns the values of a label, with the sample's value.
    pub(crate) fn labels(self, name: &str, label: &str) -> Vec<(&'a str, f64)> {
        let named = self.all().filter(|sample| sample.name == name);
        let labels = named.filter_map(|sample| Some((sample.label(label)?, sample.value)));
        labels.collect()
    }

    /// Returns the sum of the values whose names begin and end so.
    pub(crate) fn sum_between(self, begin: &str, end: &str) -> f64 {
        let fits = |sample: &Sample| sample.name.starts_with(begin) && sample.name.ends_with(end);
        self.all()
            .filter(fits)
            .map(|sample| sample.value)
            .sum::<f64>()
            + 0.0
    }

    /// Returns the services of which the filter exports metrics.
    pub(crate) fn filtered_services(self) -> BTreeSet<String> {
        let series = self
            .all()
            .filter_map(|sample| decode(sample.name, |name| sample.label(name)));
        series.map(|series| series.service).collect()
    }

    /// Returns the sum of a filter's metric over its further label; `None` without any series of the service.
    pub(crate) fn filter(self, metric: Metric, service: &str) -> Option<f64> {
        let values = self.all().filter_map(|sample| {
            let series = decode(sample.name, |name| sample.label(name))?;
            (series.metric == metric && series.service == service).then_some(sample.value)
        });
        values.reduce(|sum, value| sum + value)
    }
}

/// Returns the services that a planner plans for, by its metrics.
pub(crate) fn services(metrics: &Samples<'_>) -> Vec<String> {
    let found = metrics.labels("weir_planner_plan_revision", "service");
    let distinct: BTreeSet<&str> = found.into_iter().map(|(service, _)| service).collect();
    distinct.into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# TYPE weir_planner_plan_revision gauge\n\
        weir_planner_plan_revision{service=\"b\"} 7\nweir_planner_plan_revision{service=\"a\"} 8\n\
        weir_planner_build_info{version=\"0.1.0\"} 1\n\
        envoy_wasm_weir_vm_reload_success{} 2\nenvoy_wasm_other_vm_reload_success{} 3\n\
        weir_plan_revision__service__res_net{} 5\n\
        weir_refused_total{service=\"a\",reason=\"expired\"} 3\n\
        weir_refused_total{service=\"a\",reason=\"queue-full\"} 4\n";

    #[test]
    fn both_forms_of_series_are_read() {
        let samples = Samples::new(TEXT);
        assert_eq!(services(&samples), ["a", "b"]);
        let version = samples.labels("weir_planner_build_info", "version");
        assert_eq!(version, [("0.1.0", 1.0)]);
        assert_eq!(samples.labels("weir_planner", "version"), []);
        let reloads = |begin| samples.sum_between(begin, "vm_reload_success");
        assert_eq!((reloads("envoy_wasm_"), reloads("none")), (5.0, 0.0));
        let filtered: Vec<String> = samples.filtered_services().into_iter().collect();
        assert_eq!(filtered, ["a", "res-net"]);
        let filter = |metric, service| samples.filter(metric, service);
        assert_eq!(filter(Metric::PlanRevision, "res-net"), Some(5.0));
        assert_eq!(filter(Metric::PlanRevision, "a"), None);
        assert_eq!(filter(Metric::Refused, "a"), Some(7.0));
    }
}
