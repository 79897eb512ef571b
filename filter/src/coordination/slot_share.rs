//! A VM's part of the slots where each is for itself.

use super::Board;
use crate::time::Mono;

/// Part `index` of `count`: with [`Scope::Worker`] the workers divide each variant's slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    index: u32,
    count: u32,
}

impl Part {
    pub(super) const WHOLE: Part = Part { index: 0, count: 1 };

    /// The entry's part among those that serve.
    pub(super) fn among(board: &Board, own: usize, now: Mono) -> Part {
        let mut part = Part { index: 0, count: 0 };
        for (index, entry) in board.entries.iter().enumerate() {
            if index == own || (entry.lives(now) && entry.serving) {
                part.index += u32::from(index < own);
                part.count += 1;
            }
        }
        part
    }

    /// This part of `slots`. What does not divide goes to different workers for different variants
    /// (`salt`). Where there are fewer slots than workers each still has one, or a worker could serve
    /// nobody.
    pub(super) fn of(self, slots: u32, salt: u32) -> u32 {
        let count = self.count.max(1);
        let place = self.index.wrapping_add(salt) % count;
        let part = slots / count + u32::from(place < slots % count);
        part.max(u32::from(slots > 0))
    }
}
