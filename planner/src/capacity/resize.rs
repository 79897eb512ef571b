//! Change of one variant's capacity.

use weir_api::Cores;

use super::{Allocation, Target};

/// Change of one variant's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resize {
    /// Index of the variant.
    pub variant: usize,
    /// Target capacity.
    pub target: Target,
    /// Replicas serving now, and their cores.
    pub ready: Allocation,
    /// Whether the number of replicas may at no moment exceed the target's, because their resources are limited
    /// ([`super::ResourceLimits`]).
    pub limited: bool,
}

impl Resize {
    /// Cores of all replicas after the change.
    pub fn cores(&self) -> Cores {
        self.target.cores(self.ready)
    }

    /// Whether any serving replica shrinks or ends.
    pub fn shrinks(&self) -> bool {
        let staying = self.target.ready(self.ready);
        staying.replicas() < self.ready.replicas() || staying.each() < self.ready.each()
    }
}
