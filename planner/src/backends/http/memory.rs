//! Memory of the changes sent to HTTP backends whose answers have not come.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::super::{ActuateError, PendingWrites};
use crate::capacity::{Actual, Resize};

/// Pending writes by the backend's address, shared by all services of a planner. Neither a changed service nor a lost
/// and regained lead forgets a change that may still take effect.
#[derive(Debug, Default)]
pub struct HttpMemory(Mutex<BTreeMap<url::Url, PendingWrites<Instant>>>);

impl HttpMemory {
    pub(super) fn lock(&self) -> MutexGuard<'_, BTreeMap<url::Url, PendingWrites<Instant>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a change that is about to be sent to this address. Returns the record before.
    pub(super) fn record(
        &self,
        address: &url::Url,
        change: &Resize,
        until: Instant,
    ) -> PendingWrites<Instant> {
        let mut all = self.lock();
        let pending = all.entry(address.clone()).or_default();
        let before = pending.clone();
        pending.record(change, until);
        before
    }

    /// Records the answer to the latest change, or its failure. One that was refused leaves the record as it was `before`.
    pub(super) fn record_answer(
        &self,
        address: &url::Url,
        failure: Option<&ActuateError>,
        before: PendingWrites<Instant>,
    ) {
        let mut all = self.lock();
        let pending = all.entry(address.clone()).or_default();
        match failure {
            None => pending.clear(),
            Some(error) if error.may_have_applied() => {}
            Some(_) => *pending = before,
        }
    }

    /// Adds the pending writes of a backend to its reported capacity.
    pub(super) fn with_pending_writes(&self, address: &url::Url, actual: Actual) -> Actual {
        match self.lock().get_mut(address) {
            Some(pending) => pending.with(actual, Instant::now()),
            None => actual,
        }
    }

    /// Forgets the addresses without pending writes.
    pub(crate) fn prune(&self) {
        let now = Instant::now();
        self.lock().retain(|_, pending| !pending.is_idle(now));
    }
}
