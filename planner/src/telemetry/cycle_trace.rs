//! Trace of one cycle: a span of the cycle, one of each of its stages, and one of each call of a port. The times of the
//! stages are those of the report, and the calls are timed around the ports ([`crate::app`]), so that the control loop
//! knows of neither. Data only: the program exports it, behind [`TraceSink`].

#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use super::status::CycleReport;
use crate::service::Mode;

/// Maximum number of calls in the trace of a cycle; further ones are only counted.
pub const CALLS_MAX: usize = 256;
/// Maximum number of characters of a text in a trace.
pub const TEXT_CHARS_MAX: usize = 1024;

/// Name of the call that offers a plan.
pub(crate) const PUBLISH_PLAN: &str = "publish_plan";

/// Receiver of traces. It must return at once: a cycle waits for it.
pub trait TraceSink: fmt::Debug + Send + Sync {
    /// Takes the trace of a cycle that has ended.
    fn record(&self, trace: CycleTrace);
}

/// Trace of one cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct CycleTrace {
    /// Start of the cycle, Unix time.
    pub begin: Duration,
    /// Spans, each behind its parent; the first is the cycle.
    pub spans: Vec<TraceSpan>,
}

/// Part of a cycle.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpan {
    /// Name, from a closed list.
    pub name: &'static str,
    /// Index of the span that it is a part of; `None` for the cycle.
    pub parent: Option<usize>,
    /// Time from the start of the cycle to the start of the span.
    pub begin: Duration,
    /// Time from the start of the cycle to the end of the span.
    pub end: Duration,
    /// Reason why it failed.
    pub failure: Option<String>,
    /// Attributes, by name.
    pub attributes: Vec<(&'static str, TraceValue)>,
}

/// Value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum TraceValue {
    /// Text of at most [`TEXT_CHARS_MAX`] characters.
    Text(String),
    /// Whole number.
    Count(u64),
    /// Number.
    Number(f64),
    /// Yes or no.
    Flag(bool),
}

impl TraceValue {
    /// Returns the text, cut to its maximum.
    pub(crate) fn text(text: &str) -> TraceValue {
        TraceValue::Text(cut(text))
    }

    /// Returns the number, or the largest one.
    pub(crate) fn count(count: impl TryInto<u64>) -> TraceValue {
        TraceValue::Count(count.try_into().unwrap_or(u64::MAX))
    }
}

/// Returns the beginning of a text, up to the maximum.
pub(crate) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => text.get(..end).unwrap_or_default().to_owned(),
        None => text.to_owned(),
    }
}

/// Call of a port within a cycle.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    /// Name, from a closed list.
    pub(crate) name: &'static str,
    /// Time from the start of the cycle to the start of the call.
    pub(crate) begin: Duration,
    /// Time from the start of the cycle to the end of the call.
    pub(crate) end: Duration,
    /// Reason why it failed.
    pub(crate) failure: Option<String>,
    /// Attributes, by name.
    pub(crate) attributes: Vec<(&'static str, TraceValue)>,
}

/// Calls of one cycle.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Calls {
    list: Vec<Call>,
    /// Number of calls beyond [`CALLS_MAX`].
    omitted: u64,
}

impl Calls {
    /// Adds a call; beyond the maximum it is only counted.
    pub(crate) fn add(&mut self, call: impl FnOnce() -> Call) {
        match self.list.len() < CALLS_MAX {
            true => self.list.push(call()),
            false => self.omitted += 1,
        }
    }
}

