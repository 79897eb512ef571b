//! Names of the metrics that the filter exports and the planner reads.
//!
//! proxy-wasm metrics have no labels. A label is part of the name, after a double underscore:
//! `weir_refused__service__demo__reason__queue-full`. Envoy's Prometheus output replaces dashes by underscores. Names
//! and reasons contain no double underscore ([`crate::plan::is_name`]), so the name can still be split, and [`decode`]
//! restores the dashes.

/// Prefix of every Weir metric.
pub const PREFIX: &str = "weir_";

/// Metric types of the Prometheus data model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Monotonic count, reset when the proxy restarts.
    Counter,
    /// Current value.
    Gauge,
    /// Distribution of values.
    Histogram,
}

/// The filter's metrics. Times are in ms unless the name gives another unit. Each event is counted by one proxy, also
/// where a router and a gate are in the path: a router counts the requests it routed and refused, a gate those it
/// queued, dispatched and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Counter: requests that some variant could have answered in time on an idle system, whatever their outcome (the
    /// demand). A gate counts only requests that no router has tagged, so that the sum over all proxies is the demand.
    Arrivals,
    /// Counter: requests that no variant could answer in time, not counted as arrivals. They (or their bodies) arrived
    /// after the deadline, or with less time than any variant needs with its maximum of cores, or require a higher
    /// accuracy than any variant has.
    Unservable,
    /// Counter: requests forwarded or queued on arrival.
    Admitted,
    /// Counter: requests passed through untouched because of their method, path or upgrade; not counted as arrivals.
    Bypassed,
    /// Counter, by variant: requests routed to the variant on arrival; exported by routers and combined proxies.
    Routed,
    /// Counter, by variant: requests of the variant, queued or next in line, that were moved to another variant
    /// because they could not wait.
    DowngradedFrom,
    /// Counter, by variant: requests moved to the variant from another one.
    DowngradedTo,
    /// Counter, by variant: requests sent upstream; exported by the owner of the slots (a gate or a combined proxy).
    Dispatched,
    /// Counter, by variant: responses from upstream.
    Served,
    /// Counter, by variant: responses from upstream before the deadline.
    OnTime,
    /// Counter, by variant: responses from upstream after the deadline.
    Late,
    /// Counter, by variant: retries by Envoy of requests that were answered in the end.
    Retried,
    /// Counter, by variant: requests that revealed a failure: no server was reached, or it answered 404 or an error of
    /// its own.
    Failed,
    /// Gauge, by variant: 1 while its servers fail and it gets no share, else 0.
    Failing,
    /// Counter, by variant: requests whose connection the variant refused and that another variant answered.
    MovedOn,
    /// Counter, by reason: requests refused.
    Refused,
    /// Counter: requests whose client disconnected before the response.
    Gone,
    /// Counter, by field: header values ignored as invalid.
    Disbelieved,
    /// Counter: client timestamps clamped to the configured range.
    Clamped,
    /// Counter, by class: the class's part of [`Metric::Arrivals`].
    ClassArrivals,
    /// Counter, by class: the class's part of [`Metric::Admitted`].
    ClassAdmitted,
    /// Counter, by class: the class's part of [`Metric::OnTime`].
    ClassOnTime,
    /// Counter, by class: the class's part of [`Metric::Refused`].
    ClassRefused,
    /// Gauge: requests queued by all workers of the proxy, at most 50 ms old.
    Held,
    /// Gauge, by variant: requests queued for the variant by all workers of the proxy, at most 50 ms old.
    Waiting,
    /// Gauge, by variant: slots of the plan in use.
    Slots,
    /// Gauge, by variant: slots taken by all workers of the proxy, orphaned ones included, at most 50 ms old.
    InFlight,
    /// Gauge, by variant: predicted service time: the plan's, corrected by measurements.
    PredictedMs,
    /// Gauge, by variant: deviation of the variant's share of about the last 1,000 routed requests from its quota, in
    /// thousandths, as measured by the filter.
    ShareDeviation,
    /// Histogram: time queued before dispatch.
    WaitMs,
    /// Histogram: time from a request's last byte to its refusal.
    RefusedAfterMs,
    /// Histogram: time left at arrival.
    ArrivalSlackMs,
    /// Histogram: time left to serve a request, at arrival and each time that it has halved while the body came.
    /// Covers requests with a client timestamp that at least more cores could serve; limited to a number per source
    /// and second.
    DemandSlackMs,
    /// Histogram: time from the client's send to arrival, of arrivals with a client timestamp; limited to a number per
    /// source and second.
    NetworkMs,
    /// Histogram: time left at dispatch.
    SlackMs,
    /// Histogram, by variant: service time, to the end of the response.
    ServiceMs,
    /// Histogram, by variant: requests dispatched together for the server's batch.
    BatchFill,
    /// Histogram, in µs: time for which a slot was free while another worker's request waited for it.
    HandoverUs,
    /// Counter: updates of the slot table that lost the compare-and-swap to another worker and were retried.
    SwapsLost,
    /// Counter: resets of the slot table because its content was unreadable.
    BoardResets,
    /// Gauge: revision of the plan in use.
    PlanRevision,
    /// Gauge: time since the plan in use was received.
    PlanAgeMs,
    /// Counter: plans adopted, one for each VM.
    PlanAccepted,
    /// Counter: plans refused.
    PlanRefused,
    /// Counter: polls of the planner that returned neither a plan nor the answer that there is none.
    PlanUnreachable,
    /// Histogram: time from the planner's publication of a plan to its adoption by a VM.
    PlanVisibleMs,
}

