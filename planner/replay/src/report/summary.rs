//! Summary of a contender's outcomes. On time is judged as the client sees it: answered within the
//! budget, with the requested accuracy or more.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::ReportError;
use super::stages::{self, OfStage};
use crate::bound::{Bound, MinCoreSeconds};
use crate::request::{Fate, Outcome, Play, Request};
use crate::scenario::Scenario;

/// Maximum delay of an early rejection, after which its client can still try elsewhere.
const AT_ONCE: Duration = Duration::from_millis(50);

/// Summary of a contender. Times and accuracies cover all answers, including late ones.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    /// Name.
    pub contender: String,
    /// Requests sent.
    pub sent: u64,
    /// Answered within the budget, with sufficient accuracy.
    pub on_time: u64,
    /// On-time answers, percent of all sent.
    pub on_time_percent: f64,
    /// Summary of each class, in the scenario's order; empty if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<OfClass>,
    /// Summary of each stage of a pipeline; empty if there is only one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stages: Vec<OfStage>,
    /// Answered within the budget, with insufficient accuracy.
    pub too_inaccurate: u64,
    /// Answered after the budget.
    pub late: u64,
    /// Rejected, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Rejections within 50 ms of the request's first arrival, percent of all; `None` without rejections.
    pub refused_at_once_percent: Option<f64>,
    /// Client disconnects.
    pub disconnected: u64,
    /// Lost in a crash or restart.
    pub lost: u64,
    /// Median latency from sending to the answer's arrival, ms; `None` without answers.
    pub p50_ms: Option<f64>,
    /// 95th percentile of the latency.
    pub p95_ms: Option<f64>,
    /// 99th percentile of the latency.
    pub p99_ms: Option<f64>,
    /// Maximum latency.
    pub max_ms: Option<f64>,
    /// Mean accuracy of the answers, percent.
    pub mean_accuracy: Option<f64>,
    /// Actual cores × seconds.
    pub core_seconds: f64,
    /// Mean price of the actual cores over the length of the load; `None` if no variant has a price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_cost: Option<f64>,
    /// Published plans.
    pub plans: u64,
    /// Changes of a variant's actual cores.
    pub resizes: u64,
    /// Clairvoyant bound with the same cores.
    pub bound: Option<Yardstick>,
    /// Minimum core-seconds of as many on-time answers.
    pub min_core_seconds: Option<MinCoreSeconds>,
}

/// Summary of a class.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct OfClass {
    /// Name.
    pub name: String,
    /// Requests sent.
    pub sent: u64,
    /// Answered within the budget, with sufficient accuracy.
    pub on_time: u64,
    /// On-time answers, percent of the class's sent.
    pub on_time_percent: f64,
}

/// Clairvoyant bound and the contender's fraction of it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Yardstick {
    /// The bound.
    #[serde(flatten)]
    pub bound: Bound,
    /// On-time answers, percent of the bound; `None` if the bound is 0.
    pub reached_percent: Option<f64>,
}

impl Summary {
    /// Summarizes a play.
    ///
    /// # Errors
    /// The play does not have one outcome for each request.
    pub fn of(
        scenario: &Scenario,
        requests: &[Request],
        play: &Play,
        yardstick: Option<&(Bound, Option<MinCoreSeconds>)>,
    ) -> Result<Summary, ReportError> {
        let paired = paired(requests, play);
        if play.outcomes.len() != requests.len()
            || paired
                .clone()
                .any(|(request, outcome)| request.id != outcome.request)
        {
            return Err(ReportError::Books {
                contender: play.contender.clone(),
                outcomes: play.outcomes.len(),
                requests: requests.len(),
            });
        }
        let mut sum = Summary::empty(play);
        let mut latencies: Vec<Duration> = Vec::new();
        let (mut accuracies, mut at_once) = (0.0, 0);
        for (request, outcome) in paired {
            match Verdict::of(scenario, request, outcome, play) {
                Verdict::OnTime => sum.on_time += 1,
                Verdict::TooInaccurate => sum.too_inaccurate += 1,
                Verdict::Late => sum.late += 1,
                Verdict::Refused(reason) => {
                    *sum.refused.entry(reason).or_default() += 1;
                    let refused_at = outcome.ended.saturating_sub(request.way_back);
                    at_once += u64::from(refused_at <= request.arrives + AT_ONCE);
                }
                Verdict::Disconnected => sum.disconnected += 1,
                Verdict::Lost => sum.lost += 1,
            }
            if matches!(outcome.fate, Fate::Answered(_)) {
                latencies.push(outcome.ended.saturating_sub(request.sent));
                accuracies += accuracy(scenario, play, outcome);
            }
        }
        latencies.sort_unstable();
        let quantile = |percent| Some(ms(nearest_rank(&latencies, percent)?));
        sum.sent = requests.len() as u64;
        sum.on_time_percent = percent(sum.on_time, sum.sent).unwrap_or(0.0);
        sum.classes = by_class(scenario, requests, play);
        sum.stages = stages::by_stage(scenario, play);
        sum.refused_at_once_percent = percent(at_once, sum.refused.values().sum());
        sum.p50_ms = quantile(50);
        sum.p95_ms = quantile(95);
        sum.p99_ms = quantile(99);
        sum.max_ms = quantile(100);
        let has_price = scenario
            .service
            .variants
            .iter()
            .any(|known| known.price != 1.0);
        sum.mean_cost = has_price.then(|| rounded(mean_cost(scenario, play)));
        let answers = latencies.len();
        sum.mean_accuracy = (answers > 0).then(|| rounded(accuracies / answers as f64));
        if let Some((bound, min)) = yardstick {
            sum.bound = Some(Yardstick {
                bound: bound.clone(),
                reached_percent: percent(sum.on_time, bound.on_time),
            });
            sum.min_core_seconds = min.clone().map(|min| MinCoreSeconds {
                core_seconds: rounded(min.core_seconds),
                ..min
            });
        }
        Ok(sum)
    }

