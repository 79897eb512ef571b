//! Deadline of a request, from its headers.
//!
//! deadline = start + budget, each from the first valid header: the budget's are in [`BudgetHeader::KNOWN`], or configured;
//! start `x-slo-start`, `x-request-start`, now. Of a header that comes several times, in lines of its own or merged into one
//! by a proxy, the first value counts.
//!
//! A client cannot make its request *more* urgent than the most urgent honest one. Budgets are clamped, a
//! start in the future or too old counts as now, and a deadline already past is an error ([`Expired`])
//! instead of the highest urgency. The estimated clock offset of a source ([`skew`](crate::request::skew))
//! moves a valid start by at most the skew allowance, and an invalid or absent one not at all.

use crate::request::skew::{Correction, Sources};
use crate::time::{Mono, Now, Span, Wall};

use super::budget::{BudgetHeader, Source, budget};
use super::parse;
use super::wire::{BUDGETS_MAX, Field, Wire};

const SECOND: Span = Span::from_secs(1);

/// Configured bounds of deadlines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Budget of a request without one.
    pub default: Span,
    /// Minimum budget; smaller ones are raised to it.
    pub min: Span,
    /// Maximum budget; larger ones are cut to it.
    pub max: Span,
    /// Maximum age of a valid start; an older one counts as now.
    pub max_age: Span,
    /// Offset by which a client's clock may be ahead of ours without being invalid, and the largest correction
    /// of a start, either way.
    pub skew_allowance: Span,
    /// Longest network latency of any source's fastest request; what its starts are older is clock offset.
    pub delay_allowance: Span,
    /// Reserve for the network latency of the answer.
    pub reserve: Span,
    /// Time for which an answer that has begun may continue after the deadline.
    pub finish: Span,
    /// Whether `x-slo-deadline` of an earlier hop is trusted.
    pub trust_deadline: bool,
    /// Headers that carry a budget, in order of precedence.
    pub budgets: Vec<BudgetHeader>,
}

/// Deadline of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// Time at which its answer must leave: the client's deadline less the reserve.
    pub at: Mono,
    /// The client's deadline.
    pub client_at: Mono,
    /// The client's deadline on the wall clock, for the next hop.
    pub client_wall: Wall,
}

/// The deadline had passed when the request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired;

/// Result of reading the headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Deadline, if there is time left.
    pub deadline: Result<Deadline, Expired>,
    /// Fields with invalid values.
    pub invalid: InvalidHeaders,
    /// Whether a start is stated at all.
    pub stamped: bool,
    /// Network latency, if a valid start is stated.
    pub age: Option<Span>,
    /// Whether the source's clock offset exceeds the allowed correction.
    pub clamped: bool,
}

/// Set of [`Field`]s, and of headers with budgets that the configuration names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InvalidHeaders(u64);

impl InvalidHeaders {
    /// Adds a field.
    pub fn add(&mut self, field: Field) {
        self.0 |= 1 << field as u16;
    }

    /// Adds the header of a budget.
    pub(super) fn add_source(&mut self, source: Source) {
        match source {
            Source::Known(field) => self.add(field),
            Source::Named(index) => self.0 |= 1 << (Field::ALL.len() + index),
        }
    }

    /// Headers with budgets of the set that the configuration names, by their index there.
    pub fn named(self) -> impl Iterator<Item = usize> {
        let named = 0..BUDGETS_MAX;
        named.filter(move |index| self.0 & (1 << (Field::ALL.len() + index)) != 0)
    }

    /// Adds all of another set.
    pub fn extend(&mut self, other: InvalidHeaders) {
        self.0 |= other.0;
    }

    /// Whether nothing was invalid.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Fields of the set.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::VALIDATED
            .into_iter()
            .filter(move |field| self.0 & (1 << *field as u16) != 0)
    }
}

