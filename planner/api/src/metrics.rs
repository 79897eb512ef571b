//! Metric names: what the filter counts and the planner reads.
//!
//! proxy-wasm metrics have no labels, so a label goes into the name after a double underscore:
//! `weir_refused__service__demo__reason__queue-full`. Envoy's Prometheus output turns a dash into an
//! underscore; names and reasons hold no double one ([`crate::plan::is_name`]), so the name still splits
//! back, and [`decode`] returns the values with their dashes.

/// What every metric of ours begins with.
pub const PREFIX: &str = "weir_";

/// What a metric is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, until the proxy starts anew.
    Counter,
    /// As it is now.
    Gauge,
    /// A distribution.
    Histogram,
}

/// The filter's metrics. Times are in ms where the name does not say otherwise. Each event is counted
/// by one proxy, whatever stands in the path: a router counts what it chose and refused, a gate what
/// it sent, held and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Counter: requests that some variant could have answered in time if it had had nobody else, whatever
    /// became of them (the demand). A gate counts only those that no router has tagged, so that the sum over all
    /// proxies is the demand.
    Arrivals,
    /// Counter: requests that none could: out of time when they came, or their bodies; less time left than any
    /// variant needs with all the cores it may be given; a least accuracy that none has. No arrivals.
    Unservable,
    /// Counter: requests that were forwarded or held on arrival.
    Admitted,
    /// Counter: requests passed on untouched, because of their method, path or upgrade; no arrivals.
    Bypassed,
    /// Counter, by variant: requests for which the variant was chosen on arrival, by who chooses: a router, or both in one.
    Routed,
    /// Counter, by variant: requests whose turn at the variant it was, or that waited for it, and that went to another one
    /// because they could not wait.
    DowngradedFrom,
    /// Counter, by variant: requests that came to the variant that way.
    DowngradedTo,
    /// Counter, by variant: requests sent upstream, by who owns the slots: a gate, or both in one.
    Dispatched,
    /// Counter, by variant: answers from upstream.
    Served,
    /// Counter, by variant: answers from upstream before the deadline.
    OnTime,
    /// Counter, by variant: answers from upstream after the deadline.
    Late,
    /// Counter, by variant: times that Envoy sent a request again that was answered in the end.
    Retried,
    /// Counter, by variant: requests by which a failure was seen: no server was reached, or it answered with an error of
    /// its own or 404.
    Failed,
    /// Gauge, by variant: 1 while its servers fail and it gets no share, else 0.
    Failing,
    /// Counter, by variant: requests that the variant refused a connection and another one answered.
    MovedOn,
    /// Counter, by reason: requests refused.
    Refused,
    /// Counter: requests whose client left before the answer.
    Gone,
    /// Counter, by field: header values that were not believed.
    Disbelieved,
    /// Counter: client timestamps that had to be pulled into what the configuration allows.
    Clamped,
    /// Counter, by class: of [`Metric::Arrivals`], those of the class.
    ClassArrivals,
    /// Counter, by class: of [`Metric::Admitted`], those of the class.
    ClassAdmitted,
    /// Counter, by class: of [`Metric::OnTime`], those of the class.
    ClassOnTime,
    /// Counter, by class: of [`Metric::Refused`], those of the class.
    ClassRefused,
    /// Gauge: requests held by all workers of the proxy, at most 50 ms ago.
    Held,
    /// Gauge, by variant: requests held for the variant by all workers of the proxy, at most 50 ms ago.
    Waiting,
    /// Gauge, by variant: slots of the plan obeyed.
    Slots,
    /// Gauge, by variant: slots taken by all workers of the proxy, ghosts included, at most 50 ms ago.
    InFlight,
    /// Gauge, by variant: the service time that is reckoned with: the plan's, corrected by what was measured.
    PredictedMs,
    /// Gauge, by variant: how far the part of about the last 1,000 requests that the variant was chosen for is from its
    /// quota, in thousandths of all, by the filter.
    ShareDeviation,
    /// Histogram: time held before dispatch.
    WaitMs,
    /// Histogram: time from a request's last byte to its refusal.
    RefusedAfterMs,
    /// Histogram: time left at arrival.
    ArrivalSlackMs,
    /// Histogram: time left to serve a request, at arrival and each time that it has halved while the body came; of
    /// those whose client said when it sent, and whom more cores at least could serve; so many of a source a second.
    DemandSlackMs,
    /// Histogram: from the client's sending to arrival, of arrivals whose client said when it sent; so many of a
    /// source a second.
    NetworkMs,
    /// Histogram: time left at dispatch.
    SlackMs,
    /// Histogram, by variant: time that the server took, to the end of the answer.
    ServiceMs,
    /// Histogram, by variant: requests released together for the server's batch.
    BatchFill,
    /// Histogram: in µs: how long a slot was free while another worker's request waited for it.
    HandoverUs,
    /// Counter: changes of the board that another worker was quicker at, and that were tried again.
    SwapsLost,
    /// Counter: times the board was found unreadable and begun anew.
    BoardResets,
    /// Gauge: the revision obeyed.
    PlanRevision,
    /// Gauge: time since the plan obeyed came in.
    PlanAgeMs,
    /// Counter: plans taken over, one for each VM.
    PlanAccepted,
    /// Counter: plans refused.
    PlanRefused,
    /// Counter: polls of the planner that brought neither a plan nor word that there is none.
    PlanUnreachable,
    /// Histogram: from publishing by the planner to taking over by a VM.
    PlanVisibleMs,
}

const NONE: Option<&str> = None;
const VARIANT: Option<&str> = Some("variant");
const CLASS: Option<&str> = Some("class");

impl Metric {
    /// All of them.
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

    /// The name without labels.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// What it is.
    pub const fn kind(self) -> Kind {
        self.row().1
    }

    /// What the second label is called, for the metrics that have one beside `service`.
    pub const fn label(self) -> Option<&'static str> {
        self.row().2
    }

    /// The metric of that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Name, kind and label.
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

    /// A name that stood for two metrics would be read as the first of them.
    #[test]
    fn each_metric_has_a_name_of_its_own_and_its_unit_fits_its_kind() {
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
    fn kinds_and_labels_are_what_dashboards_rely_on() {
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
