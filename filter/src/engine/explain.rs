//! Facts that explain a refusal, and the time after which another try makes sense.

use super::{Engine, RefusalContext, Request, State};
use crate::config::Role;
use crate::explanation::{Accuracies, Facts, Limit, Stage};
use crate::reason::Reason;
use crate::routing::router::ResponseTime;
use crate::time::{Mono, Span};
use crate::variant::VariantId;
use crate::verdict::{RETRY_AFTER_MAX_S, RETRY_AFTER_S};

/// Cause of a refusal, as the engine finds it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// One that the reason names.
    Reason(Reason),
    /// A limit that is reached.
    Limit(Limit),
    /// A waiting request that needs that much time, which is more than it has left.
    Late(Span),
}

impl From<Reason> for Cause {
    fn from(reason: Reason) -> Cause {
        Cause::Reason(reason)
    }
}

impl From<Limit> for Cause {
    fn from(limit: Limit) -> Cause {
        Cause::Limit(limit)
    }
}

impl Cause {
    pub(super) fn reason(self) -> Reason {
        match self {
            Cause::Reason(reason) => reason,
            Cause::Limit(limit) => limit.reason(),
            Cause::Late(_) => Reason::Infeasible,
        }
    }

    fn limit(self) -> Option<Limit> {
        match self {
            Cause::Limit(limit) => Some(limit),
            // The choice of a variant knows no other limit.
            Cause::Reason(Reason::QueueFull) => Some(Limit::Streams),
            Cause::Reason(_) | Cause::Late(_) => None,
        }
    }
}

/// Variant that could answer a request soonest.
struct Fastest {
    variant: VariantId,
    takes: ResponseTime,
    /// Time left there.
    left: Span,
}

impl Engine {
    /// Returns what the refusal of a request depends on, and explains it.
    pub(super) fn explain(
        &self,
        cause: Cause,
        request: &Request,
        stage: Stage,
        now: Mono,
    ) -> RefusalContext {
        let is_routed = matches!(stage, Stage::Queue | Stage::Server)
            || stage == Stage::Arrival && matches!(cause, Cause::Limit(_));
        let variant = match is_routed {
            true => Some(request.variant),
            false => self.gate_variant(request),
        };
        let mut facts = Facts {
            stage,
            left: Some(request.due.since(now)),
            downstream: self.downstream,
            on_arrival: Some(request.deadline.client_at.since(request.arrived.mono)),
            waited: self.owns_slots().then(|| waited(request, stage, now)),
            variant: variant.and_then(|id| self.variant_name(id).cloned()),
            ..Facts::default()
        };
        let reason = cause.reason();
        match (cause, reason, stage) {
            (Cause::Late(needed), ..) => facts.needed = Some(needed),
            (_, Reason::Infeasible, Stage::Arrival | Stage::Receiving)
            | (_, Reason::Expired, Stage::Receiving) => {
                self.explain_slow(&mut facts, request, now);
            }
            (_, Reason::Accuracy, _) => self.explain_accuracy(&mut facts, request),
            _ => {}
        }
        // Predictions may have changed since the decision.
        facts.needed = facts.needed.filter(|needed| Some(*needed) > facts.left);
        if is_routed && stage != Stage::Server {
            facts.queued = self.queued(request, request.variant);
        }
        facts.limit = cause.limit();
        if let Cause::Limit(limit) = cause {
            facts.limit_value = self.limit_value(limit, request);
        }
        RefusalContext {
            variant,
            retry_after_s: self.retry_after_s(cause, &facts, request, now),
            facts,
            ..request.refusal_context()
        }
    }

    /// Names the variant that could answer soonest, if that is not soon enough.
    fn explain_slow(&self, facts: &mut Facts, request: &Request, now: Mono) {
        let fastest = self.fastest(request, facts.stage, now);
        facts.variant = None;
        if let Some(Fastest {
            variant,
            takes,
            left,
        }) = fastest
        {
            facts.variant = self.variant_name(variant).cloned();
            facts.needed = Some(takes.total);
            facts.wait = takes.total.saturating_sub(takes.service);
            facts.queued = self.queued(request, variant);
            facts.left = Some(left);
        }
    }

    fn explain_accuracy(&self, facts: &mut Facts, request: &Request) {
        let Some(id) = self.most_accurate(request) else {
            return;
        };
        facts.variant = self.variant_name(id).cloned();
        facts.accuracies = Some(Accuracies::new(
            self.variants.accuracy(id),
            request.min_accuracy,
        ));
    }