/// Reads the deadline of a request that arrived `now`. With `skew`, its start is corrected by the estimated
/// clock offset of its source, and updates that estimate.
#[must_use]
pub fn read(
    policy: &Policy,
    wire: &Wire<'_>,
    now: Now,
    skew: Option<(&mut Sources, u64)>,
) -> Reading {
    let mut invalid = InvalidHeaders::default();
    let mut sent = None;
    let left = match trusted_left(policy, wire, now, &mut invalid) {
        Some(left) => left,
        None => {
            let budget = budget(policy, wire, now, &mut invalid);
            sent = read_start(policy, wire, now, skew, &mut invalid);
            budget.saturating_sub(sent.map_or(Span::ZERO, |sent| sent.age))
        }
    };
    let usable = left.saturating_sub(policy.reserve);
    let deadline = if usable.is_zero() {
        Err(Expired)
    } else {
        Ok(Deadline {
            at: now.mono + usable,
            client_at: now.mono + left,
            client_wall: now.wall + left,
        })
    };
    Reading {
        deadline,
        invalid,
        stamped: Field::STARTS.iter().any(|start| wire.get(*start).is_some()),
        age: sent.map(|sent| sent.age),
        clamped: sent.is_some_and(|sent| sent.clamped),
    }
}

/// Time left by an earlier hop's deadline, if it is present, valid and trusted.
fn trusted_left(
    policy: &Policy,
    wire: &Wire<'_>,
    now: Now,
    invalid: &mut InvalidHeaders,
) -> Option<Span> {
    let value = wire
        .get(Field::Deadline)
        .filter(|_| policy.trust_deadline)?;
    let Some(at) = parse::epoch(parse::first(value)).map(|epoch| epoch.at) else {
        invalid.add(Field::Deadline);
        return None;
    };
    if now.wall.since(at) > policy.max_age {
        invalid.add(Field::Deadline);
        return None;
    }
    Some(at.since(now.wall).min(policy.max))
}

/// Age of a request by the first valid start that it states, by its client's clock: also where an earlier hop's deadline
/// counts.
#[must_use]
pub fn stated_age(policy: &Policy, wire: &Wire<'_>, now: Now) -> Option<Span> {
    let mut ignored = InvalidHeaders::default();
    read_start(policy, wire, now, None, &mut ignored).map(|sent| sent.age)
}

/// Valid time of sending.
#[derive(Debug, Clone, Copy)]
struct SendTime {
    age: Span,
    clamped: bool,
}

/// Age of the request, from its first valid start header.
fn read_start(
    policy: &Policy,
    wire: &Wire<'_>,
    now: Now,
    skew: Option<(&mut Sources, u64)>,
    invalid: &mut InvalidHeaders,
) -> Option<SendTime> {
    for field in Field::STARTS {
        let Some(value) = wire.get(field) else {
            continue;
        };
        let believed = parse::epoch(parse::first(value)).filter(|start| {
            now.wall.since(start.at) <= policy.max_age
                && start.at.since(now.wall) <= policy.skew_allowance
        });
        match believed {
            // It was sent at any time of that second; the latest costs the client nothing, and tells nothing of its clock.
            Some(start) if start.is_second => {
                return Some(SendTime {
                    age: now.wall.since(start.at + SECOND),
                    clamped: false,
                });
            }
            Some(start) => return Some(corrected(policy, start.at, now, skew)),
            None => invalid.add(field),
        }
    }
    None
}

/// Age of a valid start, less the clock offset of its source.
fn corrected(
    policy: &Policy,
    start: Wall,
    now: Now,
    skew: Option<(&mut Sources, u64)>,
) -> SendTime {
    let Some((sources, source)) = skew else {
        return SendTime {
            age: now.wall.since(start),
            clamped: false,
        };
    };
    // A valid start is well within range.
    let delta_ns = now.wall.0.wrapping_sub(start.0) as i64;
    let offset = sources.observe(source, delta_ns, now.mono);
    let Correction { ns, clamped } =
        offset.correction(policy.delay_allowance, policy.skew_allowance);
    let age_ns = u64::try_from(delta_ns.saturating_sub(ns)).unwrap_or(0);
    SendTime {
        age: Span::from_nanos(age_ns).min(policy.max_age),
        clamped,
    }
}

#[cfg(test)]
mod tests;
