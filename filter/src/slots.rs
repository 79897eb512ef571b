//! Slots of a variant, as one worker accounts for them.

mod variant_slots;

pub use variant_slots::{Reported, VariantSlots, latest_start};
