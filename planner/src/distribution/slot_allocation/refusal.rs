//! Refusals of proxies without slots, worded so that a person knows the remedy.

use weir_api::Plan;

use super::divide::{TooFew, variant_slots};
use super::ownership::Relation;
use super::proxy::Proxy;
use super::{Role, SlotAllocation};

/// Reason why a proxy gets no slots.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum NoSlots {
    #[error(transparent)]
    TooFew(#[from] TooFew),
    #[error(
        "{gates} gates share {slots} slots of variant '{variant}', so none is left for this one: give the variant as many slots as it has gates, or put fewer gates in front of it"
    )]
    TooFewOf {
        variant: String,
        gates: usize,
        slots: u32,
    },
    #[error("variant '{variant}', which it fronts, is none of the plan's: {known}")]
    Unknown { variant: String, known: String },
}

impl SlotAllocation {
    /// Returns the reason why that refused proxy is refused.
    pub(super) fn refusal_of(&self, proxy: &Proxy) -> NoSlots {
        let variants = self.whole.iter().flat_map(|whole: &Plan| &whole.variants);
        let gate_of = proxy.variant.as_ref().filter(|_| proxy.role == Role::Gate);
        if let Some(name) = gate_of {
            let place = variants.clone().position(|variant| variant.name == *name);
            let Some(place) = place else {
                let known: Vec<_> = variants.map(|variant| variant.name.as_str()).collect();
                return NoSlots::Unknown {
                    variant: name.clone(),
                    known: known.join(", "),
                };
            };
            return NoSlots::TooFewOf {
                variant: name.clone(),
                gates: self
                    .proxies
                    .values()
                    .filter(|other| other.owns(place))
                    .count(),
                slots: variants
                    .clone()
                    .nth(place)
                    .map_or(0, |variant| variant.slots),
            };
        }
        let slots = self.whole.as_ref().map(variant_slots).unwrap_or_default();
        let own = proxy.relations.iter().zip(&slots);
        let own =
            own.filter(|(relation, _)| matches!(relation, Relation::Owns | Relation::WouldOwn));
        NoSlots::from(TooFew {
            proxies: self
                .proxies
                .values()
                .filter(|other| other.owns_any())
                .count(),
            slots: own.map(|(_, slots)| u64::from(*slots)).sum(),
        })
    }
}
