//! Budget of a request: which headers carry one, in which unit, and what each means.

use super::deadline::{InvalidHeaders, Policy};
use super::parse;
use super::wire::{Field, Wire};
use crate::time::{Now, Span};

/// Unit of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Milliseconds, with a fraction.
    Ms,
    /// The same, where 0 means no budget, as Envoy writes it.
    MsOrNone,
    /// Seconds, with a fraction.
    S,
    /// A Go duration: `1m30s`, `500ms`.
    Go,
    /// As in `grpc-timeout`: up to eight digits and one of H M S m u n.
    Grpc,
    /// No time left but a point in time: the deadline, Unix time in s, ms, µs or ns.
    Epoch,
}

/// Origin of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A header that is known here.
    Known(Field),
    /// That one of the headers that the configuration names ([`Names::budgets`](super::wire::Names)).
    Named(usize),
}

/// Header with a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetHeader {
    /// The header.
    pub source: Source,
    /// Its unit.
    pub unit: Unit,
    /// Whether it only bounds the budget, because it states when the client gives up: most clients send such a header
    /// whether anybody has set it or not.
    pub caps: bool,
}

impl BudgetHeader {
    /// Headers of clients and proxies that are known here, in order of precedence.
    pub const KNOWN: [BudgetHeader; 11] = [
        BudgetHeader::known(Field::SloMs, Unit::Ms),
        BudgetHeader::known(Field::SloTtftMs, Unit::Ms),
        BudgetHeader::known(Field::TtftMs, Unit::Ms),
        BudgetHeader::known(Field::InferenceTtl, Unit::Go),
        BudgetHeader::known(Field::GrpcTimeout, Unit::Grpc),
        BudgetHeader::known(Field::ConnectTimeoutMs, Unit::Ms),
        BudgetHeader::known(Field::RequestTimeoutMs, Unit::Ms),
        BudgetHeader::known(Field::LitellmTimeout, Unit::S),
        BudgetHeader::known(Field::EnvoyTimeoutMs, Unit::MsOrNone),
        BudgetHeader::cap(Field::ReadTimeout),
        BudgetHeader::cap(Field::ClientTimeout),
    ];

    const fn known(field: Field, unit: Unit) -> BudgetHeader {
        BudgetHeader {
            source: Source::Known(field),
            unit,
            caps: false,
        }
    }

    const fn cap(field: Field) -> BudgetHeader {
        BudgetHeader {
            source: Source::Known(field),
            unit: Unit::S,
            caps: true,
        }
    }

    fn value<'a>(&self, wire: &Wire<'a>) -> Option<&'a [u8]> {
        match self.source {
            Source::Known(field) => wire.get(field),
            Source::Named(index) => wire.budget(index),
        }
    }
}

impl Unit {
    /// Reads a value; zero if the budget is used up.
    fn read(self, value: &[u8], now: Now) -> Option<Span> {
        const MS: u64 = 1_000_000;
        let value = parse::first(value);
        match self {
            Unit::Ms | Unit::MsOrNone => parse::budget(value, MS),
            Unit::S => parse::budget(value, 1000 * MS),
            Unit::Go => parse::go_duration(value),
            Unit::Grpc => parse::grpc_timeout(value),
            Unit::Epoch => parse::epoch(value).map(|epoch| epoch.at.since(now.wall)),
        }
    }
}

/// Returns the budget of a request, within the bounds of the configuration; zero if it is used up. The first valid header
/// counts; those that cap bound it, whichever it is.
pub(super) fn budget(
    policy: &Policy,
    wire: &Wire<'_>,
    now: Now,
    invalid: &mut InvalidHeaders,
) -> Span {
    let (mut stated, mut cap) = (None, None);
    for header in policy.budgets.iter() {
        if stated.is_some() && !header.caps {
            continue;
        }
        let Some(value) = header.value(wire) else {
            continue;
        };
        match header.unit.read(value, now) {
            Some(Span::ZERO) if header.unit == Unit::MsOrNone => {}
            // Nobody waits for nothing.
            Some(Span::ZERO) if header.caps => invalid.add_source(header.source),
            Some(time) if header.caps => cap = Some(cap.map_or(time, |cap: Span| cap.min(time))),
            Some(budget) => stated = Some(budget),
            None => invalid.add_source(header.source),
        }
    }
    let budget = stated.unwrap_or(policy.default);
    if budget.is_zero() {
        return Span::ZERO;
    }
    budget
        .min(cap.unwrap_or(budget))
        .clamp(policy.min, policy.max)
}
