//! Units in which a baseline changes the cores of a variant: a step of the cores of its only server, or a replica.

use weir_api::Cores;
use weir_planner::service::{Replicas, Variant};

/// Unit of a variant's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Cores of a unit.
    pub(super) cores: Cores,
    /// Minimum number of units.
    pub(super) min: u32,
    /// Maximum number of units.
    pub(super) max: u32,
    /// Whether it is a replica.
    pub(super) is_replica: bool,
}

impl Unit {
    /// Unit of a variant. Replicas keep the cores that they have at first.
    pub(super) fn of(variant: &Variant) -> Unit {
        if variant.replicas == Replicas::ONE {
            return Unit {
                cores: variant.step,
                min: variant.min,
                max: variant.max,
                is_replica: false,
            };
        }
        let initial = variant.initial.each();
        Unit {
            cores: match initial {
                Cores::ZERO => variant.cores(variant.max),
                initial => initial,
            },
            min: variant.replicas.min,
            max: variant.replicas.max,
            is_replica: true,
        }
    }
}
