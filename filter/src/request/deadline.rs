//! Headers → deadline: how much time the client gives, since when, and so until when.
//!
//! deadline = start + budget, each the first header that is valid:
//! budget `x-slo-ms`, `x-llm-d-slo-ttft-ms`, `x-llm-d-inference-ttl`, `grpc-timeout`,
//! `x-envoy-expected-rq-timeout-ms`, the default; start `x-slo-start`, `x-request-start`, now.
//!
//! A client's word can only make its request *less* urgent than the most urgent honest one:
//! budgets are clamped, a start in the future or older than believable counts as now, and a
//! deadline that is already past is told apart ([`Expired`]) instead of sorting first. What a
//! source's stamps say of its clock ([`skew`](crate::request::skew)) moves a believed start by no more than the
//! skew allowance, and an unbelieved or absent one not at all.

use std::time::Duration;

use crate::request::skew::{Correction, Sources};
use crate::time::{Mono, Now, Wall};

use super::parse;
use super::wire::{Field, Wire};

/// What the configuration lets clients say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Budget of a request that names none.
    pub default: Duration,
    /// Least budget; smaller ones are raised to it.
    pub min: Duration,
    /// Greatest budget; larger ones are cut to it.
    pub max: Duration,
    /// Oldest believable start; an older one counts as now.
    pub max_age: Duration,
    /// How far ahead of ours a client's clock may be without being counted as invalid; and the most
    /// that a start is corrected by, either way.
    pub skew_allowance: Duration,
    /// The longest a way here can be of which no request is quicker; what a source's starts are older
    /// than that is its clock's.
    pub delay_allowance: Duration,
    /// Kept back for the answer's way to the client.
    pub reserve: Duration,
    /// Time that an answer which has begun may go on after the deadline.
    pub finish: Duration,
    /// Whether `x-slo-deadline` of an earlier hop is believed.
    pub trust_deadline: bool,
}

/// When a request's time is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline {
    /// When its answer must leave here: the client's deadline less the reserve.
    pub at: Mono,
    /// When the client's own time is up.
    pub client_at: Mono,
    /// The same on the wall clock, for the next hop.
    pub client_wall: Wall,
}

/// The deadline was past when the request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expired;

/// What the headers came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// The deadline, if there is time left.
    pub deadline: Result<Deadline, Expired>,
    /// The fields whose values were not believed.
    pub invalid: InvalidHeaders,
    /// Whether it says at all when it was sent.
    pub stamped: bool,
    /// How long it was under way, where that was asked and believed.
    pub age: Option<Duration>,
    /// Whether the source's clock is further off than is corrected.
    pub clamped: bool,
}

/// A set of [`Field`]s.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InvalidHeaders(u16);

impl InvalidHeaders {
    /// Adds one.
    pub fn add(&mut self, field: Field) {
        self.0 |= 1 << field as u16;
    }

    /// Those in the set.
    pub fn iter(self) -> impl Iterator<Item = Field> {
        Field::VALIDATED
            .into_iter()
            .filter(move |field| self.0 & (1 << *field as u16) != 0)
    }
}

/// Reads the deadline of a request that arrived `now`. With `skew`, its start is corrected by what is
/// known of its source's clock, and counts for that.
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
            let budget = budget(policy, wire, &mut invalid);
            sent = read_start(policy, wire, now, skew, &mut invalid);
            budget.saturating_sub(sent.map_or(Duration::ZERO, |sent| sent.age))
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

/// Time left by an earlier hop's deadline, where one is given, valid and trusted.
fn trusted_left(
    policy: &Policy,
    wire: &Wire<'_>,
    now: Now,
    invalid: &mut InvalidHeaders,
) -> Option<Duration> {
    let value = wire
        .get(Field::Deadline)
        .filter(|_| policy.trust_deadline)?;
    let Some(at) = parse::epoch(value) else {
        invalid.add(Field::Deadline);
        return None;
    };
    if now.wall.since(at) > policy.max_age {
        invalid.add(Field::Deadline);
        return None;
    }
    Some(at.since(now.wall).min(policy.max))
}

fn budget(policy: &Policy, wire: &Wire<'_>, invalid: &mut InvalidHeaders) -> Duration {
    for field in Field::BUDGETS {
        let Some(value) = wire.get(field) else {
            continue;
        };
        let parsed = match field {
            Field::GrpcTimeout => parse::grpc_timeout(value),
            _ => parse::millis(value),
        };
        match parsed {
            Some(budget) => return budget.clamp(policy.min, policy.max),
            None => invalid.add(field),
        }
    }
    policy.default
}

/// What is believed of a client's word on when it sent its request.
#[derive(Debug, Clone, Copy)]
struct SendTime {
    age: Duration,
    clamped: bool,
}

/// How long ago the client sent it, by what of its word is believable.
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
        let believed = parse::epoch(value).filter(|start| {
            now.wall.since(*start) <= policy.max_age
                && start.since(now.wall) <= policy.skew_allowance
        });
        match believed {
            Some(start) => return Some(corrected(policy, start, now, skew)),
            None => invalid.add(field),
        }
    }
    None
}

/// A believable start's age, less what of it is its source's clock.
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
    // Believable, and so well within range.
    let delta_ns = now.wall.0.wrapping_sub(start.0) as i64;
    let offset = sources.observe(source, delta_ns, now.mono);
    let Correction { ns, clamped } =
        offset.correction(policy.delay_allowance, policy.skew_allowance);
    let age_ns = u64::try_from(delta_ns.saturating_sub(ns)).unwrap_or(0);
    SendTime {
        age: Duration::from_nanos(age_ns).min(policy.max_age),
        clamped,
    }
}

#[cfg(test)]
mod tests;
