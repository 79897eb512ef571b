//! Alternatives to the latest decision of a service, computed when somebody reads them, once for each decision.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::policy::{Alternative, DecisionBasis};

/// State of the latest decision, and the alternatives to it once they are known.
#[derive(Debug, Default)]
pub struct Alternatives(Mutex<Latest>);

#[derive(Debug, Default)]
struct Latest {
    basis: Option<Arc<DecisionBasis>>,
    known: Option<Arc<Vec<Alternative>>>,
}

impl Alternatives {
    /// Takes in the state of a new decision.
    pub fn decided(&self, basis: Arc<DecisionBasis>) {
        *self.latest() = Latest {
            basis: Some(basis),
            known: None,
        };
    }

    /// Returns the state of the latest decision.
    pub fn basis(&self) -> Option<Arc<DecisionBasis>> {
        self.latest().basis.clone()
    }

    /// Returns the alternatives to the decision at that time, if they are known.
    pub fn known(&self, at_ms: u64) -> Option<Arc<Vec<Alternative>>> {
        let latest = self.latest();
        let basis = latest.basis.as_ref()?;
        latest.known.clone().filter(|_| basis.at_ms == at_ms)
    }

    /// Remembers the alternatives to the decision of `basis`, if it still is the latest.
    pub fn remember(&self, basis: &DecisionBasis, alternatives: Arc<Vec<Alternative>>) {
        let mut latest = self.latest();
        let is_latest = latest
            .basis
            .as_ref()
            .is_some_and(|latest| latest.at_ms == basis.at_ms);
        if is_latest {
            latest.known = Some(alternatives);
        }
    }

    fn latest(&self) -> MutexGuard<'_, Latest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
