//! The one timer of a root, for all its services: it fires for the earliest.

use std::cell::Cell;

use crate::coordination::TIMEOUTS;
use crate::time::{Mono, Span};

use super::call;

/// Minimum time between ticks: Envoy's timers count in ms.
pub(super) const TICK_MIN: Span = Span::from_millis(1);
/// Maximum time between ticks, by which leases are renewed and polls retried.
pub(super) const TICK_MAX: Span = TIMEOUTS.renewal;

/// Timer of a root.
pub(super) struct Timer {
    root: u32,
    /// Time of its next tick; `None` while that is not known.
    fires_at: Cell<Option<Mono>>,
}

impl Timer {
    /// Starts the timer of a root, whose context must be set.
    pub(super) fn start(root: u32) -> Timer {
        call::set_tick(TICK_MAX);
        Timer {
            root,
            fires_at: Cell::new(None),
        }
    }

    /// Records that it has fired.
    pub(super) fn mark_fired(&self) {
        self.fires_at.set(None);
    }

    /// Makes it fire at `at` or sooner; returns whether that changed the context to the root. A timer that is
    /// late fires next in any case, and is not put off.
    pub(super) fn fire_by(&self, at: Mono, now: Mono) -> bool {
        let fires_at = self.fires_at.get();
        if fires_at.is_some_and(|fires_at| fires_at <= now || fires_at <= at + TICK_MIN) {
            return false;
        }
        self.fires_at.set(Some(at));
        call::set_context(self.root);
        call::set_tick(at.since(now).clamp(TICK_MIN, TICK_MAX));
        true
    }
}
