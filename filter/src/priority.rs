//! Order of requests across workers, and the limit that slot accounting and slot table share.

use std::time::Duration;

use crate::time::Mono;

/// Longest that a ghost keeps its slot.
pub const ORPHAN_MAX: Duration = Duration::from_secs(60);

/// What the board orders by; the smaller goes first. Normally a deadline's ns; where classes have tiers
/// the tier stands in the four highest bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Urgency(pub u64);

impl Urgency {
    /// The least urgent tier; the most urgent is 0.
    pub const TIER_MAX: u8 = 15;
    /// Bits left for the deadline: 36 years of ns, which no monotonic clock reaches.
    const DEADLINE_BITS: u32 = 60;

    /// That of a deadline within a tier, which is capped to [`Urgency::TIER_MAX`]. A deadline that is too
    /// late to be told apart stands last in its tier, never in another.
    #[must_use]
    pub const fn of(tier: u8, deadline: Mono) -> Urgency {
        const LAST: u64 = (1 << Urgency::DEADLINE_BITS) - 1;
        let tier = if tier > Urgency::TIER_MAX {
            Urgency::TIER_MAX
        } else {
            tier
        };
        let within = if deadline.0 > LAST { LAST } else { deadline.0 };
        Urgency(((tier as u64) << Urgency::DEADLINE_BITS) | within)
    }
}
