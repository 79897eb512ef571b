//! Share of the slots for a worker that does not coordinate with others.

use super::SlotTable;
use crate::time::Mono;

/// Share `index` of `count`: with [`Scope::Worker`] the workers divide each variant's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotShare {
    index: u32,
    count: u32,
}

impl SlotShare {
    pub(super) const WHOLE: SlotShare = SlotShare { index: 0, count: 1 };

    /// Share of a row among the serving workers.
    pub(super) fn among(table: &SlotTable, own: usize, now: Mono) -> SlotShare {
        let mut share = SlotShare { index: 0, count: 0 };
        for (index, row) in table.rows.iter().enumerate() {
            if index == own || (row.is_alive(now) && row.serving) {
                share.index += u32::from(index < own);
                share.count += 1;
            }
        }
        share
    }

    /// This share of `slots`. The remainder goes to different workers for different variants (`salt`). With
    /// fewer slots than workers each still has one, or a worker could serve no request.
    pub(super) fn of(self, slots: u32, salt: u32) -> u32 {
        let count = self.count.max(1);
        let place = self.index.wrapping_add(salt) % count;
        let share = slots / count + u32::from(place < slots % count);
        share.max(u32::from(slots > 0))
    }
}
