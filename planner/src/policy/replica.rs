//! What a replica is to the policies that choose a number of them: an instance that executes one batch at a
//! time. Of a server that executes a batch on each core (`parallelism: per-core`) that is a core; else it
//! is a replica of the workload, whose cores nobody changes.

use weir_api::Cores;

use crate::capacity::{Allocation, Goal};
use crate::service::Variant;
use crate::solve::law::Parallelism;

/// Whether a core is a replica.
pub(super) fn is_core(variant: &Variant) -> bool {
    variant.profile.parallelism == Parallelism::PerCore
}

/// Cores of one.
pub(super) fn cores_each(variant: &Variant) -> u32 {
    if is_core(variant) {
        1
    } else {
        variant.greatest
    }
}

/// Most of them; none where its workload may have none.
pub(super) fn most(variant: &Variant) -> u32 {
    if is_core(variant) && variant.replicas.greatest > 0 {
        variant.greatest
    } else {
        variant.replicas.greatest
    }
}

/// Fewest of them: those that are kept loaded where others are chosen.
pub(super) fn least(variant: &Variant) -> u32 {
    if is_core(variant) {
        variant.least
    } else {
        variant.replicas.least
    }
}

/// How many there are, and whether they are whole ones.
pub(super) fn count(variant: &Variant, allocation: Allocation) -> (u32, bool) {
    let cores = allocation.cores().millis();
    let each = Cores::whole(cores_each(variant)).millis();
    (cores / each, cores.is_multiple_of(each))
}

/// So many of them.
pub(super) fn goal(variant: &Variant, count: u32) -> Goal {
    if is_core(variant) {
        return Goal::one(Cores::whole(count));
    }
    Goal::of(Allocation::new(count, Cores::whole(cores_each(variant))))
}
