//! Series: a metric with the values of its labels, and its two forms in Envoy's statistics.
//!
//! proxy-wasm metrics have no labels. In the *long form* a label is part of the name, after a double underscore:
//! `weir_refused_total__service__demo__reason__queue-full`. Names and reasons contain no double underscore
//! ([`crate::plan::is_name`]), so the name can be split. Envoy's Prometheus output replaces dashes in names by
//! underscores; [`decode`] restores them.
//!
//! In the *labelled form* Envoy has cut the labels out of the name, by the `stats_tags` of its bootstrap
//! ([`stats_tag`]): `weir_refused_total{service="demo",reason="queue-full"}`.

use super::{GROUP, Metric, PREFIX};

/// Names of all labels; `service` is in every series.
pub const LABELS: [&str; 6] = ["service", "variant", "reason", "header", "class", GROUP];

/// Metric with the values of its labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
    /// The metric.
    pub metric: Metric,
    /// Value of the label `service`.
    pub service: String,
    /// Value of [`Metric::label`]; empty for a metric without one.
    pub value: String,
    /// Value of the label [`GROUP`]; empty for a metric without it.
    pub group: String,
}

/// Returns the long form, by which the filter defines a metric in Envoy. `value` is the value of [`Metric::label`],
/// left out for a metric without one.
pub fn encode(metric: Metric, service: &str, value: &str) -> String {
    match metric.label() {
        Some(label) => format!("{}__service__{service}__{label}__{value}", metric.name()),
        None => format!("{}__service__{service}", metric.name()),
    }
}

/// Returns the long form of a metric by variant and group.
pub fn encode_group(metric: Metric, service: &str, variant: &str, group: &str) -> String {
    format!("{}__{GROUP}__{group}", encode(metric, service, variant))
}

/// Parses a series of Envoy's Prometheus output in either form. `label` returns the value of a label; those that are
/// no part of the series are ignored. `None` for any other name.
pub fn decode<'a>(name: &str, label: impl Fn(&str) -> Option<&'a str>) -> Option<Series> {
    let (base, mut parts) = match name.split_once("__") {
        Some((base, labels)) => (base, Some(labels.split("__"))),
        None => (name, None),
    };
    let metric = Metric::from_name(base)?;
    let mut label_value = |name: &str| match &mut parts {
        Some(parts) => {
            (parts.next()? == name).then_some(())?;
            Some(parts.next()?.replace('_', "-"))
        }
        None => label(name).map(str::to_owned),
    };
    let service = label_value("service")?;
    let value = match metric.label() {
        Some(label) => label_value(label)?,
        None => String::new(),
    };
    let group = match metric.has_group() {
        true => label_value(GROUP)?,
        false => String::new(),
    };
    let complete = parts.is_none_or(|mut parts| parts.next().is_none());
    complete.then_some(Series {
        metric,
        service,
        value,
        group,
    })
}

/// Returns the regular expression by which Envoy cuts a label out of the long form (`stats_tags` of its bootstrap): the
/// first group is removed from the name, the second is the value. It begins with a whole word and a dot, by which Envoy
/// skips it for all other statistics.
pub fn stats_tag(label: &str) -> String {
    const VALUE: &str = "[a-z0-9-]+";
    match label {
        "service" => format!(r"^wasmcustom\.{PREFIX}[a-z_]+?(__service__({VALUE}))"),
        "variant" => format!(
            r"^wasmcustom\.{PREFIX}[a-z_]+?__service__{VALUE}(__variant__({VALUE}))(?:__{GROUP}__{VALUE})?$"
        ),
        GROUP => format!(
            r"^wasmcustom\.{PREFIX}[a-z_]+?__service__{VALUE}__variant__{VALUE}(__{GROUP}__({VALUE}))$"
        ),
        _ => format!(r"^wasmcustom\.{PREFIX}[a-z_]+?__service__{VALUE}(__{label}__({VALUE}))$"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::is_name;
    use proptest::prelude::*;

    fn none(_: &str) -> Option<&'static str> {
        None
    }

    proptest! {
        #[test]
        fn encoded_name_decodes_to_its_labels(
            metric in prop::sample::select(Metric::ALL.to_vec()),
            service in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
            value in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
            group in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
        ) {
            prop_assert!(is_name(&service));
            let (name, group) = match metric.has_group() {
                true => (encode_group(metric, &service, &value, &group), group),
                false => (encode(metric, &service, &value), String::new()),
            };
            let value = if metric.label().is_some() { value } else { String::new() };
            let series = Series { metric, service, value, group };
            prop_assert_eq!(decode(&name, none), Some(series.clone()));
            prop_assert_eq!(decode(&name.replace('-', "_"), none), Some(series));
        }

        #[test]
        fn labels_are_decoded_as_they_are(
            metric in prop::sample::select(Metric::ALL.to_vec()),
            service in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
            value in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
            group in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
        ) {
            let label = |name: &str| match name {
                "service" => Some(service.as_str()),
                name if Some(name) == metric.label() => Some(value.as_str()),
                GROUP => Some(group.as_str()),
                "le" => Some("1"),
                _ => None,
            };
            let read = decode(metric.name(), label);
            let value = if metric.label().is_some() { value.clone() } else { String::new() };
            let group = if metric.has_group() { group.clone() } else { String::new() };
            let series = Series { metric, service: service.clone(), value, group };
            prop_assert_eq!(read, Some(series));
            prop_assert_eq!(decode(metric.name(), none), None);
        }
    }

    #[test]
    fn every_metric_has_known_labels() {
        for metric in Metric::ALL {
            let label = metric.label().unwrap_or("service");
            assert!(LABELS.contains(&label), "{metric:?}: {label}");
        }
    }

    #[test]
    fn foreign_names_are_not_decoded() {
        for name in [
            "envoy_server_live",
            "weir_arrivals_total",
            "weir_arrivals_total__variant__a",
            "weir_held_requests__service__a__x__y",
            "weir_slots__service__a",
            "weir_slots__service__a__variant__b__group__c",
            "weir_group_executions_total__service__a__variant__b",
            "weir_arrivals__service__a",
        ] {
            assert_eq!(decode(name, none), None, "{name}");
        }
        let service = |name: &str| (name == "service").then_some("a");
        for name in ["weir_slots", "weir_arrivals", "envoy_server_live"] {
            assert_eq!(decode(name, service), None, "{name}");
        }
    }
}
