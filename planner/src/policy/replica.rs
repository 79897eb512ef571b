//! Replicas as policies count them: an instance that executes one batch at a time. If a server executes a batch on each
//! core (`parallelism: per-core`), that is a whole core. Otherwise it is a replica of the workload, with a fixed number
//! of cores, or a fraction of one (`budget.step`).

use std::num::NonZeroU32;

use weir_api::Cores;

use crate::capacity::{Allocation, Target};
use crate::profile::Profile;
use crate::service::rule::rule;
use crate::service::{ConfigError, Replicas, Variant, VariantShape};
use crate::solve::latency_model::Parallelism;

/// Checks that replicas can be counted from 0: the cores of a server that executes a batch on each, or the replicas of
/// a workload with fixed cores. With `keeps`, some of each may stay loaded.
pub(super) fn check(
    at: &str,
    policy: &str,
    variant: &VariantShape<'_>,
    keeps: bool,
) -> Result<(), ConfigError> {
    let VariantShape {
        profile,
        step,
        min,
        max,
        replicas,
        ..
    } = *variant;
    let (min_cores, max_cores) = (step.times(min), step.times(max));
    let (path, fewest) = (format!("{at}.cores.min"), format!("{at}.replicas.min"));
    let none = format!("0, with policy {policy}: not every variant runs");
    if profile.parallelism == Parallelism::PerCore {
        rule(keeps || min == 0, &path, min_cores, &none)?;
        let one = Cores::whole(1);
        let with =
            format!("with policy {policy} and parallelism per-core: a replica is a whole core");
        let right = format!("a multiple of 1, {with}");
        rule(min_cores.is_multiple(one), path, min_cores, &right)?;
        let right = format!("1 or more, {with}");
        rule(
            max_cores >= one,
            format!("{at}.cores.max"),
            max_cores,
            &right,
        )?;
        let right = format!(
            "left out, with policy {policy} and parallelism per-core: its cores are its replicas"
        );
        let given = format!("{} to {}", replicas.min, replicas.max);
        return rule(
            replicas == Replicas::ONE,
            format!("{at}.replicas"),
            given,
            &right,
        );
    }
    let right =
        format!("per-core, with policy {policy} (a replica is one core), or 1 (one of `replicas`)");
    one_at_a_time(at, profile, &right)?;
    let right = format!(
        "{max_cores}, as cores.max: policy {policy} changes how many replicas there are, not their cores"
    );
    rule(min == max, path, min_cores, &right)?;
    let may_be = keeps || replicas.min == 0;
    rule(may_be, fewest, replicas.min, &none)
}

/// Checks that a replica of the variant executes one batch at a time.
pub(super) fn one_at_a_time(at: &str, profile: &Profile, right: &str) -> Result<(), ConfigError> {
    let one = profile.parallelism == Parallelism::Fixed(NonZeroU32::MIN);
    let (given, remedy) = match profile.parallelism {
        Parallelism::PerCore => ("per-core".to_owned(), ""),
        // A measured server may have several in flight.
        Parallelism::Fixed(batches) => (
            batches.to_string(),
            "; weir profile --concurrency-max 1 measures it so",
        ),
    };
    let right = format!("{right}{remedy}");
    rule(one, format!("{at}.latency.parallelism"), given, &right)
}

/// Whether a core is a replica.
pub(super) fn is_core(variant: &Variant) -> bool {
    variant.profile.parallelism == Parallelism::PerCore
}

/// Cores of one replica, in steps.
pub(super) fn steps_each(variant: &Variant) -> u32 {
    if is_core(variant) {
        Cores::whole(1).count(variant.step).max(1)
    } else {
        variant.max
    }
}

/// Cores of one replica.
pub(super) fn cores_each(variant: &Variant) -> Cores {
    variant.cores(steps_each(variant))
}

/// Maximum replicas; 0 if the workload may have none.
pub(super) fn most(variant: &Variant) -> u32 {
    if is_core(variant) && variant.replicas.max > 0 {
        variant.max / steps_each(variant)
    } else {
        variant.replicas.max
    }
}

/// Minimum replicas: those that stay loaded when others are chosen.
pub(super) fn min(variant: &Variant) -> u32 {
    if is_core(variant) {
        variant.min / steps_each(variant)
    } else {
        variant.replicas.min
    }
}

/// Number of replicas, and whether they are whole ones.
pub(super) fn count(variant: &Variant, allocation: Allocation) -> (u32, bool) {
    let (cores, each) = (allocation.cores(), cores_each(variant));
    (cores.count(each), cores.is_multiple(each))
}

/// Target of that many replicas.
pub(super) fn target(variant: &Variant, count: u32) -> Target {
    if is_core(variant) {
        return Target::one(cores_each(variant).times(count));
    }
    Target::of(Allocation::new(count, cores_each(variant)))
}
