//! The limit under a plan of slots.

use super::{Limit, Phase};

impl Limit {
    /// Requests that may be in flight now, under a plan of that many slots.
    #[must_use]
    pub fn now(&self, planned: u32) -> u32 {
        if planned == 0 || self.planned != planned {
            // In proportion until the next write: lanes come and go with the slots.
            return self.scaled(planned);
        }
        match self.phase {
            Phase::Trial => self.trial.min(self.found),
            Phase::Rest | Phase::Base => self.found,
        }
    }

    /// Requests that may be in flight with one that explores.
    #[must_use]
    pub fn exploring(&self, planned: u32) -> u32 {
        let now = self.now(planned);
        match self.phase {
            Phase::Trial if self.planned == planned => now.max(self.trial),
            _ => now,
        }
    }

    /// Whether another number in flight is on trial.
    #[must_use]
    pub fn is_on_trial(&self) -> bool {
        self.phase == Phase::Trial
    }

    /// Whether times are measured, so that no request may be sent ahead of a free slot.
    #[must_use]
    pub fn is_measuring(&self) -> bool {
        self.phase != Phase::Rest
    }

    fn scaled(&self, planned: u32) -> u32 {
        if planned == 0 || self.planned == 0 {
            return planned;
        }
        let found = u64::from(self.found) * u64::from(planned);
        let found = (found + u64::from(self.planned) / 2) / u64::from(self.planned);
        u32::try_from(found).unwrap_or(u32::MAX).max(1)
    }

    /// Takes over a plan's slots, of which `start` times as many are the limit at first; returns whether they are others than
    /// before.
    pub fn plan(&mut self, planned: u32, start: u32) -> bool {
        if self.planned == planned || planned == 0 {
            return false;
        }
        let found = match self.planned {
            0 => planned.saturating_mul(start.max(1)),
            _ => self.scaled(planned),
        };
        *self = Limit {
            planned,
            found,
            next_trial: self.next_trial,
            fruitless: self.fruitless,
            falls: self.falls,
            late: self.late,
            ended_at: self.ended_at,
            ..Limit::default()
        };
        true
    }
}
