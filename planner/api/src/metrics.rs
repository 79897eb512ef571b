//! Names of the metrics that the filter exports and the planner reads.

mod series;

pub use series::{LABELS, Series, decode, encode, encode_group, stats_tag};

/// Prefix of every Weir metric.
pub const PREFIX: &str = "weir_";

/// Values of the label `reason` of [`Metric::Refused`], in the order of the filter's own list.
pub const REFUSAL_REASONS: [&str; 11] = [
    "expired",
    "infeasible",
    "queue-full",
    "class-limit",
    "source-limit",
    "body-bytes-limit",
    "no-capacity",
    "no-backend",
    "no-plan",
    "invalid-variants",
    "accuracy",
];

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

/// The filter's metrics. Times are in milliseconds or microseconds, not in seconds: Envoy's histograms hold whole
/// numbers, and the ABI has no unit. Each event is counted by one proxy, also where a router and a gate are in the
/// path: a router counts the requests it routed and refused, a gate those it queued, dispatched and answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Counter: requests that some variant could have answered in time on an idle system, whatever their outcome (the
    /// demand). A gate counts only requests that no router has tagged, so that the sum over all proxies is the demand.
    Arrivals,
    /// Counter, by variant: arrivals by the accuracy that they require at least: by the least accurate variant that has
    /// it. Only with variants of different accuracies.
    AccuracyArrivals,
    /// Counter: requests that no variant could answer in time, not counted as arrivals. They (or their bodies) arrived
    /// after the deadline, or with less time than any variant needs with its maximum of cores, or require a higher
    /// accuracy than any variant has, or list variants in a way that is not valid.
    Unservable,
    /// Counter: requests forwarded or queued on arrival.
    Admitted,
    /// Counter: requests passed through untouched because of their method, path or upgrade; not counted as arrivals.
    Bypassed,
    /// Counter, by variant: requests routed to the variant on arrival; exported by routers and combined proxies.
    Requests,
    /// Counter, by variant: requests of the variant, queued or next in line, that were moved to another variant
    /// because they could not wait.
    DowngradedFrom,
    /// Counter, by variant: requests moved to the variant from another one.
    DowngradedTo,
    /// Counter, by variant: requests that list variants and were sent to another one than the first of their list; by
    /// that first one.
    Fallbacks,
    /// Counter, by variant: requests sent upstream; exported by the owner of the slots (a gate or a combined proxy).
    Dispatched,
    /// Counter, by variant: responses from upstream.
    Served,
    /// Counter, by variant: responses from upstream before the deadline.
    OnTime,
    /// Counter, by variant: responses from upstream after the deadline.
    Late,
    /// Counter, by variant: retries by Envoy of requests that were answered in the end.
    Retries,
    /// Counter, by variant: gRPC messages that kept the client's name for the model, although the variant's servers have a
    /// name of their own, because it was not found in a message.
    MessagesUnnamed,
    /// Counter, by variant: requests that revealed a failure: no server was reached, or it answered 404 or an error of
    /// its own.
    Failures,
    /// Gauge, by variant: 1 while its servers fail and it gets no share, else 0.
    Failing,
    /// Counter, by variant: requests whose connection the variant refused and that another variant answered.
    Failovers,
    /// Counter, by reason: requests refused.
    Refused,
    /// Counter: requests whose client disconnected before the response.
    ClientDisconnects,
    /// Counter, by header: values ignored as invalid.
    InvalidHeaders,
    /// Counter: client timestamps clamped to the configured range.
    SkewClamped,
    /// Counter, by class: the class's part of [`Metric::Arrivals`].
    ClassArrivals,
    /// Counter, by class: the class's part of [`Metric::Admitted`].
    ClassAdmitted,
    /// Counter, by class: the class's part of [`Metric::OnTime`].
    ClassOnTime,
    /// Counter, by class: the class's part of [`Metric::Refused`].
    ClassRefused,
    /// Gauge: requests queued by all workers of the proxy, at most 50 ms old.
    HeldRequests,
    /// Gauge, by variant: requests queued for the variant by all workers of the proxy, at most 50 ms old.
    WaitingRequests,
    /// Gauge, by variant: slots of the plan in use.
    Slots,
    /// Gauge, by variant: slots taken by all workers of the proxy, orphaned ones included, at most 50 ms old.
    SlotsInUse,
    /// Gauge, by variant: predicted service time: the plan's, corrected by measurements.
    PredictedServiceMs,
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
    NetworkLatencyMs,
    /// Histogram: time left at dispatch.
    DispatchSlackMs,
    /// Histogram: time from the client's send, or from arrival where the request states none, to the end of an answer
    /// that is no error. Counted by the first of Weir's proxies on the request's way.
    LatencyMs,
    /// Histogram, by variant: service time, to the end of the response.
    ServiceMs,
    /// Histogram, by variant: service time until the deadline, or a timeout of Envoy's, cut the execution off: it would
    /// have taken longer. Not part of [`Metric::ServiceMs`].
    CutOffMs,
    /// Counter, by variant and group: executions whose service times the filter learns, by class where there are several,
    /// and by size of the body where the proxy has had several. Not of variants whose requests are executed in batches.
    GroupExecutions,
    /// Counter, by variant and group: sum of their ratios to the planned time, in thousandths.
    GroupRatioPermille,
    /// Counter, by variant and group: sum of the squares of these ratios, in millionths.
    GroupRatioSquares,
    /// Histogram, by variant: requests dispatched together for the server's batch.
    BatchRequests,
    /// Counter, by variant, in µs: time for which all slots of the variant were taken, from one end of an execution to the
    /// next. Not of variants whose requests are executed in batches.
    FullUs,
    /// Counter, by variant: executions that ended at the end of such a time. Over the time, this is the rate that the
    /// servers sustain.
    FullExecutions,
    /// Histogram, in µs: time for which a slot was free while another worker's request waited for it.
    HandoverUs,
    /// Counter: updates of the slot table, or of the service times by group, that lost the compare-and-swap to another
    /// worker and were retried.
    CasConflicts,
    /// Counter: resets of the slot table because its content was unreadable.
    SlotTableResets,
    /// Gauge: revision of the plan in use.
    PlanRevision,
    /// Gauge: time since the plan in use was received.
    PlanAgeMs,
    /// Counter: plans adopted, one for each VM.
    PlansAccepted,
    /// Counter: plans refused.
    PlansRefused,
    /// Counter: polls of the planner that returned neither a plan nor the answer that there is none.
    PlanPollsFailed,
    /// Histogram: time from the planner's publication of a plan to its adoption by a VM.
    PlanDelayMs,
}

