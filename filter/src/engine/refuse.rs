//! Refusals, and how they are counted.

use weir_api::metrics::Metric;

use super::explain::Cause;
use super::parse::is_retry;
use super::{Engine, IncomingRequest, RefusalContext, Request, State, StreamId};
use crate::config::Role;
use crate::explanation::{Facts, Stage};
use crate::reason::Reason;
use crate::request::wire::Field;
use crate::routing::fallback::VariantList;
use crate::stats::Label;
use crate::time::{Mono, Span};
use crate::verdict::{Refusal, Verdict};
use crate::waiting::class::ClassId;

impl Engine {
    /// Refuses a request that has just become complete.
    pub(super) fn refuse_new(
        &mut self,
        cause: impl Into<Cause>,
        request: &Request,
        now: Mono,
    ) -> Verdict {
        self.stats
            .time(Metric::RefusedAfterMs, Label::None, Span::ZERO);
        let cause = cause.into();
        let context = self.explain(cause, request, Stage::Arrival, now);
        self.refuse(cause.reason(), context)
    }

    /// Refuses a held request and releases its body.
    pub(super) fn refuse_waiting(
        &mut self,
        request: &Request,
        cause: impl Into<Cause>,
        now: Mono,
    ) -> Verdict {
        let mut stage = Stage::Receiving;
        if matches!(request.state, State::Held) {
            stage = Stage::Queue;
            let after = now.since(request.complete_at);
            self.stats.time(Metric::RefusedAfterMs, Label::None, after);
        }
        let mut body = request.body;
        self.ledger.release(&mut body);
        let cause = cause.into();
        let context = self.explain(cause, request, stage, now);
        self.refuse(cause.reason(), context)
    }

    pub(super) fn refuse(&mut self, reason: Reason, context: RefusalContext) -> Verdict {
        self.count_refused(reason, context.class);
        Verdict::Reject(self.refusal(reason, context))
    }

    /// Refuses a request because of its list of variants; `text` says what is wrong with it.
    pub(super) fn refuse_list(
        &mut self,
        text: &str,
        context: RefusalContext,
        incoming: &IncomingRequest<'_>,
    ) -> Verdict {
        let label = Label::Header(Field::Variants);
        self.stats.count(Metric::InvalidHeaders, label);
        let counts_as_demand = !self.was_routed(&incoming.wire) && !is_retry(&incoming.wire);
        self.count_unservable(counts_as_demand);
        let facts = Facts::detail(text);
        self.refuse(Reason::InvalidVariants, RefusalContext { facts, ..context })
    }

    /// Creates a refusal that is already counted.
    pub(super) fn refusal(&self, reason: Reason, context: RefusalContext) -> Refusal {
        let gate = self.config.role == Role::Gate;
        let variant = context.variant.filter(|_| gate);
        let variant = variant.and_then(|id| self.variants.get(id));
        Refusal {
            reason,
            retry_after_s: context.retry_after_s.or(reason.retry_after_s()),
            trailers_only: context.trailers_only,
            expected: variant.map(|variant| variant.expected(variant.slots.lanes.1)),
            variants: (context.list.as_deref())
                .and_then(|list| self.list_text(list))
                .map(String::into_boxed_str),
            ignored: self
                .ignored_text(context.ignored)
                .map(String::into_boxed_str),
            facts: context.facts,
        }
    }

    /// Refusal in place of an answer of the host's own to a request in flight, whose end counts it.
    #[must_use]
    pub fn refusal_in_flight(
        &self,
        stream: StreamId,
        reason: Reason,
        now: Mono,
    ) -> Option<Refusal> {
        let request = self.requests.get(&stream)?;
        matches!(request.state, State::InFlight(_)).then(|| {
            let context = self.explain(reason.into(), request, Stage::Server, now);
            self.refusal(reason, context)
        })
    }

    /// Text of a client's list of variants: what became of it.
    pub(super) fn list_text(&self, list: &VariantList) -> Option<String> {
        list.text(|id| self.variant_name(id).map(|name| &**name))
    }

    pub(super) fn count_refused(&mut self, reason: Reason, class: ClassId) {
        self.stats.count(Metric::Refused, Label::Reason(reason));
        self.count_class(Metric::ClassRefused, class);
    }
}
