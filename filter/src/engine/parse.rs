//! Parsing of a request's headers: deadline, class, variants and shape, or the reason of an immediate refusal.

use std::rc::Rc;

use weir_api::metrics::Metric;

use super::served::PathHash;
use super::{Engine, RefusalContext, Request, State};
use crate::config::Role;
use crate::reason::Reason;
use crate::request::body::HeldBody;
use crate::request::deadline::{self, InvalidHeaders, Reading};
use crate::request::protocol::{self, Shape};
use crate::request::variant_list::{ListError, Member, Members};
use crate::request::wire::{Field, Wire};
use crate::routing::fallback::VariantList;
use crate::size::Size;
use crate::stats::Label;
use crate::time::{Now, Span};
use crate::variant::VariantId;
use crate::waiting::class::{Claim, ClassId};

/// Request as the shell receives it.
#[derive(Debug, Clone, Copy, Default)]
pub struct IncomingRequest<'a> {
    /// Headers.
    pub wire: Wire<'a>,
    /// Hash of the source, if [`RequiredLookups::source`] is set.
    pub source: Option<u64>,
    /// Hash of the sender, also without a trusted proxy's header; it bounds the measurements counted. `None`:
    /// unbounded.
    pub sender: Option<u64>,
    /// Proof of its class, if [`RequiredLookups::proof`] is set.
    pub proof: Option<&'a [u8]>,
    /// Whether a body follows, in calls of [`Engine::on_body`].
    pub body_follows: bool,
}

impl<'a> From<Wire<'a>> for IncomingRequest<'a> {
    fn from(wire: Wire<'a>) -> IncomingRequest<'a> {
        IncomingRequest {
            wire,
            ..IncomingRequest::default()
        }
    }
}

/// Lookups that the shell must make before the request. Each costs a hostcall, and few requests need one.
#[derive(Debug, Clone, Copy, Default)]
pub struct RequiredLookups<'a> {
    /// Source of the request: it states its time of sending by its own clock, or a variant fails for one source alone.
    pub source: bool,
    /// Path of the property that proves its class.
    pub proof: Option<&'a [String]>,
}

/// Result of parsing.
#[allow(
    clippy::large_enum_variant,
    reason = "made once a request and taken apart at once"
)]
pub(super) enum ParseOutcome {
    /// Pass through. A shape if the request names a model, and keeps its protocol.
    Bypass(Option<Shape>),
    /// Refuse at once.
    Refused(Reason, RefusalContext),
    /// Refuse because of its list of variants, with this text.
    InvalidVariants(String, RefusalContext),
    /// Route and admit.
    Request(Request),
}

impl Engine {
    /// Returns the lookups that a request with these headers needs.
    #[must_use]
    pub fn required_lookups(&self, wire: &Wire<'_>) -> RequiredLookups<'_> {
        let stamped = Field::STARTS.iter().any(|field| wire.get(*field).is_some());
        let requested = self.config.classes.lookup(wire.get(Field::Class));
        RequiredLookups {
            source: stamped || self.variants.iter().any(|v| v.health.fail_for_one()),
            proof: requested.claim.and_then(Claim::property),
        }
    }

    pub(super) fn parse_request(
        &mut self,
        incoming: &IncomingRequest<'_>,
        now: Now,
    ) -> ParseOutcome {
        let wire = &incoming.wire;
        let (bypass, streams) = (&self.config.bypass, &self.config.streams);
        let mut shape = protocol::shape(bypass, streams, wire, incoming.body_follows);
        if shape.bypass {
            self.stats.count(Metric::Bypassed, Label::None);
            let named = shape.model.filter(|_| !shape.upgrade);
            return ParseOutcome::Bypass(named.map(|_| shape));
        }
        let mut ignored = InvalidHeaders::default();
        let class = self.class(incoming, &mut ignored);
        shape.stream |= self
            .config
            .classes
            .get(class)
            .is_some_and(|class| class.streams);
        let mut context = RefusalContext::new(class, &shape, ignored);
        let members = match self.members(wire) {
            Ok(members) => members,
            Err(error) => {
                let planned = self.variants.iter().filter(|variant| variant.is_planned());
                let text = error.text(planned.map(|variant| &*variant.name));
                return ParseOutcome::InvalidVariants(text, context);
            }
        };
        let sources = Some(&mut self.sources).filter(|_| self.config.skew.estimate);
        let reading = deadline::read(
            &self.config.deadline,
            wire,
            now,
            sources.zip(incoming.source),
        );
        self.note(&reading);
        ignored.extend(reading.invalid);
        context.ignored = ignored;
        let counts_as_demand = !self.was_routed(wire) && !is_retry(wire);
        let Ok(deadline) = reading.deadline else {
            self.count_unservable(counts_as_demand);
            return ParseOutcome::Refused(Reason::Expired, context);
        };
        let due = deadline.at - self.downstream;
        if due <= now.mono {
            self.count_unservable(counts_as_demand);
            context.facts.needed = Some(self.downstream);
            context.facts.left = Some(deadline.at.since(now.mono));
            return ParseOutcome::Refused(Reason::Infeasible, context);
        }
        // Where an earlier hop's deadline counts, the start has not been read.
        let since_send = match reading.age {
            None if reading.stamped => deadline::stated_age(&self.config.deadline, wire, now),
            age => age,
        };
        let min_accuracy = wire.min_accuracy().unwrap_or_else(|| {
            self.stats
                .count(Metric::InvalidHeaders, Label::Header(Field::MinAccuracy));
            ignored.add(Field::MinAccuracy);
            0.0
        });
        let before = reading.age.unwrap_or_default() + self.config.deadline.reserve;
        let before = before + self.downstream;
        let list = members.map(|members| self.list(&members, before));
        self.arrivals += 1;
        ParseOutcome::Request(Request {
            deadline,
            due,
            arrived: now,
            min_accuracy,
            shape,
            routed_to: self.routed_to(wire),
            list,
            ignored,
            path: PathHash::of(wire),
            stamped: reading.stamped,
            class,
            size: Size::stated(wire.get(Field::ContentLength)),
            class_changed: wire.get(Field::Class).is_some() && !self.is_named(wire, class),
            arrival: self.arrivals,
            age: reading.age,
            since_send: since_send.unwrap_or_default(),
            complete_at: now.mono,
            sender: incoming.sender,
            counts_as_demand,
            uploading: false,
            body: HeldBody::default(),
            variant: VariantId(0),
            moved_at: None,
            state: State::Held,
        })
    }

    /// Whether a router before this gate has counted and tagged it.
    pub(super) fn was_routed(&self, wire: &Wire<'_>) -> bool {
        self.config.role == Role::Gate
            && self.config.deadline.trust_deadline
            && wire.get(Field::Deadline).is_some()
            && wire.get(Field::Variant).is_some()
    }

    /// Members of the client's list of variants, if there is one. A gate does not read it, and without a plan no name is known.
    ///
    /// # Errors
    /// The first part that is wrong.
    fn members<'a>(&self, wire: &Wire<'a>) -> Result<Option<Members<'a>>, ListError<'a>> {
        let is_read = self.config.role != Role::Gate && self.variants.len() > 0;
        let Some(value) = wire.get(Field::Variants).filter(|_| is_read) else {
            return Ok(None);
        };
        let members = Members::parse(value)?;
        let mut names = members.iter().filter_map(|member| member.name);
        match names.find(|name| self.variants.named(name).is_none()) {
            Some(unknown) => Err(ListError::Unknown(unknown)),
            None => Ok(Some(members)),
        }
    }

