//! One proxy: whether it is alive, and which plans it may use. Its target is decided elsewhere.

use std::collections::VecDeque;
use std::time::Duration;

use weir_api::Revision;

use super::ownership::{Member, Relation};
use super::{BROKEN_OFF_MAX, REFUSED_SHOWN, Role, SILENT_MAX};

/// Maximum number of plans that a proxy may use. Beyond it the two oldest are merged, with the greater
/// slots of each variant.
pub(super) const GRANTS_MAX: usize = 8;

/// A plan granted to one proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Grant {
    pub(super) revision: Revision,
    /// Unix time in ms.
    pub(super) published_ms: u64,
    /// Slots, by variant.
    pub(super) slots: Vec<u32>,
    /// Whether it was sent in an answer; otherwise the proxy cannot use it yet.
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

/// The previous incarnation, while its process still polls.
#[derive(Debug, Clone, Copy)]
pub(super) struct Replaced {
    pub(super) incarnation: u64,
    pub(super) polled_ms: u64,
}

/// A proxy.
#[derive(Debug)]
pub(super) struct Proxy {
    pub(super) incarnation: u64,
    /// Distinguishes the polls of this incarnation from those of others.
    pub(super) epoch: u64,
    pub(super) replaced: Option<Replaced>,
    pub(super) role: Role,
    /// The one variant that it fronts as a gate; `None` for all.
    pub(super) variant: Option<String>,
    /// Version of its filter, if stated.
    pub(super) version: Option<String>,
    pub(super) workers: u32,
    /// Revision of the plan it has, as reported.
    pub(super) after: Revision,
    /// Time of its last poll, Unix time in ms.
    pub(super) polled_ms: u64,
    pub(super) polled_at: Duration,
    /// Number of its polls that are held.
    pub(super) pending: u32,
    /// Time when it last polled, was answered, or broke off.
    pub(super) heard_at: Duration,
    pub(super) broken_off: bool,
    /// Relations to the variants' slots; empty before the first assignment.
    pub(super) relations: Vec<Relation>,
    /// Whether it gets no slots.
    pub(super) refused: bool,
    /// Plans that it may use, oldest first; the last is its current plan, sent or not.
    pub(super) grants: VecDeque<Grant>,
}

impl Proxy {
    /// Returns the properties that decide ownership.
    pub(super) fn member(&self, live: bool) -> Member<'_> {
        Member {
            role: self.role,
            variant: self.variant.as_deref(),
            live,
        }
    }

    /// Whether it owns slots of a variant.
    pub(super) fn owns(&self, variant: usize) -> bool {
        self.relations.get(variant) == Some(&Relation::Owns)
    }

    /// Whether it owns slots of any variant.
    pub(super) fn owns_any(&self) -> bool {
        self.relations.contains(&Relation::Owns)
    }

    /// Returns its current plan, sent or not.
    pub(super) fn current(&self) -> Option<&Grant> {
        self.grants.back()
    }

    /// Returns the maximum slots of a variant that it may use, now or after it receives its current plan.
    pub(super) fn may_hold(&self, variant: usize) -> u32 {
        self.grants
            .iter()
            .map(|grant| grant.of(variant))
            .max()
            .unwrap_or(0)
    }

    /// Returns the slots of a variant that it uses for certain: the minimum over its plans.
    pub(super) fn holds(&self, variant: usize) -> u32 {
        let confirmed = |oldest: &Grant| oldest.revision <= self.after;
        if !self.grants.front().is_some_and(confirmed) {
            return 0;
        }
        let sent = self.grants.iter().filter(|grant| grant.sent);
        sent.map(|grant| grant.of(variant)).min().unwrap_or(0)
    }

    /// Records that it has the plan `after` and no longer uses earlier ones; returns whether any were
    /// dropped.
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

    /// Returns its current plan if that is newer than `after`, and marks it as sent.
    pub(super) fn send(&mut self, after: Revision) -> Option<&Grant> {
        let grant = self
            .grants
            .back_mut()
            .filter(|grant| grant.revision > after)?;
        grant.sent = true;
        Some(grant)
    }

    /// Whether it has confirmed its current plan, or has none.
    pub(super) fn is_confirmed(&self) -> bool {
        let has = |grant: &Grant| grant.revision <= self.after;
        self.grants.len() <= 1 && self.current().is_none_or(has)
    }

    /// Whether no plan that it may use has slots.
    pub(super) fn holds_nothing(&self) -> bool {
        self.grants.iter().all(Grant::is_empty)
            && (!self.grants.is_empty() || self.after == Revision(0))
    }

    /// Makes this its current plan. An earlier one that was never sent is dropped.
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

    /// Whether it uses `revision` or a later plan, or none.
    pub(super) fn has_taken(&self, revision: Revision) -> bool {
        let later = |grant: &Grant| grant.revision >= revision;
        self.after >= revision || (self.after == Revision(0) && self.grants.iter().all(later))
    }

    /// Whether it is alive.
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
