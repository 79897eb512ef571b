//! A change of one variant's cores.

use weir_api::Cores;

use super::{Allocation, Goal};

/// A change of one variant's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resize {
    /// Index of the variant.
    pub variant: usize,
    /// What it is to have.
    pub goal: Goal,
    /// What of it serves now.
    pub ready: Allocation,
    /// Whether no more replicas may be there at any moment than it is to have, because of what each holds
    /// ([`super::Bounds`]).
    pub bound: bool,
}

impl Resize {
    /// All cores it is to have.
    pub fn cores(&self) -> Cores {
        self.goal.cores(self.ready)
    }

    /// Whether anything that serves is to have less.
    pub fn shrinks(&self) -> bool {
        let staying = self.goal.ready(self.ready);
        staying.replicas() < self.ready.replicas() || staying.each() < self.ready.each()
    }
}
