//! Plans from a resource's status, served while another planner leads or none does: pure. Nothing new is
//! decided. Plans that no longer fit the resource are left out.

use weir_api::{Share, VariantPlan};

use crate::plan::{Draft, shortest_ms};
use crate::service::{Service, Stage};
use crate::spec::resource::{SloServiceStatus, StagePlan};

/// Returns one draft for each stage; `None` unless the status has a plan of each stage for these variants.
pub fn drafts(service: &Service, status: &SloServiceStatus) -> Option<Vec<Draft>> {
    let of_stage = |stage: &Stage| -> Option<Draft> {
        let mut plans = status.plans.iter();
        let plan = plans.find(|plan| plan.stage == stage.name)?;
        let variants = service.variants.get(stage.variants.clone())?;
        let part = |variant: &crate::service::Variant| part(variant, plan);
        Some(Draft {
            variants: variants.iter().map(part).collect::<Option<_>>()?,
            downstream_ms: plan.downstream_time.as_ms(),
        })
    };
    service.stages.iter().map(of_stage).collect()
}

fn part(variant: &crate::service::Variant, plan: &StagePlan) -> Option<VariantPlan> {
    let mut all = plan.variants.iter();
    let planned = all.find(|planned| planned.name == variant.name)?;
    let service_min_ms = shortest_ms(variant);
    Some(VariantPlan {
        name: variant.name.clone(),
        cluster: variant.cluster.clone(),
        grpc_cluster: variant.grpc_cluster.clone(),
        model: variant.model.clone(),
        path: variant.path.clone(),
        share: Share(planned.share),
        slots: planned.slots,
        batch: planned.batch,
        replicas: match variant.profile.batch {
            0 | 1 => planned.replicas.max(1),
            _ => 1,
        },
        cancels: variant.cancels,
        // The status is rounded.
        service_ms: planned.service_time.as_ms().max(service_min_ms),
        service_min_ms,
        accuracy: variant.accuracy,
        groups: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::RawDuration;
    use crate::spec::resource::PlannedVariant;
    use crate::spec::tests::service;

    fn status(service: &Service) -> SloServiceStatus {
        let variant = |variant: &crate::service::Variant| PlannedVariant {
            name: variant.name.clone(),
            share: 1.0 / service.variants.len() as f64,
            slots: 3,
            batch: 1,
            service_time: RawDuration::from_ms(40.0),
            replicas: 1,
            cores: 2.0,
        };
        let plan = StagePlan {
            stage: service.name.clone(),
            revision: 9,
            downstream_time: RawDuration::from_ms(12.0),
            variants: service.variants.iter().map(variant).collect(),
        };
        SloServiceStatus {
            plans: vec![plan],
            ..SloServiceStatus::default()
        }
    }

    #[test]
    fn plan_is_restored_unless_it_does_not_fit() {
        let service = service(8);
        let good = status(&service);
        let drafts = super::drafts(&service, &good).unwrap();
        assert_eq!(drafts.len(), 1);
        assert_eq!(
            (drafts[0].downstream_ms, drafts[0].variants.len()),
            (12.0, service.variants.len())
        );
        for (part, variant) in drafts[0].variants.iter().zip(&service.variants) {
            assert_eq!(
                (&part.name, &part.cluster),
                (&variant.name, &variant.cluster)
            );
            assert_eq!((part.slots, part.accuracy), (3, variant.accuracy));
        }
        let mut other = good.clone();
        other.plans[0].variants.pop();
        assert_eq!(super::drafts(&service, &other), None);
        let mut other = good;
        other.plans[0].stage = "renamed".to_owned();
        assert_eq!(super::drafts(&service, &other), None);
    }
}