    fn fastest(&self, request: &Request, stage: Stage, now: Mono) -> Option<Fastest> {
        let requirements = request.requirements(now);
        let avoid = self.avoid(requirements, request.client());
        let (class, place, group) = (request.class, request.place(), request.group());
        let only = (self.config.role == Role::Gate).then(|| self.gate_variant(request));
        let each = self.variants.ids().filter(|(id, variant)| {
            only.is_none_or(|only| only == Some(*id))
                && variant.slots.total() > 0
                && variant.accuracy >= requirements.min_accuracy
                && !avoid.excludes(&variant.health)
        });
        let each = each.filter_map(|(id, variant)| {
            let takes = match stage {
                // It is not in the queue yet: that may be empty when its body has ended.
                Stage::Receiving => {
                    let service = variant.alone_of(group).high;
                    ResponseTime {
                        total: service,
                        service,
                    }
                }
                Stage::Arrival | Stage::Queue | Stage::Server => {
                    variant.response(class, place, now)
                }
            };
            Some(Fastest {
                variant: id,
                takes,
                left: requirements.left_for(id)?,
            })
        });
        each.min_by_key(|fastest| fastest.takes.total)
    }

    /// Most accurate variant of the plan that may serve a request, whatever its time and slots.
    fn most_accurate(&self, request: &Request) -> Option<VariantId> {
        let only = (self.config.role == Role::Gate).then(|| self.gate_variant(request));
        let allowed = self.variants.ids().filter(|(id, variant)| {
            variant.is_planned()
                && only.is_none_or(|only| only == Some(*id))
                && request.list().left(*id, Span::ZERO).is_some()
        });
        let best = allowed.max_by(|(_, one), (_, other)| one.accuracy.total_cmp(&other.accuracy));
        best.map(|(id, _)| id)
    }

    /// Whether a request demands more accuracy than any variant of the plan has that may serve it.
    pub(super) fn demands_too_much(&self, request: &Request) -> bool {
        let best = self.most_accurate(request);
        best.is_some_and(|id| self.variants.accuracy(id) < request.min_accuracy)
    }

    /// Requests before this one in the queue of a variant.
    fn queued(&self, request: &Request, variant: VariantId) -> Option<u32> {
        let variant = self.variants.get(variant).filter(|_| self.owns_slots())?;
        let queue = &variant.slots.queue;
        Some(match queue.is_empty() {
            true => 0,
            false => queue.ahead(request.class, request.place()),
        })
    }

    fn limit_value(&self, limit: Limit, request: &Request) -> Option<u64> {
        Some(match limit {
            Limit::Requests => self.config.max_requests as u64,
            Limit::ClassRequests => {
                let class = self.config.classes.get(request.class)?;
                class.max_requests? as u64
            }
            Limit::Streams => {
                let variant = self.variants.get(request.variant)?;
                u64::from(variant.uploads_max(request.shape.upload))
            }
            Limit::SourceBytes => self.config.body.source_max,
            Limit::TotalBytes => self.config.body.total_max,
            Limit::RequestBytes => self.config.body.request_max,
        })
    }

    /// Time after which another try makes sense, s: when the queue is shorter. `None`: that of its reason.
    fn retry_after_s(
        &self,
        cause: Cause,
        facts: &Facts,
        request: &Request,
        now: Mono,
    ) -> Option<u32> {
        let after = match (cause, cause.reason()) {
            (Cause::Limit(Limit::Requests | Limit::ClassRequests), _) => {
                let waited_for = self.variants.get(request.variant);
                let waited_for = waited_for.filter(|_| facts.stage != Stage::Receiving);
                waited_for?.expected(now)
            }
            (_, Reason::Infeasible) => {
                let (needed, left) = facts.needed.zip(facts.left)?;
                let had = request.due.since(request.arrived.mono);
                let waits = facts.stage == Stage::Queue || !facts.wait.is_zero();
                // Without a wait it would need as long again.
                let helps = waits && needed.saturating_sub(facts.wait) <= had;
                helps.then(|| needed.saturating_sub(left))?
            }
            _ => return None,
        };
        let seconds = after.as_millis_up().div_ceil(1000);
        let seconds = u32::try_from(seconds).unwrap_or(RETRY_AFTER_MAX_S);
        Some(seconds.clamp(RETRY_AFTER_S, RETRY_AFTER_MAX_S))
    }
}

/// Time for which a request waited until now, or until it was sent.
fn waited(request: &Request, stage: Stage, now: Mono) -> Span {
    match (stage, request.state) {
        (Stage::Arrival, _) => Span::ZERO,
        (Stage::Receiving, _) => now.since(request.arrived.mono),
        (_, State::InFlight(flight)) => flight.sent.since(request.complete_at),
        (Stage::Queue | Stage::Server, _) => now.since(request.complete_at),
    }
}
