//! Servers that no service of a shared budget has any more: those of a deleted service, and those that a changed one
//! leaves out. Their cores count until they are known to hold none, so that no other service takes these meanwhile.

use std::sync::Arc;

use weir_api::Cores;

use super::{Ledger, SharedBudget, SharedBudgets};
use crate::policy::whole_steps;
use crate::service::{ConfigError, Service};

/// Place of such servers in their shared budget. Dropped without an end, it counts on.
#[derive(Debug)]
pub struct Left {
    budget: Arc<SharedBudget>,
    name: String,
    /// Steps that they hold at most; `None` if it is not known.
    most: Option<u32>,
    step: Cores,
}

impl SharedBudgets {
    /// Removes a service whose control loop has ended, and counts on what its servers hold; `None` if it shares no
    /// budget.
    pub fn leave(&self, service: &Service) -> Option<Left> {
        self.left(service, Ledger::leave)
    }

    /// Counts servers of a service beside it that it has left out: after its control loop with them has ended, and before
    /// the next one has its seat. Until their cores are known ([`Left::count`]) no part changes. `None` if it shares no
    /// budget.
    pub fn leave_out(&self, service: &Service) -> Option<Left> {
        self.left(service, Ledger::leave_out)
    }

    /// Checks that servers of the service may be left out: a budget has a limited number of places.
    ///
    /// # Errors
    /// The budget, and what would be right.
    pub fn check_leave_out(&self, service: &Service) -> Result<(), ConfigError> {
        match self.named_by(service)? {
            Some(budget) => budget.ledger().check_leave_out(&budget.name),
            None => Ok(()),
        }
    }

    fn left(
        &self,
        service: &Service,
        leave: impl Fn(&mut Ledger, &str) -> Option<(String, Option<u32>)>,
    ) -> Option<Left> {
        let budget = Arc::clone(self.named_by(service).ok()??);
        let (name, most) = leave(&mut budget.ledger(), &service.name)?;
        Some(Left {
            budget,
            name,
            most,
            step: service.step,
        })
    }
}

impl Left {
    /// Name in the budget.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Counts these cores; `None` while they are not known: then as many as they held at most. Returns whether they hold
    /// none, and have left the budget.
    pub fn count(&self, reserved: Option<Cores>) -> bool {
        let reserved = reserved.map(|cores| whole_steps(cores, self.step));
        let counted = reserved.or(self.most);
        let mut ledger = self.budget.ledger();
        let changed = ledger.count_left(&self.name, counted);
        drop(ledger);
        if let Some(parts) = changed {
            tracing::info!("shared budget {}: parts{parts}", self.budget.name);
        }
        // Others may get the name from now on.
        counted == Some(0)
    }
}
