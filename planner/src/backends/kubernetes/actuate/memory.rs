//! Memory of what was written in a namespace: pending writes, refusals and replacements. It outlives the
//! services that wrote, so that neither a changed resource nor a lost and regained leadership forgets a patch that may
//! still take effect. Everything in it is kept by pod uid or by workload.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use super::pending_writes::UnobservedWrites;
use crate::service::{Workload, WorkloadKind};

/// Workload within a namespace. Another one of the same name is told apart by the uids in the entries.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct WorkloadKey {
    pub(crate) kind: WorkloadKind,
    pub(crate) name: String,
}

impl WorkloadKey {
    pub(crate) fn of(workload: &Workload) -> WorkloadKey {
        WorkloadKey {
            kind: workload.kind,
            name: workload.name.clone(),
        }
    }
}

impl fmt::Display for WorkloadKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.label(), self.name)
    }
}

/// Memory of one namespace, shared by its services.
#[derive(Default)]
pub struct NamespaceMemory {
    writes: Mutex<UnobservedWrites>,
}

impl NamespaceMemory {
    pub(super) fn writes(&self) -> MutexGuard<'_, UnobservedWrites> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing in it may still take effect: it may be dropped once no service uses it.
    pub fn is_idle(&self) -> bool {
        self.writes().is_idle(Instant::now())
    }
}
