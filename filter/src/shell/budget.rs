//! How many actions on other streams one callback may queue.

use std::sync::atomic::{AtomicU32, Ordering};

/// Maximum number of other streams that are resumed or refused before Envoy has returned to its event loop. At 306 a
/// VM of Envoy 1.40 trapped.
pub const ACTIONS_MAX: u32 = 64;

/// Actions left until Envoy is known to have returned to its event loop. It is one for the whole VM, because Envoy has one
/// queue of actions for all its services.
#[derive(Debug)]
pub struct ActionBudget {
    left: AtomicU32,
}

impl Default for ActionBudget {
    fn default() -> ActionBudget {
        ActionBudget::new()
    }
}

impl ActionBudget {
    /// Creates a full budget.
    #[must_use]
    pub const fn new() -> ActionBudget {
        ActionBudget {
            left: AtomicU32::new(ACTIONS_MAX),
        }
    }

    /// Fills the budget, in a callback that Envoy's event loop calls itself: a tick, a notification, a request's headers.
    /// In one that may be the effect of an action, such as a response, actions may still be under way.
    pub fn refill(&self) {
        self.left.store(ACTIONS_MAX, Ordering::Relaxed);
    }

    /// Whether no action is left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.left.load(Ordering::Relaxed) == 0
    }

    /// Counts an action.
    pub fn spend(&self) {
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
    }
}
