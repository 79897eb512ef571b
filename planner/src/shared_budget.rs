//! Budgets of cores that several services share ([`SharedBudgets`]), and the parts that their control loops get. Pure:
//! neither a clock nor a task; every control loop tells what it has reserved and what it needs, and takes its part.
//!
//! The sum of what all members may hold never exceeds the budget, at any moment:
//!
//! - Before each tick a loop takes its part ([`Seat::begin`]), which stays as it is until the tick has ended
//!   ([`Seat::end`]). Between ticks nothing is written, so that parts may change.
//! - A loop that has not observed all of its backends gets no part: it changes nothing. Nor does one whose part is less
//!   than its minimum.
//! - Until every member's reserved cores are known in this term, no part changes. The first part of each member is what it has
//!   reserved. So the parts need no memory beyond the process: after a restart, and when another planner leads, they
//!   follow from the backends.
//! - A loop that fails has its part and its reserved cores counted on.
//! - Servers that no service has any more count until they are known to hold no cores ([`Left`]).
//!
//! The size of a budget stands in one place, the planner's arguments ([`SharedBudgetArgument`]). A service names the
//! budget, and is refused if it does not fit ([`SharedBudgets::check`]).

mod argument;
mod ledger;
mod left;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_api::Cores;

use crate::division::{CoreDemand, Member};
use crate::policy::{min_steps, whole_steps};
use crate::service::rule::refusal;
use crate::service::{ConfigError, Service};
use crate::telemetry::status::SharedBudgetReport;
pub use argument::{BUDGETS_MAX, SharedBudgetArgument};
use ledger::Ledger;
pub use left::Left;

/// Flag of the size of a shared budget.
const FLAG: &str = "--shared-budget";

/// All shared budgets of a planner, by name.
#[derive(Debug, Default)]
pub struct SharedBudgets(BTreeMap<String, Arc<SharedBudget>>);

/// Budget of cores that several services share.
#[derive(Debug)]
pub struct SharedBudget {
    name: String,
    ledger: Mutex<Ledger>,
}

/// Place of one control loop in a shared budget, for one term of leadership.
#[derive(Debug)]
pub struct Seat {
    budget: Arc<SharedBudget>,
    service: String,
    term: Duration,
    step: Cores,
}

impl SharedBudgets {
    /// Creates the budgets of these arguments.
    ///
    /// # Errors
    /// Fails if there are two of one name, or more than [`BUDGETS_MAX`].
    pub fn new(arguments: &[SharedBudgetArgument]) -> Result<SharedBudgets, ConfigError> {
        if arguments.len() > BUDGETS_MAX {
            let right = format!("given at most {BUDGETS_MAX} times");
            return Err(refusal(FLAG, arguments.len(), &right));
        }
        let mut budgets = BTreeMap::new();
        for SharedBudgetArgument { name, cores } in arguments {
            let budget = SharedBudget {
                name: name.clone(),
                ledger: Mutex::new(Ledger::new(*cores)),
            };
            if budgets.insert(name.clone(), Arc::new(budget)).is_some() {
                let right = "one size: the name is given twice";
                return Err(refusal(FLAG, format!("{name}={cores}"), right));
            }
        }
        Ok(SharedBudgets(budgets))
    }

    /// Checks that a service may share the budget that it names, beside the members that are in it.
    ///
    /// # Errors
    /// The first thing that does not fit: the key or flag, the value, and what would be right.
    pub fn check(&self, service: &Service) -> Result<(), ConfigError> {
        match self.named_by(service)? {
            Some(budget) => budget.check(service),
            None => Ok(()),
        }
    }

    /// Adds a service that was checked to the budget that it names, and removes it from any other. A member of that
    /// name keeps its part and what it has reserved.
    pub fn insert(&self, service: &Service) {
        let named = self.named_by(service).ok().flatten();
        for budget in self.0.values() {
            match &named {
                Some(own) if Arc::ptr_eq(own, budget) => budget.insert(service),
                _ => budget.ledger().remove(&service.name),
            }
        }
    }

    /// Sets the services that share each budget, whether they are members or are refused; `None` while these are not known.
    /// Until all of them are members, no part changes: what the others hold is not known.
    pub fn expect(&self, expected: Option<&BTreeMap<String, BTreeSet<String>>>) {
        for (name, budget) in &self.0 {
            let of_budget = |all: &BTreeMap<String, BTreeSet<String>>| all.get(name).cloned();
            let names = expected.map(|all| of_budget(all).unwrap_or_default());
            budget.ledger().expect(names);
        }
    }

    /// Removes a service; its cores are not counted any more.
    pub fn remove(&self, service: &str) {
        for budget in self.0.values() {
            budget.ledger().remove(service);
        }
    }

    /// Place of a service's control loop in the term that began at `term`; `None` if it shares no budget. In a new term,
    /// nothing is known of any member.
    pub fn seat(&self, service: &Service, term: Duration) -> Option<Seat> {
        let budget = Arc::clone(self.named_by(service).ok()??);
        budget.ledger().begin_term(term);
        Some(Seat {
            budget,
            service: service.name.clone(),
            term,
            step: service.step,
        })
    }

    fn named_by(&self, service: &Service) -> Result<Option<&Arc<SharedBudget>>, ConfigError> {
        let Some(membership) = &service.shared else {
            return Ok(None);
        };
        let name = &membership.budget;
        let found = self.0.get(name).map(Some);
        found.ok_or_else(|| {
            let all: Vec<&str> = self.0.keys().map(String::as_str).collect();
            let right = match all.as_slice() {
                [] => format!("a shared budget of the planner; start it with {FLAG} {name}=CORES"),
                all => format!(
                    "a shared budget of the planner ({FLAG}): {}",
                    all.join(", ")
                ),
            };
            refusal("budget.shared", name, &right)
        })
    }
}

impl SharedBudget {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, service: &Service) -> Result<(), ConfigError> {
        let ledger = self.ledger();
        ledger.check(&self.name, service, member(service))
    }

    fn insert(&self, service: &Service) {
        let mut ledger = self.ledger();
        ledger.insert(&service.name, member(service), service.step);
    }
}

impl Seat {
    /// Part of the budget for the tick that begins, in steps; `None` if nothing may be changed in it. The part stays
    /// until [`Seat::end`].
    pub fn begin(&self) -> Option<u32> {
        self.budget.ledger().begin(&self.service, self.term)
    }

    /// Ends a tick with the cores that the service has reserved since; `None` while its control loop does not know them.
    /// Changes the parts as far as it is possible now.
    pub fn end(&self, reserved: Option<Cores>) {
        let reserved = reserved.map(|cores| whole_steps(cores, self.step));
        let changed = self.budget.ledger().end(&self.service, self.term, reserved);
        self.log(changed);
    }

    /// Sets the demand of the service.
    pub fn demand(&self, demand: CoreDemand) {
        let changed = self
            .budget
            .ledger()
            .demand(&self.service, self.term, demand);
        self.log(changed);
    }

    /// State of the service in the budget; `None` once it has been removed.
    pub fn report(&self) -> Option<SharedBudgetReport> {
        let ledger = self.budget.ledger();
        ledger.report(&self.budget.name, &self.service)
    }

    fn log(&self, changed: Option<String>) {
        if let Some(parts) = changed {
            tracing::info!("shared budget {}: parts{parts}", self.budget.name);
        }
    }
}

/// Weight and limits of a service in the division.
fn member(service: &Service) -> Member {
    let weight = service.shared.as_ref().map_or(1.0, |shared| shared.weight);
    Member {
        weight,
        min: min_steps(service),
        max: service.budget,
    }
}
