//! One proxy: whether it is there, and which plans it may be working by. What it should have is
//! decided elsewhere.

use std::collections::VecDeque;
use std::time::Duration;

use weir_api::Revision;

use super::own::{Stand, Tie};
use super::{BROKEN_OFF_MAX, REFUSED_SHOWN, Role, SILENT_MAX};

/// Most plans a proxy may be working by; above it the two oldest count as one that has the more of
/// each variant's slots.
pub(super) const GRANTS_MAX: usize = 8;

/// A plan handed out to one proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) revision: Revision,
    /// Unix time in ms.
    pub(super) published_ms: u64,
    /// By variant.
    pub(super) slots: Vec<u32>,
    /// Whether a poll was answered with it; else nobody works by it yet.
    pub(super) sent: bool,
}

impl Grant {
    fn of(&self, variant: usize) -> u32 {
        self.slots.get(variant).copied().unwrap_or(0)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slots| *slots == 0)
    }
}

/// The incarnation before, while its process still polls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Former {
    pub(super) incarnation: u64,
    pub(super) polled_ms: u64,
}

/// A proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) incarnation: u64,
    /// Tells the polls of this incarnation from those of others.
    pub(super) epoch: u64,
    pub(super) former: Option<Former>,
    pub(super) role: Role,
    /// The one variant that it fronts as a gate; `None` for all.
    pub(super) variant: Option<String>,
    pub(super) workers: u32,
    /// The plan it has, as it says.
    pub(super) after: Revision,
    /// When it last polled, Unix time in ms.
    pub(super) polled_ms: u64,
    pub(super) polled_at: Duration,
    /// Polls of its that are held.
    pub(super) pending: u32,
    /// When it last polled, was answered, or broke off.
    pub(super) heard_at: Duration,
    pub(super) broken_off: bool,
    /// What it has to do with each variant's slots; empty until slots are dealt.
    pub(super) ties: Vec<Tie>,
    /// Whether there is no slot for it.
    pub(super) refused: bool,
    /// What it may be working by, oldest first; the last is what it is to have, sent or not.
    pub(super) grants: VecDeque<Grant>,
}

impl Proxy {
    /// Where it stands.
    pub(super) fn stand(&self, live: bool) -> Stand<'_> {
        Stand {
            role: self.role,
            variant: self.variant.as_deref(),
            live,
        }
    }

    /// Whether it owns slots of a variant.
    pub(super) fn owns(&self, variant: usize) -> bool {
        self.ties.get(variant) == Some(&Tie::Owns)
    }

    /// Whether it owns slots of any variant.
    pub(super) fn owns_any(&self) -> bool {
        self.ties.contains(&Tie::Owns)
    }

    /// The plan it is to have.
    pub(super) fn current(&self) -> Option<&Grant> {
        self.grants.back()
    }

    /// The most slots of a variant that it may be working by, or will once it hears of its plan.
    pub(super) fn may_hold(&self, variant: usize) -> u32 {
        self.grants
            .iter()
            .map(|grant| grant.of(variant))
            .max()
            .unwrap_or(0)
    }

    /// The slots of a variant that it works by for certain: those of the least plan it may have.
    pub(super) fn holds(&self, variant: usize) -> u32 {
        let confirmed = |oldest: &Grant| oldest.revision <= self.after;
        if !self.grants.front().is_some_and(confirmed) {
            return 0;
        }
        let sent = self.grants.iter().filter(|grant| grant.sent);
        sent.map(|grant| grant.of(variant)).min().unwrap_or(0)
    }

    /// It says that it has the plan `after`: those before it are done with. Whether that frees any.
    pub(super) fn confirm(&mut self, after: Revision) -> bool {
        self.after = after;
        let had = self.grants.len();
        if let Some(taken) = self
            .grants
            .iter()
            .rposition(|grant| grant.revision <= after)
        {
            self.grants.drain(..taken);
        }
        self.grants.len() < had
    }

    /// The plan it is to have, if that is newer than `after`; it is being sent.
    pub(super) fn send(&mut self, after: Revision) -> Option<&Grant> {
        let grant = self
            .grants
            .back_mut()
            .filter(|grant| grant.revision > after)?;
        grant.sent = true;
        Some(grant)
    }

    /// Whether it has said that it works by the plan it is to have, or has none.
    pub(super) fn is_settled(&self) -> bool {
        let has = |grant: &Grant| grant.revision <= self.after;
        self.grants.len() <= 1 && self.current().is_none_or(has)
    }

    /// Whether it has been given no slot that it may still be working by.
    pub(super) fn holds_nothing(&self) -> bool {
        self.grants.iter().all(Grant::is_empty)
            && (!self.grants.is_empty() || self.after == Revision(0))
    }

    /// It is to have this plan. One that was never sent is forgotten.
    pub(super) fn grant(&mut self, grant: Grant) {
        self.grants.pop_back_if(|last| !last.sent);
        self.grants.push_back(grant);
        if self.grants.len() <= GRANTS_MAX {
            return;
        }
        if let Some(oldest) = self.grants.pop_front()
            && let Some(next) = self.grants.front_mut()
        {
            for (slots, before) in next.slots.iter_mut().zip(oldest.slots) {
                *slots = before.max(*slots);
            }
        }
    }

    /// Whether it works by `revision` or a later plan, or by none.
    pub(super) fn has_taken(&self, revision: Revision) -> bool {
        let later = |grant: &Grant| grant.revision >= revision;
        self.after >= revision || (self.after == Revision(0) && self.grants.iter().all(later))
    }

    /// Whether it is to be reckoned with.
    pub(super) fn is_live(&self, now: Duration) -> bool {
        let limit = if self.broken_off {
            BROKEN_OFF_MAX
        } else {
            SILENT_MAX
        };
        self.pending > 0 || now.saturating_sub(self.heard_at) < limit
    }

    /// Whether it is still shown.
    pub(super) fn is_shown(&self, now: Duration) -> bool {
        self.is_live(now)
            || (self.refused
                && self.holds_nothing()
                && now.saturating_sub(self.heard_at) < REFUSED_SHOWN)
    }
}
