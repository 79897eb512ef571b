//! Plans of controls that do not plan, under a policy that chooses batches: the batch that a careful person would have
//! configured for the ready cores and the objective.
//!
//! Each stage has a part of the objective, in proportion to the time of one request at its slowest variant that has
//! cores. The batch of a variant is the largest b with 2·l(b) + d ≤ part, and l(b) within the latency budget: a request
//! that has just missed a batch waits for it, and is executed in the next (Nexus, SOSP '19). l is the promised time of
//! a batch, and d the time for which the server waits for more requests.
//!
//! Under the other policies the batch is that of the profile, as a person has configured it.

use std::ops::Range;

use weir_planner::capacity::Allocation;
use weir_planner::plan::{Conditions, Draft, drafts_under};
use weir_planner::profile::Profile;
use weir_planner::service::{Service, Variant};

/// One draft per stage; `None` if a stage has no cores.
pub(crate) fn drafts(service: &Service, ready: &[Allocation]) -> Option<Vec<Draft>> {
    let batches = service.policy.chooses_batches();
    let batches = batches.then(|| batches_of(service, ready));
    let conditions = Conditions {
        batches: batches.as_deref(),
        ..Conditions::default()
    };
    drafts_under(service, ready, None, conditions)
}

/// Batch of each variant.
fn batches_of(service: &Service, ready: &[Allocation]) -> Vec<u32> {
    let stages = service.stages.iter().map(|stage| stage.variants.clone());
    let alone_ms: Vec<f64> = stages
        .map(|stage| slowest_ms(service, ready, stage))
        .collect();
    let all_ms = alone_ms.iter().sum::<f64>().max(f64::MIN_POSITIVE);
    let part_ms = |index: usize| {
        let mut stages = service.stages.iter().zip(&alone_ms);
        let own = stages.find(|(stage, _)| stage.variants.contains(&index));
        own.map_or(0.0, |(_, alone_ms)| {
            service.own_slo_ms() * alone_ms / all_ms
        })
    };
    let each = service.variants.iter().zip(ready).enumerate();
    let largest = each.map(|(index, (variant, ready))| {
        let waits_ms = variant.batch_delay.as_secs_f64() * 1e3;
        let fits = |batch: &u32| {
            let ms = takes_ms(variant, *ready, *batch);
            2.0 * ms + waits_ms <= part_ms(index) && ms <= service.latency_max_ms
        };
        let mut falling = (1..=variant.profile.batch).rev();
        falling.find(fits).unwrap_or(1)
    });
    largest.collect()
}

/// Time of one request at the slowest variant with cores.
fn slowest_ms(service: &Service, ready: &[Allocation], variants: Range<usize>) -> f64 {
    let each = service.variants.iter().zip(ready);
    let stage = each.skip(variants.start).take(variants.len());
    let serving = stage.filter(|(_, ready)| **ready != Allocation::NONE);
    let times = serving.map(|(variant, ready)| takes_ms(variant, *ready, 1));
    times.fold(0.0, f64::max)
}

/// Promised time of a batch.
fn takes_ms(variant: &Variant, ready: Allocation, batch: u32) -> f64 {
    let profile = Profile {
        batch,
        ..variant.profile
    };
    profile.service_ms(ready.each())
}