const NONE: Option<&str> = None;
const VARIANT: Option<&str> = Some("variant");
const CLASS: Option<&str> = Some("class");

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 46] = [
        Metric::Arrivals,
        Metric::Unservable,
        Metric::Admitted,
        Metric::Bypassed,
        Metric::Routed,
        Metric::DowngradedFrom,
        Metric::DowngradedTo,
        Metric::Dispatched,
        Metric::Served,
        Metric::OnTime,
        Metric::Late,
        Metric::Retried,
        Metric::Failed,
        Metric::Failing,
        Metric::MovedOn,
        Metric::Refused,
        Metric::Gone,
        Metric::Disbelieved,
        Metric::Clamped,
        Metric::ClassArrivals,
        Metric::ClassAdmitted,
        Metric::ClassOnTime,
        Metric::ClassRefused,
        Metric::Held,
        Metric::Waiting,
        Metric::Slots,
        Metric::InFlight,
        Metric::PredictedMs,
        Metric::ShareDeviation,
        Metric::WaitMs,
        Metric::RefusedAfterMs,
        Metric::ArrivalSlackMs,
        Metric::DemandSlackMs,
        Metric::NetworkMs,
        Metric::SlackMs,
        Metric::ServiceMs,
        Metric::BatchFill,
        Metric::HandoverUs,
        Metric::SwapsLost,
        Metric::BoardResets,
        Metric::PlanRevision,
        Metric::PlanAgeMs,
        Metric::PlanAccepted,
        Metric::PlanRefused,
        Metric::PlanUnreachable,
        Metric::PlanVisibleMs,
    ];

    /// Name without labels.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Metric type.
    pub const fn kind(self) -> Kind {
        self.row().1
    }

    /// Name of the second label, for the metrics that have one beside `service`.
    pub const fn label(self) -> Option<&'static str> {
        self.row().2
    }

    /// Returns the metric with that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Name, type and label.
    const fn row(self) -> (&'static str, Kind, Option<&'static str>) {
        use Kind::{Counter, Gauge, Histogram};
        match self {
            Metric::Arrivals => ("weir_arrivals", Counter, NONE),
            Metric::Unservable => ("weir_unservable", Counter, NONE),
            Metric::Admitted => ("weir_admitted", Counter, NONE),
            Metric::Bypassed => ("weir_bypassed", Counter, NONE),
            Metric::Routed => ("weir_routed", Counter, VARIANT),
            Metric::DowngradedFrom => ("weir_downgraded_from", Counter, VARIANT),
            Metric::DowngradedTo => ("weir_downgraded_to", Counter, VARIANT),
            Metric::Dispatched => ("weir_dispatched", Counter, VARIANT),
            Metric::Served => ("weir_served", Counter, VARIANT),
            Metric::OnTime => ("weir_on_time", Counter, VARIANT),
            Metric::Late => ("weir_late", Counter, VARIANT),
            Metric::Retried => ("weir_retried", Counter, VARIANT),
            Metric::Failed => ("weir_failed", Counter, VARIANT),
            Metric::Failing => ("weir_failing", Gauge, VARIANT),
            Metric::MovedOn => ("weir_moved_on", Counter, VARIANT),
            Metric::Refused => ("weir_refused", Counter, Some("reason")),
            Metric::Gone => ("weir_gone", Counter, NONE),
            Metric::Disbelieved => ("weir_disbelieved", Counter, Some("header")),
            Metric::Clamped => ("weir_skew_clamped", Counter, NONE),
            Metric::ClassArrivals => ("weir_class_arrivals", Counter, CLASS),
            Metric::ClassAdmitted => ("weir_class_admitted", Counter, CLASS),
            Metric::ClassOnTime => ("weir_class_on_time", Counter, CLASS),
            Metric::ClassRefused => ("weir_class_refused", Counter, CLASS),
            Metric::Held => ("weir_held", Gauge, NONE),
            Metric::Waiting => ("weir_waiting", Gauge, VARIANT),
            Metric::Slots => ("weir_slots", Gauge, VARIANT),
            Metric::InFlight => ("weir_in_flight", Gauge, VARIANT),
            Metric::PredictedMs => ("weir_predicted_ms", Gauge, VARIANT),
            Metric::ShareDeviation => ("weir_share_deviation_permille", Gauge, VARIANT),
            Metric::WaitMs => ("weir_wait_ms", Histogram, NONE),
            Metric::RefusedAfterMs => ("weir_refused_after_ms", Histogram, NONE),
            Metric::ArrivalSlackMs => ("weir_arrival_slack_ms", Histogram, NONE),
            Metric::DemandSlackMs => ("weir_demand_slack_ms", Histogram, NONE),
            Metric::NetworkMs => ("weir_network_ms", Histogram, NONE),
            Metric::SlackMs => ("weir_slack_ms", Histogram, NONE),
            Metric::ServiceMs => ("weir_service_ms", Histogram, VARIANT),
            Metric::BatchFill => ("weir_batch_fill", Histogram, VARIANT),
            Metric::HandoverUs => ("weir_handover_us", Histogram, NONE),
            Metric::SwapsLost => ("weir_swaps_lost", Counter, NONE),
            Metric::BoardResets => ("weir_board_resets", Counter, NONE),
            Metric::PlanRevision => ("weir_plan_revision", Gauge, NONE),
            Metric::PlanAgeMs => ("weir_plan_age_ms", Gauge, NONE),
            Metric::PlanAccepted => ("weir_plan_accepted", Counter, NONE),
            Metric::PlanRefused => ("weir_plan_refused", Counter, NONE),
            Metric::PlanUnreachable => ("weir_plan_unreachable", Counter, NONE),
            Metric::PlanVisibleMs => ("weir_plan_visible_ms", Histogram, NONE),
        }
    }
}

