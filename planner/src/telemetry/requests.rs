//! Requests of a service as operators see them while it runs: outcomes, the share on time with its error budget, waits,
//! and service times, of the latest cycle and of longer windows. Data only; no decisions.
//!
//! Arrivals of a pipeline are those of the first stage and answers and their latencies those of the last; refusals,
//! disconnects and waits are those of all stages.

mod windows;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use crate::observe::buckets::{Buckets, quantile, total};
use crate::observe::{RequestIncrease, RequestSample, Waiting};
use crate::service::{Service, Stage, Variant};

pub use windows::{BLOCKS_MAX, RecordError, RequestWindows, WINDOWS, WindowRecord};

/// Requests of a service.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RequestStatus {
    /// Part of the arrivals that must be answered on time: `onTimeTarget` of the service.
    pub on_time_target: f64,
    /// Requests that the proxies hold, those whose bodies arrive included; `null` if no proxy has answered for a minute.
    pub waiting: Option<u64>,
    /// Requests that wait for a variant, by its name.
    pub waiting_by_variant: BTreeMap<String, u64>,
    /// Requests since the cycle before; `null` if no proxy has answered in this one and before.
    pub latest: Option<RequestWindow>,
    /// The last 5 minutes, hour and 6 hours, as far as this planner has seen them.
    pub windows: Vec<RequestWindow>,
    /// Requests of each scraped proxy since its answer before, by its name in the scrape.
    pub proxies: BTreeMap<String, ProxyRequests>,
}

/// Requests within a time that ends now.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct RequestWindow {
    /// Length of the window, in seconds.
    pub window_s: f64,
    /// Time within the window in which requests were counted, in seconds.
    pub covered_s: f64,
    /// Arrivals and outcomes.
    #[serde(flatten)]
    pub counts: RequestCounts,
    /// Part of the arrivals that were answered on time; `null` without arrivals.
    pub on_time_share: Option<f64>,
    /// Part of the error budget that is left: 1 with none used, below 0 where more is used than there is. The budget is
    /// the part of the arrivals that need not be on time. `null` without arrivals.
    pub error_budget_left: Option<f64>,
    /// Mean accuracy of the answers; over several stages the product of their means. `null` without answers.
    pub accuracy_percent: Option<f64>,
    /// Time queued before dispatch, in ms.
    pub wait_ms: Option<Distribution>,
    /// Time left on arrival of requests that state their send time, in ms.
    pub arrival_slack_ms: Option<Distribution>,
    /// Time left at dispatch, in ms.
    pub dispatch_slack_ms: Option<Distribution>,
    /// Time to the end of answers that are no errors, in ms: from the client's send, or from arrival where the request
    /// states none.
    pub latency_ms: Option<Distribution>,
    /// Variants by name.
    pub variants: BTreeMap<String, VariantWindow>,
}

/// Arrivals and outcomes of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct RequestCounts {
    /// Requests that some variant could have served: the demand.
    pub arrivals: u64,
    /// Requests that no variant could serve.
    pub unservable: u64,
    /// Requests that ended: the sum of the next four and of all refusals.
    pub ended: u64,
    /// Answers in time and without an error.
    pub on_time: u64,
    /// Answers after the deadline.
    pub late: u64,
    /// Answers in time that are errors of the server.
    pub failed: u64,
    /// Requests whose client disconnected before the answer.
    pub client_disconnects: u64,
    /// Refusals by reason, of reasons that occurred; `other` for all that this planner does not know.
    pub refused: BTreeMap<String, u64>,
}

/// Answers of one variant within a window.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct VariantWindow {
    /// Answers in time and without an error.
    pub on_time: u64,
    /// Answers after the deadline.
    pub late: u64,
    /// Answers in time that are errors of the server.
    pub failed: u64,
    /// Service time in the plan in force, in ms; `null` without a plan.
    pub predicted_ms: Option<f64>,
    /// Mean measured service time, in ms, with executions that were cut off; `null` without executions.
    pub measured_ms: Option<f64>,
    /// Service time, in ms, without executions that were cut off.
    pub service_ms: Option<Distribution>,
}

/// Distribution of a time, in the unit that the field's name ends in.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Distribution {
    /// Number of values.
    pub count: u64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Buckets of the proxies' histogram that are not empty, by rising edge.
    pub buckets: Vec<Bucket>,
}

/// Bucket of a histogram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Bucket {
    /// Exclusive lower edge.
    pub above: f64,
    /// Inclusive upper edge; `null` for the last bucket, which has none.
    pub up_to: Option<f64>,
    /// Number of values.
    pub count: u64,
}

/// Requests of one proxy since its answer before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ProxyRequests {
    /// Arrivals and outcomes; all zero while the proxy has answered only once.
    #[serde(flatten)]
    pub counts: RequestCounts,
    /// Requests that the proxy holds; `null` if it has not answered for a minute.
    pub waiting: Option<u64>,
}

/// Requests since the cycle before.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct CycleRequests {
    /// Arrivals and outcomes.
    #[serde(flatten)]
    pub counts: RequestCounts,
    /// Part of the arrivals that were answered on time; `null` without arrivals.
    pub on_time_share: Option<f64>,
    /// Mean accuracy of the answers; `null` without answers.
    pub accuracy_percent: Option<f64>,
    /// Requests that the proxies hold; `null` if no proxy has answered for a minute.
    pub waiting: Option<u64>,
}

