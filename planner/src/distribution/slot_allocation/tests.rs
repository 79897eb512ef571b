//! Tests of the allocation over time, and of its properties against a model of proxies.

mod gates;
mod moves;
mod property;

use weir_api::plan::FORMAT;
use weir_api::{Plan, Revision, Share, VariantPlan};

use super::*;
use crate::clock::Now;

/// Part of a plan: a variant with its share and slots.
pub(crate) fn part(name: &str, share: f64, slots: u32) -> VariantPlan {
    VariantPlan {
        name: name.into(),
        cluster: name.into(),
        grpc_cluster: None,
        model: None,
        path: None,
        share: Share(share),
        slots,
        batch: 1,
        replicas: 1,
        cancels: false,
        service_ms: 40.0,
        service_min_ms: 0.0,
        accuracy: 70.0,
        groups: Vec::new(),
    }
}

/// A whole plan of these shares and slots, corrected to be valid: a share needs slots, and shares must have
/// a sum.
pub(crate) fn whole(variants: &[(f64, u32)]) -> Plan {
    let kept = |(share, slots): &(f64, u32)| if *slots > 0 { *share } else { 0.0 };
    let sum: f64 = variants.iter().map(kept).sum();
    let total: f64 = variants.iter().map(|(_, slots)| f64::from(*slots)).sum();
    let share = |variant: &(f64, u32)| match () {
        () if sum > 0.0 => kept(variant) / sum,
        () if total > 0.0 => f64::from(variant.1) / total,
        () => 0.0,
    };
    let variants = variants
        .iter()
        .enumerate()
        .map(|(index, variant)| part(&format!("v{index}"), share(variant), variant.1));
    let plan = Plan {
        format: FORMAT,
        service: "demo".into(),
        revision: Revision(1),
        published_ms: 0,
        max_age_ms: 60_000,
        downstream_ms: 0.0,
        variants: variants.collect(),
    };
    assert_eq!(plan.check(), Ok(()));
    plan
}

fn now(ms: u64) -> Now {
    Now {
        at: Duration::from_millis(ms),
        unix_ms: 1_000_000 + ms,
    }
}