/// Metric with the values of its labels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Series {
    /// The metric.
    pub metric: Metric,
    /// Value of the label `service`.
    pub service: String,
    /// Value of [`Metric::label`]; empty for a metric without one.
    pub value: String,
}

/// Returns the name of a metric in Envoy's statistics. `value` is the value of [`Metric::label`], left out for a
/// metric without one.
pub fn encode(metric: Metric, service: &str, value: &str) -> String {
    match metric.label() {
        Some(label) => format!("{}__service__{service}__{label}__{value}", metric.name()),
        None => format!("{}__service__{service}", metric.name()),
    }
}

/// Parses a name made by [`encode`], also after Envoy's Prometheus output has replaced its dashes by underscores.
/// `None` for any other name.
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
        fn encoded_name_decodes_to_its_labels(
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

    /// A name that stood for two metrics would be read as the first of them.
    #[test]
    fn metric_names_are_unique_and_units_fit_the_kind() {
        for metric in Metric::ALL {
            let name = metric.name();
            assert_eq!(Metric::from_name(name), Some(metric), "{name}");
            let bare = name.strip_prefix(PREFIX).expect(name);
            assert!(is_name(&bare.replace('_', "-")), "{name}");
            let timed = bare.ends_with("_ms") || bare.ends_with("_us");
            assert!(!timed || metric.kind() != Kind::Counter, "{name}");
        }
        let distinct: std::collections::BTreeSet<_> = Metric::ALL.into_iter().collect();
        assert_eq!(distinct.len(), Metric::ALL.len());
    }

    #[test]
    fn kinds_and_labels_match_dashboards() {
        for (metric, kind, label) in [
            (Metric::Arrivals, Kind::Counter, None),
            (Metric::Routed, Kind::Counter, Some("variant")),
            (Metric::Refused, Kind::Counter, Some("reason")),
            (Metric::Disbelieved, Kind::Counter, Some("header")),
            (Metric::ClassOnTime, Kind::Counter, Some("class")),
            (Metric::PredictedMs, Kind::Gauge, Some("variant")),
            (Metric::PlanAgeMs, Kind::Gauge, None),
            (Metric::NetworkMs, Kind::Histogram, None),
            (Metric::BatchFill, Kind::Histogram, Some("variant")),
        ] {
            assert_eq!((metric.kind(), metric.label()), (kind, label), "{metric:?}");
        }
    }

    #[test]
    fn foreign_names_are_not_decoded() {
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