impl CycleRequests {
    /// Returns the requests of a cycle; `None` if no proxy has answered in this one and before.
    pub fn of(sample: &RequestSample, service: &Service) -> Option<CycleRequests> {
        let increase = sample.sum()?;
        let counts = RequestCounts::of(&increase, service);
        Some(CycleRequests {
            on_time_share: counts.on_time_share(),
            accuracy_percent: accuracy_percent(&increase, service),
            counts,
            waiting: waiting(sample).map(|waiting| whole(waiting.held)),
        })
    }
}

impl RequestCounts {
    fn of(increase: &RequestIncrease, service: &Service) -> RequestCounts {
        let last = service.stages.last();
        let answers = last.map(|stage| answers(increase, service, stage));
        let (on_time, late, failed) =
            (answers.into_iter().flatten()).fold((0, 0, 0), |sum, (_, answers)| {
                let [on_time, late, failed] = answers.map(whole);
                (sum.0 + on_time, sum.1 + late, sum.2 + failed)
            });
        let refused = increase.refused.each();
        let refused = refused.map(|(reason, count)| (reason.to_owned(), whole(count)));
        let refused: BTreeMap<_, _> = refused.filter(|(_, count)| *count > 0).collect();
        let client_disconnects = whole(increase.client_disconnects);
        RequestCounts {
            arrivals: whole(increase.arrivals),
            unservable: whole(increase.unservable),
            ended: on_time + late + failed + client_disconnects + refused.values().sum::<u64>(),
            on_time,
            late,
            failed,
            client_disconnects,
            refused,
        }
    }

    /// Part of the arrivals that were answered on time. Answers to earlier arrivals may make it more than all.
    fn on_time_share(&self) -> Option<f64> {
        let share = self.on_time as f64 / self.arrivals as f64;
        (self.arrivals > 0).then_some(share.min(1.0))
    }
}

impl RequestWindow {
    fn of(
        (window, covered): (Duration, Duration),
        increase: &RequestIncrease,
        service: &Service,
        predicted_ms: &BTreeMap<String, f64>,
    ) -> RequestWindow {
        let counts = RequestCounts::of(increase, service);
        let share = counts.on_time_share();
        let budget = |share: f64| 1.0 - (1.0 - share) / (1.0 - service.on_time_target);
        let variants = service.variants.iter().map(|variant| {
            let name = &variant.name;
            let increase = increase.variants.get(name).cloned().unwrap_or_default();
            let window = VariantWindow {
                on_time: whole(increase.on_time),
                late: whole(increase.late),
                failed: whole(increase.failed),
                predicted_ms: predicted_ms.get(name).copied(),
                measured_ms: increase.executions.mean_ms(),
                service_ms: Distribution::of(&increase.service_ms),
            };
            (name.clone(), window)
        });
        RequestWindow {
            window_s: window.as_secs_f64(),
            covered_s: covered.as_secs_f64(),
            counts,
            on_time_share: share,
            error_budget_left: share.map(budget),
            accuracy_percent: accuracy_percent(increase, service),
            wait_ms: Distribution::of(&increase.wait_ms),
            arrival_slack_ms: Distribution::of(&increase.arrival_slack_ms),
            dispatch_slack_ms: Distribution::of(&increase.dispatch_slack_ms),
            latency_ms: Distribution::of(&increase.latency_ms),
            variants: variants.collect(),
        }
    }
}

impl Distribution {
    /// Returns the distribution of a histogram; `None` without values.
    fn of(buckets: &Buckets) -> Option<Distribution> {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|part| quantile(buckets, part));
        let mut before = (0.0, 0.0);
        let each = buckets.iter().filter_map(|(edge, count)| {
            let bucket = Bucket {
                above: before.0,
                up_to: edge.is_finite().then_some(*edge),
                count: whole(count - before.1),
            };
            before = (*edge, *count);
            (bucket.count > 0).then_some(bucket)
        });
        Some(Distribution {
            count: whole(total(buckets)),
            p50: p50?,
            p90: p90?,
            p99: p99?,
            buckets: each.collect(),
        })
    }
}

/// Requests that wait at all proxies; `None` if none has answered for a minute.
fn waiting(sample: &RequestSample) -> Option<Waiting> {
    let mut each = sample.waiting.values();
    let mut sum = each.next()?.clone();
    for more in each {
        sum.held += more.held;
        for (name, count) in &more.variants {
            *sum.variants.entry(name.clone()).or_default() += count;
        }
    }
    Some(sum)
}

/// Answers of a stage's variants: on time, late, failed.
fn answers<'a>(
    increase: &'a RequestIncrease,
    service: &'a Service,
    stage: &Stage,
) -> impl Iterator<Item = (&'a Variant, [f64; 3])> {
    let variants = service.variants.get(stage.variants.clone());
    variants.into_iter().flatten().filter_map(|variant| {
        let answers = increase.variants.get(&variant.name)?;
        Some((variant, [answers.on_time, answers.late, answers.failed]))
    })
}

/// Mean accuracy of the answers; over several stages the product of their means.
fn accuracy_percent(increase: &RequestIncrease, service: &Service) -> Option<f64> {
    let of_stage = |stage: &Stage| {
        let each = answers(increase, service, stage);
        let (weighted, all) = each.fold((0.0, 0.0), |sum, (variant, answers)| {
            let answers: f64 = answers.iter().sum();
            (sum.0 + variant.accuracy * answers, sum.1 + answers)
        });
        (all > 0.0).then(|| weighted / all / 100.0)
    };
    let stages = service.stages.iter().map(of_stage);
    let parts: Option<Vec<f64>> = stages.collect();
    parts.map(|parts| 100.0 * parts.iter().product::<f64>())
}

/// Returns a count without rounding errors.
fn whole(count: f64) -> u64 {
    count.round() as u64
}
