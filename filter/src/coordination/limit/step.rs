//! The next numbers in flight to try.

use super::{Limit, MORE_MIN};

impl Limit {
    /// Next number to try above the limit. From two batches on these are whole ones, if they are in time: with a part of one
    /// the servers do less.
    pub(super) fn larger(&self, batches: bool) -> u32 {
        // With two in flight none can be batched: one executes and one waits.
        let in_time = self.more_in_time().max(MORE_MIN);
        let more = (self.found >> self.halvings.min(31)).min(in_time);
        let larger = self.found.saturating_add(more.max(MORE_MIN));
        // Slots of a plan with batches are those of all lanes.
        let all = self.planned.max(1);
        if !batches || self.found < all.saturating_mul(2) {
            return larger;
        }
        let next = (self.found / all).saturating_add(1).saturating_mul(all);
        if next - self.found > in_time {
            return larger;
        }
        if larger < next && self.halvings > 0 {
            // A whole batch more has gained nothing.
            return self.found;
        }
        (larger / all * all).max(next)
    }

    /// Next number to try below the limit.
    pub(super) fn smaller(&self, batches: bool) -> u32 {
        let smaller = self.found - self.found.div_ceil(4);
        if self.late {
            // Some are late in any case: whatever answers as many.
            return smaller.max(1);
        }
        // The planned slots are lanes: with fewer some would idle whenever the others tell them apart wrongly.
        if !batches {
            return smaller.max(self.planned);
        }
        // One batch executes and one waits. Fewer do as many for as long as they keep in step, which a trial may be.
        let all = self.planned.max(1);
        let whole = self.found.saturating_sub(1) / all * all;
        whole.max(all.saturating_mul(2)).min(self.found)
    }

    /// How many more than the limit would be in time even if the servers do no more: others would be lost for the trial.
    fn more_in_time(&self) -> u32 {
        let in_time = u64::from(self.found) * u64::from(self.left) / u64::from(self.base.max(1));
        u32::try_from(in_time)
            .unwrap_or(u32::MAX)
            .saturating_sub(self.found)
    }
}