    /// Variants that a client lists, whose budgets end that much earlier (`before`) here.
    fn list(&self, members: &Members<'_>, before: Span) -> Rc<VariantList> {
        let mut list = VariantList::EMPTY;
        for Member { name, within } in members.iter() {
            let variant = name.and_then(|name| self.variants.named(name));
            list.push(variant, within.map(|within| within.saturating_sub(before)));
        }
        Rc::new(list)
    }

    /// Variant that a router has chosen, at a gate that serves several.
    fn routed_to(&self, wire: &Wire<'_>) -> Option<VariantId> {
        let name = wire
            .get(Field::Variant)
            .filter(|_| self.config.role == Role::Gate)?;
        self.variants.named(std::str::from_utf8(name).ok()?)
    }

    /// Requested class if the request may claim it, else the default.
    fn class(&mut self, incoming: &IncomingRequest<'_>, ignored: &mut InvalidHeaders) -> ClassId {
        let classes = &self.config.classes;
        let value = incoming.wire.get(Field::Class);
        let requested = classes.lookup(value);
        let proof = match requested.claim {
            Some(claim) if claim.property().is_none() => {
                let header = self.config.claim_headers.iter();
                let mut header = header
                    .enumerate()
                    .filter(|(_, name)| claim.header() == Some(name.as_str()));
                header.next().and_then(|(at, _)| incoming.wire.claim(at))
            }
            _ => incoming.proof,
        };
        let admitted = requested.known && requested.claim.is_none_or(|claim| claim.admits(proof));
        if admitted || value.is_none() {
            return requested.class;
        }
        let default = classes.default;
        ignored.add(Field::Class);
        self.stats
            .count(Metric::InvalidHeaders, Label::Header(Field::Class));
        default
    }

    fn is_named(&self, wire: &Wire<'_>, class: ClassId) -> bool {
        wire.get(Field::Class) == self.config.classes.name(class).map(str::as_bytes)
    }

    fn note(&mut self, reading: &Reading) {
        for field in reading.invalid.iter() {
            self.stats
                .count(Metric::InvalidHeaders, Label::Header(field));
        }
        for index in reading.invalid.named() {
            let label = Label::BudgetHeader(index as u8);
            self.stats.count(Metric::InvalidHeaders, label);
        }
        if reading.clamped {
            self.stats.count(Metric::SkewClamped, Label::None);
        }
    }

    /// Names of the headers of a request that are ignored; `None` without any.
    pub(super) fn ignored_text(&self, ignored: InvalidHeaders) -> Option<String> {
        if ignored.is_empty() {
            return None;
        }
        let names = &self.config.budget_headers;
        let named = ignored.named().filter_map(|index| names.get(index));
        let names = ignored.iter().map(|field| -> &str { field.name() });
        let names: Vec<&str> = names.chain(named.map(String::as_str)).collect();
        Some(names.join(", "))
    }

    /// Counts by class; with a single class that would repeat other metrics.
    pub(super) fn count_class(&mut self, metric: Metric, class: ClassId) {
        if self.config.classes.len() > 1 {
            self.stats.count(metric, Label::Class(class));
        }
    }
}

/// Whether a caller's proxy tries the request again: it was demand when it came first.
pub(super) fn is_retry(wire: &Wire<'_>) -> bool {
    let attempt = wire.get(Field::AttemptCount);
    attempt.is_some_and(|attempt| {
        let is_number = (1..=3).contains(&attempt.len()) && attempt.iter().all(u8::is_ascii_digit);
        is_number && attempt != b"1"
    })
}
