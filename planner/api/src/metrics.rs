//! Metric names: what the filter counts and the planner reads.
//!
//! proxy-wasm metrics have no labels, so a label goes into the name after a double underscore:
//! `weir_refused__service__demo__reason__queue-full`. Envoy's Prometheus output turns a dash into an
//! underscore; names and reasons hold no double one ([`crate::plan::is_name`]), so the name still splits
//! back, and [`decode`] returns the values with their dashes.

/// What every metric of ours begins with.
pub const PREFIX: &str = "weir_";

/// The filter's metrics. Times are in ms where the name does not say otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Counter: requests that reached the filter, whatever became of them (the demand).
    Arrivals,
    /// Counter, by variant: requests sent upstream.
    Dispatched,
    /// Counter, by variant: answers from upstream.
    Served,
    /// Counter, by variant: answers from upstream after the deadline.
    Late,
    /// Counter, by reason: requests refused.
    Refused,
    /// Counter: requests whose client left before the answer.
    Gone,
    /// Counter, by field: header values that were not believed.
    Disbelieved,
    /// Gauge: requests held by all workers of the proxy, at most 50 ms ago.
    Held,
    /// Gauge, by variant: slots taken by all workers of the proxy, ghosts included, at most 50 ms ago.
    InFlight,
    /// Histogram: time held before dispatch.
    WaitMs,
    /// Histogram: time left at dispatch.
    SlackMs,
    /// Histogram, by variant: time from dispatch to the end of the answer.
    ServiceMs,
    /// Histogram, in µs: how long a slot was free while another worker's request waited for it.
    HandoverUs,
    /// Counter: changes of the board that another worker was quicker at, and that were tried again.
    SwapsLost,
    /// Counter: times the board was found unreadable and begun anew.
    BoardResets,
    /// Gauge: the revision obeyed.
    PlanRevision,
    /// Counter: plans taken over, one for each VM.
    PlanAccepted,
    /// Counter: plans refused.
    PlanRefused,
    /// Counter: polls of the planner that brought neither a plan nor word that there is none.
    PlanUnreachable,
    /// Histogram: from publishing by the planner to taking over by a VM.
    PlanVisibleMs,
}

impl Metric {
    /// All of them.
    pub const ALL: [Metric; 20] = [
        Metric::Arrivals,
        Metric::Dispatched,
        Metric::Served,
        Metric::Late,
        Metric::Refused,
        Metric::Gone,
        Metric::Disbelieved,
        Metric::Held,
        Metric::InFlight,
        Metric::WaitMs,
        Metric::SlackMs,
        Metric::ServiceMs,
        Metric::HandoverUs,
        Metric::SwapsLost,
        Metric::BoardResets,
        Metric::PlanRevision,
        Metric::PlanAccepted,
        Metric::PlanRefused,
        Metric::PlanUnreachable,
        Metric::PlanVisibleMs,
    ];

    /// The name without labels.
    pub const fn name(self) -> &'static str {
        match self {
            Metric::Arrivals => "weir_arrivals",
            Metric::Dispatched => "weir_dispatched",
            Metric::Served => "weir_served",
            Metric::Late => "weir_late",
            Metric::Refused => "weir_refused",
            Metric::Gone => "weir_gone",
            Metric::Disbelieved => "weir_disbelieved",
            Metric::Held => "weir_held",
            Metric::InFlight => "weir_in_flight",
            Metric::WaitMs => "weir_wait_ms",
            Metric::SlackMs => "weir_slack_ms",
            Metric::ServiceMs => "weir_service_ms",
            Metric::HandoverUs => "weir_handover_us",
            Metric::SwapsLost => "weir_swaps_lost",
            Metric::BoardResets => "weir_board_resets",
            Metric::PlanRevision => "weir_plan_revision",
            Metric::PlanAccepted => "weir_plan_accepted",
            Metric::PlanRefused => "weir_plan_refused",
            Metric::PlanUnreachable => "weir_plan_unreachable",
            Metric::PlanVisibleMs => "weir_plan_visible_ms",
        }
    }

    /// What the second label is called, for the metrics that have one beside `service`.
    pub const fn label(self) -> Option<&'static str> {
        match self {
            Metric::Dispatched
            | Metric::Served
            | Metric::Late
            | Metric::InFlight
            | Metric::ServiceMs => Some("variant"),
            Metric::Refused => Some("reason"),
            Metric::Disbelieved => Some("header"),
            _ => None,
        }
    }

    /// The metric of that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }
}

/// A metric with its labels' values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
    /// Which metric.
    pub metric: Metric,
    /// The service.
    pub service: String,
    /// The value of [`Metric::label`], empty for a metric without one.
    pub value: String,
}

/// The name under which Envoy keeps a metric; `value` is that of [`Metric::label`] and left out
/// for a metric without one.
pub fn encode(metric: Metric, service: &str, value: &str) -> String {
    match metric.label() {
        Some(label) => format!("{}__service__{service}__{label}__{value}", metric.name()),
        None => format!("{}__service__{service}", metric.name()),
    }
}

/// Reads a name made by [`encode`], also after Envoy's Prometheus output has turned its dashes into
/// underscores. `None` for any other name.
pub fn decode(name: &str) -> Option<Series> {
    let mut parts = name.split("__");
    let metric = Metric::from_name(parts.next()?)?;
    let mut labelled = |label: &str| {
        (parts.next()? == label).then_some(())?;
        Some(parts.next()?.replace('_', "-"))
    };
    let service = labelled("service")?;
    let value = match metric.label() {
        Some(label) => labelled(label)?,
        None => String::new(),
    };
    parts.next().is_none().then_some(Series {
        metric,
        service,
        value,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::is_name;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_name_splits_back_into_its_labels(
            metric in prop::sample::select(Metric::ALL.to_vec()),
            service in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
            value in "[a-z0-9]{1,8}(-[a-z0-9]{1,8}){0,3}",
        ) {
            prop_assert!(is_name(&service));
            let name = encode(metric, &service, &value);
            let value = if metric.label().is_some() { value } else { String::new() };
            let series = Series { metric, service, value };
            prop_assert_eq!(decode(&name), Some(series.clone()));
            prop_assert_eq!(decode(&name.replace('-', "_")), Some(series));
        }
    }

    #[test]
    fn other_names_are_none_of_ours() {
        for name in [
            "envoy_server_live",
            "weir_arrivals",
            "weir_arrivals__variant__a",
            "weir_held__service__a__x__y",
        ] {
            assert_eq!(decode(name), None, "{name}");
        }
    }
}
