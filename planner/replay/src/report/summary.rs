//! What became of a contender's requests, in sums. On time is judged as the client sees it: answered
//! within the budget, by a variant as accurate as asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;

use super::ReportError;
use crate::bound::{Bound, Least};
use crate::request::{Fate, Outcome, Play, Request};
use crate::scenario::Scenario;

/// How soon a refusal is of use: its client can still ask elsewhere.
const AT_ONCE: Duration = Duration::from_millis(50);

/// One contender's sums. Times and accuracies are of all answers, late ones included.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Summary {
    /// Its name.
    pub contender: String,
    /// Requests sent.
    pub sent: u64,
    /// Answered within the budget, as accurately as asked.
    pub on_time: u64,
    /// The same, of all sent.
    pub on_time_percent: f64,
    /// What became of each class, in the scenario's order; nothing where there is but one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<OfClass>,
    /// Answered within the budget, by a variant less accurate than asked.
    pub too_inaccurate: u64,
    /// Answered after the budget.
    pub late: u64,
    /// Refused, by reason.
    pub refused: BTreeMap<&'static str, u64>,
    /// Of those refused, the part that was refused within 50 ms of its first arrival, percent; `None` without any.
    pub refused_at_once_percent: Option<f64>,
    /// Left by the client.
    pub gone: u64,
    /// Taken by a crash or restart.
    pub lost: u64,
    /// Median from sending to the answer's arrival, ms; `None` without answers.
    pub p50_ms: Option<f64>,
    /// 95th percentile likewise.
    pub p95_ms: Option<f64>,
    /// 99th percentile likewise.
    pub p99_ms: Option<f64>,
    /// The longest likewise.
    pub max_ms: Option<f64>,
    /// Mean accuracy of the answers, percent.
    pub mean_accuracy: Option<f64>,
    /// Cores × seconds in force.
    pub core_seconds: f64,
    /// Plans published.
    pub plans: u64,
    /// Changes of a variant's cores in force.
    pub resizes: u64,
    /// What nobody could have beaten with the same cores.
    pub bound: Option<Yardstick>,
    /// What as many on-time answers cost at least.
    pub least: Option<Least>,
}

/// One class's part of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OfClass {
    /// Its name.
    pub name: String,
    /// Requests of it sent.
    pub sent: u64,
    /// Answered within the budget, as accurately as asked.
    pub on_time: u64,
    /// The same, of all sent of it.
    pub on_time_percent: f64,
}

/// A bound and how near the contender came.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Yardstick {
    /// The bound.
    #[serde(flatten)]
    pub bound: Bound,
    /// The contender's on-time answers of it, percent; `None` where nothing could be on time.
    pub reached_percent: Option<f64>,
}

impl Summary {
    /// Sums up a play.
    ///
    /// # Errors
    /// The play has not one outcome for each request.
    pub fn of(
        scenario: &Scenario,
        requests: &[Request],
        play: &Play,
        yardstick: Option<&(Bound, Option<Least>)>,
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
            match Verdict::of(scenario, request, outcome) {
                Verdict::OnTime => sum.on_time += 1,
                Verdict::TooInaccurate => sum.too_inaccurate += 1,
                Verdict::Late => sum.late += 1,
                Verdict::Refused(reason) => {
                    *sum.refused.entry(reason).or_default() += 1;
                    let said = outcome.ended.saturating_sub(request.way_back);
                    at_once += u64::from(said <= request.arrives + AT_ONCE);
                }
                Verdict::Gone => sum.gone += 1,
                Verdict::Lost => sum.lost += 1,
            }
            if let Fate::Answered(variant) = outcome.fate {
                latencies.push(outcome.ended.saturating_sub(request.sent));
                accuracies += accuracy(scenario, variant);
            }
        }
        latencies.sort_unstable();
        let quantile = |percent| Some(ms(nearest_rank(&latencies, percent)?));
        sum.sent = requests.len() as u64;
        sum.on_time_percent = percent(sum.on_time, sum.sent).unwrap_or(0.0);
        sum.classes = by_class(scenario, requests, play);
        sum.refused_at_once_percent = percent(at_once, sum.refused.values().sum());
        sum.p50_ms = quantile(50);
        sum.p95_ms = quantile(95);
        sum.p99_ms = quantile(99);
        sum.max_ms = quantile(100);
        let answers = latencies.len();
        sum.mean_accuracy = (answers > 0).then(|| rounded(accuracies / answers as f64));
        if let Some((bound, least)) = yardstick {
            sum.bound = Some(Yardstick {
                bound: bound.clone(),
                reached_percent: percent(sum.on_time, bound.on_time),
            });
            sum.least = least.clone().map(|least| Least {
                core_seconds: rounded(least.core_seconds),
                ..least
            });
        }
        Ok(sum)
    }

    /// All refusals.
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
            too_inaccurate: 0,
            late: 0,
            refused: BTreeMap::new(),
            refused_at_once_percent: None,
            gone: 0,
            lost: 0,
            p50_ms: None,
            p95_ms: None,
            p99_ms: None,
            max_ms: None,
            mean_accuracy: None,
            core_seconds: rounded(play.core_seconds),
            plans: play.plans.len() as u64,
            resizes: play.resizes.len() as u64,
            bound: None,
            least: None,
        }
    }
}

