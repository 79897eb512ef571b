//! Bypassed requests that name a model: metadata, statistics, readiness. Where variants' servers have names of their own
//! for the model, Envoy's own route would lead them to servers that do not know the client's name.

use super::Engine;
use crate::config::Role;
use crate::request::protocol::Shape;
use crate::verdict::{Passage, Verdict};

impl Engine {
    /// Verdict on a bypassed request that names a model: the first variant of the plan with slots that does not fail,
    /// or else the first with slots, so that all such requests get the answers of the same servers.
    pub(super) fn passage(&self, shape: &Shape) -> Verdict {
        let own = self.config.variant.as_deref();
        let is_gate = self.config.role == Role::Gate;
        let able = || {
            self.variants.ids().filter(move |(_, variant)| {
                variant.slots.total() > 0
                    && (!is_gate || own.is_none_or(|own| own == &*variant.name))
            })
        };
        let mut named = self.variants.iter().filter(|variant| variant.is_planned());
        if !named.any(|variant| variant.ports.model().is_some()) {
            return Verdict::Pass;
        }
        let healthy = able().find(|(_, variant)| variant.health.of(shape.grpc).failing.is_none());
        let Some((id, variant)) = healthy.or_else(|| able().next()) else {
            return Verdict::Pass;
        };
        Verdict::PassTo(Passage {
            variant: id,
            cluster: (!is_gate).then(|| variant.port(shape.grpc).cluster(false).clone()),
            model: variant.ports.own_model(shape),
        })
    }
}