impl CycleTrace {
    /// Creates the trace of a service's cycle in `mode`, which took `took` in all.
    pub(crate) fn new(
        (service, mode): (&str, Mode),
        report: &CycleReport,
        took: Duration,
        calls: Calls,
    ) -> CycleTrace {
        let root = TraceSpan {
            name: "cycle",
            parent: None,
            begin: Duration::ZERO,
            end: took,
            failure: failure(report),
            attributes: attributes((service, mode), report, calls.omitted),
        };
        let mut spans = vec![root];
        spans.extend(stages(report));
        let stages: Vec<(&'static str, Duration)> =
            spans.iter().map(|span| (span.name, span.begin)).collect();
        let first_plan = calls.list.iter().position(|call| call.name == PUBLISH_PLAN);
        for (index, call) in calls.list.into_iter().enumerate() {
            let stage = stage_of(&call, index, first_plan, &stages);
            let parent = stages.iter().position(|(name, _)| *name == stage);
            spans.push(TraceSpan {
                name: call.name,
                parent: Some(parent.unwrap_or(0)),
                begin: call.begin,
                end: call.end,
                failure: call.failure,
                attributes: call.attributes,
            });
        }
        CycleTrace {
            begin: Duration::from_millis(report.at_ms),
            spans,
        }
    }
}

/// Name of the stage that a call is part of. The first plan divides the calls after the solve; what the cycle does between
/// two stages is in none of their times, so that these alone would not.
fn stage_of(
    call: &Call,
    index: usize,
    first_plan: Option<usize>,
    stages: &[(&'static str, Duration)],
) -> &'static str {
    let begun = stages.iter().rev().find(|(_, begin)| *begin <= call.begin);
    let by_time = begun.map_or("cycle", |(name, _)| *name);
    let is_second_half = ["actuate", "publish", "confirm"].contains(&by_time);
    match first_plan.filter(|_| is_second_half) {
        None => by_time,
        Some(plan) if index < plan => "actuate",
        Some(plan) if index == plan => "publish",
        Some(_) => "confirm",
    }
}

/// Spans of the stages, one after the other.
fn stages(report: &CycleReport) -> impl Iterator<Item = TraceSpan> {
    let stages = report.stages_ms;
    let each = [
        ("observe", stages.observe),
        ("forecast", stages.forecast),
        ("solve", stages.solve),
        ("actuate", stages.actuate),
        ("publish", stages.publish),
        ("confirm", report.confirm_ms),
    ];
    each.into_iter().scan(0.0, |end_ms, (name, took_ms)| {
        let begin = from_ms(*end_ms);
        *end_ms += took_ms;
        Some(TraceSpan {
            name,
            parent: Some(0),
            begin,
            end: from_ms(*end_ms),
            failure: None,
            attributes: Vec::new(),
        })
    })
}

/// Returns why a cycle failed: the plans of the proxies become older by it.
fn failure(report: &CycleReport) -> Option<String> {
    match (report.revision, report.plans_rejected) {
        (None, _) => Some("no plan could be made".to_owned()),
        (Some(_), 0) => None,
        (Some(_), rejected) => Some(format!("{rejected} plans failed their check")),
    }
}

fn attributes(
    (service, mode): (&str, Mode),
    report: &CycleReport,
    omitted: u64,
) -> Vec<(&'static str, TraceValue)> {
    let mut attributes = vec![
        ("weir.service", TraceValue::text(service)),
        ("weir.mode", TraceValue::text(mode.label())),
        ("weir.outcome", TraceValue::text(report.outcome.label())),
        ("weir.kept", TraceValue::Flag(report.kept)),
        ("weir.reason", TraceValue::text(&report.why)),
        (
            "weir.scrapes_answered",
            TraceValue::count(report.scrapes_answered),
        ),
        (
            "weir.scrapes_failed",
            TraceValue::count(report.scrapes_failed),
        ),
        (
            "weir.proxies_without_weir",
            TraceValue::count(report.proxies_without_weir),
        ),
        (
            "weir.resizes_confirmed",
            TraceValue::count(report.resizes_confirmed),
        ),
        (
            "weir.resizes_failed",
            TraceValue::count(report.resizes_failed),
        ),
        (
            "weir.plans_published",
            TraceValue::count(report.plans_published),
        ),
        (
            "weir.plans_rejected",
            TraceValue::count(report.plans_rejected),
        ),
    ];
    let revision = report
        .revision
        .map(|revision| TraceValue::count(revision.0));
    let number = |value: f64| TraceValue::Number(value);
    let known = [
        ("weir.revision", revision),
        (
            "weir.demand_rps",
            report.demand_rps.map(|rate| number(rate.0)),
        ),
        (
            "weir.measured_rps",
            report.measured_rps.map(|rate| number(rate.0)),
        ),
        ("weir.objective", report.objective.map(number)),
        (
            "weir.calls_omitted",
            (omitted > 0).then_some(TraceValue::Count(omitted)),
        ),
    ];
    let known = known.into_iter();
    attributes.extend(known.filter_map(|(name, value)| Some((name, value?))));
    attributes
}

fn from_ms(ms: f64) -> Duration {
    Duration::try_from_secs_f64(ms / 1000.0).unwrap_or_default()
}