/// What a fate was worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    OnTime,
    TooInaccurate,
    Late,
    Refused(&'static str),
    Gone,
    Lost,
}

impl Verdict {
    pub(super) fn of(scenario: &Scenario, request: &Request, outcome: &Outcome) -> Verdict {
        match outcome.fate {
            Fate::Answered(_) if outcome.ended > request.deadline() => Verdict::Late,
            Fate::Answered(variant) if accuracy(scenario, variant) < request.min_accuracy => {
                Verdict::TooInaccurate
            }
            Fate::Answered(_) => Verdict::OnTime,
            Fate::Refused(reason) => Verdict::Refused(reason),
            Fate::Gone => Verdict::Gone,
            Fate::Lost => Verdict::Lost,
        }
    }
}

/// How many were on time.
pub(super) fn on_time(scenario: &Scenario, requests: &[Request], play: &Play) -> u64 {
    let is_on_time = |(request, outcome): &(&Request, &Outcome)| {
        Verdict::of(scenario, request, outcome) == Verdict::OnTime
    };
    paired(requests, play).filter(is_on_time).count() as u64
}

/// What became of each class; nothing where there is but one.
fn by_class(scenario: &Scenario, requests: &[Request], play: &Play) -> Vec<OfClass> {
    if scenario.classes.len() < 2 {
        return Vec::new();
    }
    let mut counts = vec![(0, 0); scenario.classes.len()];
    for (request, outcome) in paired(requests, play) {
        if let Some((sent, on_time)) = counts.get_mut(usize::from(request.class)) {
            *sent += 1;
            let verdict = Verdict::of(scenario, request, outcome);
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

/// Each request with its outcome.
pub(super) fn paired<'a>(
    requests: &'a [Request],
    play: &'a Play,
) -> impl Iterator<Item = (&'a Request, &'a Outcome)> + Clone {
    requests.iter().zip(&play.outcomes)
}

/// A variant's accuracy in percent; 0 for one that is not there.
pub(super) fn accuracy(scenario: &Scenario, variant: u16) -> f64 {
    let known = scenario.service.variants.get(usize::from(variant));
    known.map_or(0.0, |known| known.accuracy)
}

/// To a thousandth: what differs beyond that between machines is not told.
pub(super) fn rounded(value: f64) -> f64 {
    let rounded = (value * 1000.0).round() / 1000.0;
    // There is one zero.
    if rounded == 0.0 { 0.0 } else { rounded }
}

fn percent(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| rounded(100.0 * part as f64 / of as f64))
}

fn ms(duration: Duration) -> f64 {
    rounded(duration.as_secs_f64() * 1e3)
}

/// The least of `sorted` that so many percent of it do not exceed.
fn nearest_rank(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}