const NONE: Option<&str> = None;
const VARIANT: Option<&str> = Some("variant");
const CLASS: Option<&str> = Some("class");
/// Label of a group of requests: a [`crate::group::GroupName`].
pub const GROUP: &str = "group";

impl Metric {
    /// All metrics.
    pub const ALL: [Metric; 56] = [
        Metric::Arrivals,
        Metric::AccuracyArrivals,
        Metric::Unservable,
        Metric::Admitted,
        Metric::Bypassed,
        Metric::Requests,
        Metric::DowngradedFrom,
        Metric::DowngradedTo,
        Metric::Fallbacks,
        Metric::Dispatched,
        Metric::Served,
        Metric::OnTime,
        Metric::Late,
        Metric::Retries,
        Metric::MessagesUnnamed,
        Metric::Failures,
        Metric::Failing,
        Metric::Failovers,
        Metric::Refused,
        Metric::ClientDisconnects,
        Metric::InvalidHeaders,
        Metric::SkewClamped,
        Metric::ClassArrivals,
        Metric::ClassAdmitted,
        Metric::ClassOnTime,
        Metric::ClassRefused,
        Metric::HeldRequests,
        Metric::WaitingRequests,
        Metric::Slots,
        Metric::SlotsInUse,
        Metric::PredictedServiceMs,
        Metric::ShareDeviation,
        Metric::WaitMs,
        Metric::RefusedAfterMs,
        Metric::ArrivalSlackMs,
        Metric::DemandSlackMs,
        Metric::NetworkLatencyMs,
        Metric::DispatchSlackMs,
        Metric::LatencyMs,
        Metric::ServiceMs,
        Metric::CutOffMs,
        Metric::GroupExecutions,
        Metric::GroupRatioPermille,
        Metric::GroupRatioSquares,
        Metric::BatchRequests,
        Metric::FullUs,
        Metric::FullExecutions,
        Metric::HandoverUs,
        Metric::CasConflicts,
        Metric::SlotTableResets,
        Metric::PlanRevision,
        Metric::PlanAgeMs,
        Metric::PlansAccepted,
        Metric::PlansRefused,
        Metric::PlanPollsFailed,
        Metric::PlanDelayMs,
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

    /// Whether it has the label [`GROUP`] after that of a variant.
    pub const fn has_group(self) -> bool {
        matches!(
            self,
            Metric::GroupExecutions | Metric::GroupRatioPermille | Metric::GroupRatioSquares
        )
    }

    /// Returns the metric with that name.
    pub fn from_name(name: &str) -> Option<Metric> {
        Metric::ALL.into_iter().find(|metric| metric.name() == name)
    }

    /// Name, type and label.
    const fn row(self) -> (&'static str, Kind, Option<&'static str>) {
        use Kind::{Counter, Gauge, Histogram};
        match self {
            Metric::Arrivals => ("weir_arrivals_total", Counter, NONE),
            Metric::AccuracyArrivals => ("weir_accuracy_arrivals_total", Counter, VARIANT),
            Metric::Unservable => ("weir_unservable_total", Counter, NONE),
            Metric::Admitted => ("weir_admitted_total", Counter, NONE),
            Metric::Bypassed => ("weir_bypassed_total", Counter, NONE),
            Metric::Requests => ("weir_requests_total", Counter, VARIANT),
            Metric::DowngradedFrom => ("weir_downgraded_from_total", Counter, VARIANT),
            Metric::DowngradedTo => ("weir_downgraded_to_total", Counter, VARIANT),
            Metric::Fallbacks => ("weir_fallbacks_total", Counter, VARIANT),
            Metric::Dispatched => ("weir_dispatched_total", Counter, VARIANT),
            Metric::Served => ("weir_served_total", Counter, VARIANT),
            Metric::OnTime => ("weir_on_time_total", Counter, VARIANT),
            Metric::Late => ("weir_late_total", Counter, VARIANT),
            Metric::Retries => ("weir_retries_total", Counter, VARIANT),
            Metric::MessagesUnnamed => ("weir_messages_unnamed_total", Counter, VARIANT),
            Metric::Failures => ("weir_failures_total", Counter, VARIANT),
            Metric::Failing => ("weir_failing", Gauge, VARIANT),
            Metric::Failovers => ("weir_failovers_total", Counter, VARIANT),
            Metric::Refused => ("weir_refused_total", Counter, Some("reason")),
            Metric::ClientDisconnects => ("weir_client_disconnects_total", Counter, NONE),
            Metric::InvalidHeaders => ("weir_invalid_headers_total", Counter, Some("header")),
            Metric::SkewClamped => ("weir_skew_clamped_total", Counter, NONE),
            Metric::ClassArrivals => ("weir_class_arrivals_total", Counter, CLASS),
            Metric::ClassAdmitted => ("weir_class_admitted_total", Counter, CLASS),
            Metric::ClassOnTime => ("weir_class_on_time_total", Counter, CLASS),
            Metric::ClassRefused => ("weir_class_refused_total", Counter, CLASS),
            Metric::HeldRequests => ("weir_held_requests", Gauge, NONE),
            Metric::WaitingRequests => ("weir_waiting_requests", Gauge, VARIANT),
            Metric::Slots => ("weir_slots", Gauge, VARIANT),
            Metric::SlotsInUse => ("weir_slots_in_use", Gauge, VARIANT),
            Metric::PredictedServiceMs => ("weir_predicted_service_milliseconds", Gauge, VARIANT),
            Metric::ShareDeviation => ("weir_share_deviation_permille", Gauge, VARIANT),
            Metric::WaitMs => ("weir_wait_milliseconds", Histogram, NONE),
            Metric::RefusedAfterMs => ("weir_refused_after_milliseconds", Histogram, NONE),
            Metric::ArrivalSlackMs => ("weir_arrival_slack_milliseconds", Histogram, NONE),
            Metric::DemandSlackMs => ("weir_demand_slack_milliseconds", Histogram, NONE),
            Metric::NetworkLatencyMs => ("weir_network_latency_milliseconds", Histogram, NONE),
            Metric::DispatchSlackMs => ("weir_dispatch_slack_milliseconds", Histogram, NONE),
            Metric::LatencyMs => ("weir_latency_milliseconds", Histogram, NONE),
            Metric::ServiceMs => ("weir_service_milliseconds", Histogram, VARIANT),
            Metric::CutOffMs => ("weir_cut_off_milliseconds", Histogram, VARIANT),
            Metric::GroupExecutions => ("weir_group_executions_total", Counter, VARIANT),
            Metric::GroupRatioPermille => ("weir_group_ratio_permille_total", Counter, VARIANT),
            Metric::GroupRatioSquares => ("weir_group_ratio_squares_total", Counter, VARIANT),
            Metric::BatchRequests => ("weir_batch_requests", Histogram, VARIANT),
            Metric::FullUs => ("weir_full_microseconds_total", Counter, VARIANT),
            Metric::FullExecutions => ("weir_full_executions_total", Counter, VARIANT),
            Metric::HandoverUs => ("weir_handover_microseconds", Histogram, NONE),
            Metric::CasConflicts => ("weir_cas_conflicts_total", Counter, NONE),
            Metric::SlotTableResets => ("weir_slot_table_resets_total", Counter, NONE),
            Metric::PlanRevision => ("weir_plan_revision", Gauge, NONE),
            Metric::PlanAgeMs => ("weir_plan_age_milliseconds", Gauge, NONE),
            Metric::PlansAccepted => ("weir_plans_accepted_total", Counter, NONE),
            Metric::PlansRefused => ("weir_plans_refused_total", Counter, NONE),
            Metric::PlanPollsFailed => ("weir_plan_polls_failed_total", Counter, NONE),
            Metric::PlanDelayMs => ("weir_plan_delay_milliseconds", Histogram, NONE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::is_name;

    /// A name that stood for two metrics would be read as the first of them.
    #[test]
    fn metric_names_are_unique_and_units_fit_the_kind() {
        for metric in Metric::ALL {
            let name = metric.name();
            assert_eq!(Metric::from_name(name), Some(metric), "{name}");
            let bare = name.strip_prefix(PREFIX).expect(name);
            assert!(is_name(&bare.replace('_', "-")), "{name}");
            let total = bare.ends_with("_total");
            assert_eq!(total, metric.kind() == Kind::Counter, "{name}");
            assert!(!bare.ends_with("_ms") && !bare.ends_with("_us"), "{name}");
            for suffix in ["_bucket", "_sum", "_count"] {
                assert!(!bare.ends_with(suffix), "{name}");
            }
        }
        let distinct: std::collections::BTreeSet<_> = Metric::ALL.into_iter().collect();
        assert_eq!(distinct.len(), Metric::ALL.len());
    }

    #[test]
    fn kinds_and_labels_match_dashboards() {
        for (metric, kind, label) in [
            (Metric::Arrivals, Kind::Counter, None),
            (Metric::Requests, Kind::Counter, Some("variant")),
            (Metric::Refused, Kind::Counter, Some("reason")),
            (Metric::InvalidHeaders, Kind::Counter, Some("header")),
            (Metric::ClassOnTime, Kind::Counter, Some("class")),
            (Metric::PredictedServiceMs, Kind::Gauge, Some("variant")),
            (Metric::PlanAgeMs, Kind::Gauge, None),
            (Metric::NetworkLatencyMs, Kind::Histogram, None),
            (Metric::BatchRequests, Kind::Histogram, Some("variant")),
            (Metric::GroupExecutions, Kind::Counter, Some("variant")),
        ] {
            assert_eq!((metric.kind(), metric.label()), (kind, label), "{metric:?}");
        }
    }
}