    /// Total number of rejections.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.values().sum()
    }

    fn empty(play: &Play) -> Summary {
        Summary {
            contender: play.contender.clone(),
            sent: 0,
            on_time: 0,
            on_time_percent: 0.0,
            classes: Vec::new(),
            stages: Vec::new(),
            too_inaccurate: 0,
            late: 0,
            refused: BTreeMap::new(),
            refused_at_once_percent: None,
            disconnected: 0,
            lost: 0,
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
            max_ms: None,
            mean_accuracy: None,
            core_seconds: rounded(play.core_seconds),
            mean_cost: None,
            plans: play.plans.len() as u64,
            resizes: play.resizes.len() as u64,
            bound: None,
            min_core_seconds: None,
        }
    }
}

/// Mean price of the actual cores over the length of the load, of at least a second. A core without a price costs 1.
#[must_use]
pub fn mean_cost(scenario: &Scenario, play: &Play) -> f64 {
    let length_s = scenario.length.as_secs_f64().max(1.0);
    let prices = scenario.service.variants.iter().map(|known| known.price);
    let each = prices.zip(&play.variant_core_seconds);
    each.map(|(price, core_seconds)| price * core_seconds / length_s)
        .sum()
}

/// Classification of an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    OnTime,
    TooInaccurate,
    Late,
    Refused(&'static str),
    Disconnected,
    Lost,
}

impl Verdict {
    pub(super) fn of(
        scenario: &Scenario,
        request: &Request,
        outcome: &Outcome,
        play: &Play,
    ) -> Verdict {
        let is_too_inaccurate = || {
            let mut variants = stages::variants(play, outcome);
            variants.any(|variant| of_variant(scenario, variant) < request.min_accuracy)
        };
        match outcome.fate {
            Fate::Answered(_) if outcome.ended > request.deadline() => Verdict::Late,
            Fate::Answered(_) if is_too_inaccurate() => Verdict::TooInaccurate,
            Fate::Answered(_) => Verdict::OnTime,
            Fate::Refused(reason) => Verdict::Refused(reason),
            Fate::Disconnected => Verdict::Disconnected,
            Fate::Lost => Verdict::Lost,
        }
    }
}

/// Number of on-time answers.
pub(super) fn on_time(scenario: &Scenario, requests: &[Request], play: &Play) -> u64 {
    let is_on_time = |(request, outcome): &(&Request, &Outcome)| {
        Verdict::of(scenario, request, outcome, play) == Verdict::OnTime
    };
    paired(requests, play).filter(is_on_time).count() as u64
}

/// Summary of each class; empty if there is only one.
fn by_class(scenario: &Scenario, requests: &[Request], play: &Play) -> Vec<OfClass> {
    if scenario.classes.len() < 2 {
        return Vec::new();
    }
    let mut counts = vec![(0, 0); scenario.classes.len()];
    for (request, outcome) in paired(requests, play) {
        if let Some((sent, on_time)) = counts.get_mut(usize::from(request.class)) {
            *sent += 1;
            let verdict = Verdict::of(scenario, request, outcome, play);
            *on_time += u64::from(verdict == Verdict::OnTime);
        }
    }
    let named = scenario.classes.iter().zip(counts);
    let class = |(name, (sent, on_time)): (&String, (u64, u64))| OfClass {
        name: name.clone(),
        sent,
        on_time,
        on_time_percent: percent(on_time, sent).unwrap_or(0.0),
    };
    named.map(class).collect()
}

/// Pairs each request with its outcome.
pub(super) fn paired<'a>(
    requests: &'a [Request],
    play: &'a Play,
) -> impl Iterator<Item = (&'a Request, &'a Outcome)> + Clone {
    requests.iter().zip(&play.outcomes)
}

/// Accuracy of an answer, percent: of its variant, or the product over the stages of a pipeline.
pub(super) fn accuracy(scenario: &Scenario, play: &Play, outcome: &Outcome) -> f64 {
    let mut variants = stages::variants(play, outcome);
    let first = variants
        .next()
        .map_or(0.0, |first| of_variant(scenario, first));
    variants.fold(first, |product, variant| {
        product * of_variant(scenario, variant) / 100.0
    })
}

/// Accuracy of a variant, percent; 0 for an unknown one.
fn of_variant(scenario: &Scenario, variant: u16) -> f64 {
    let known = scenario.service.variants.get(usize::from(variant));
    known.map_or(0.0, |known| known.accuracy)
}

/// Rounds to a thousandth, which hides floating-point differences between machines.
pub(super) fn rounded(value: f64) -> f64 {
    let rounded = (value * 1000.0).round() / 1000.0;
    // Avoids negative zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}

pub(super) fn percent(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| rounded(100.0 * part as f64 / of as f64))
}

fn ms(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e3)
}

/// Nearest-rank percentile: the smallest value that `percent` percent of `sorted` do not exceed.
fn nearest_rank(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
