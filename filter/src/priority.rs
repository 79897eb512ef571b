//! Order of requests across workers, and the limit that slot accounting and slot table share.

use crate::time::{Mono, Span};

/// Longest time for which an orphaned slot counts as taken. A slot is orphaned when its client abandoned
/// the execution and the server goes on.
pub const ORPHAN_MAX: Span = Span::from_secs(60);

/// Urgency of a request; the smaller value goes first. Normally a deadline in ns. With several classes the
/// tier occupies the four highest bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Urgency(pub u64);

impl Urgency {
    /// Least urgent tier; the most urgent is 0.
    const TIER_MAX: u8 = 15;
    /// Bits for the deadline: 36 years of ns, beyond any monotonic clock.
    const DEADLINE_BITS: u32 = 60;

    /// Urgency of a deadline within a tier, which is capped to [`Urgency::TIER_MAX`]. A deadline beyond the
    /// range is last in its tier, never in another tier.
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
