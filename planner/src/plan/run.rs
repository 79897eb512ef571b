//! Capacity, slots and service time of a variant on its allocation and batch.

use weir_api::plan::HOUR_MS;
use weir_api::{Rps, Share, VariantPlan};

use super::downstream::Needs;
use super::{Expected, shortest_ms};
use crate::capacity::Allocation;
use crate::profile::Profile;
use crate::service::{Inputs, Service, Variant};

/// A variant with its allocation and batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run<'a> {
    pub(super) variant: &'a Variant,
    profile: Profile,
    allocation: Allocation,
    /// Largest batch that its servers make: the one they were sent, or the profile's.
    max: u32,
}

impl<'a> Run<'a> {
    pub(super) fn new(
        variant: &'a Variant,
        allocation: Allocation,
        planned: u32,
        confirmed: Option<u32>,
    ) -> Run<'a> {
        Run {
            variant,
            profile: Profile {
                batch: confirmed.map_or(planned, |confirmed| planned.min(confirmed)),
                ..variant.profile
            },
            allocation,
            max: confirmed.unwrap_or(variant.profile.batch),
        }
    }

    /// Whether nothing is known of it: it has no profile, and nothing was measured.
    pub(super) fn is_unknown(&self) -> bool {
        self.profile.is_unknown()
    }

    pub(super) fn replicas(&self) -> f64 {
        f64::from(self.allocation.replicas())
    }

    pub(super) fn capacity_rps(&self, service: &Service) -> f64 {
        self.capacity_within_rps(service.latency_max_ms)
    }

    /// Capacity if it takes longer than the latency budget allows, but less than the objective; otherwise 0.
    pub(super) fn slow_capacity_rps(&self, service: &Service) -> f64 {
        let takes_ms = self.profile.budget_ms(self.allocation.each());
        match takes_ms > service.latency_max_ms {
            true => self.capacity_within_rps(service.own_slo_ms()),
            false => 0.0,
        }
    }

    fn capacity_within_rps(&self, latency_max_ms: f64) -> f64 {
        let one = (self.profile).capacity(self.allocation.each(), latency_max_ms);
        f64::from(self.allocation.replicas()) * one.0
    }

    pub(super) fn slots(&self, latency_max_ms: f64) -> u32 {
        let batch = match self.variant.makes_batches() {
            true => self.max_batch(latency_max_ms),
            false => self.profile.batch,
        };
        let one = Profile {
            batch,
            ..self.profile
        }
        .slots(self.allocation.each());
        one.saturating_mul(self.allocation.replicas())
    }

    /// Largest batch that the server can finish within the latency budget, at least the planned one. With slots for the
    /// planned batch only, some lanes would idle while others execute larger batches.
    fn max_batch(&self, latency_max_ms: f64) -> u32 {
        let most = Profile {
            batch: self.max,
            ..self.profile
        };
        let largest = most.with_batch_within(self.allocation.each(), latency_max_ms);
        largest.batch.max(self.profile.batch)
    }

    /// Profile with the batch that the filters send together: 1 if the server makes the batches. The filters learn the
    /// time of the server's batches as a multiple of this one, which must therefore not change with the planned batch.
    fn sent_together(&self) -> Profile {
        let batch = match self.variant.makes_batches() {
            true => 1,
            false => self.profile.batch,
        };
        Profile {
            batch,
            ..self.profile
        }
    }

    fn takes_ms(&self, profile: &Profile) -> f64 {
        let ms = profile.service_ms(self.allocation.each())
            + self.variant.batch_delay.as_secs_f64() * 1e3;
        if ms.is_finite() {
            ms.min(HOUR_MS as f64)
        } else {
            0.0
        }
    }

    /// Executions as the profile has them.
    pub(super) fn expected(&self) -> Option<Expected> {
        let variant = self.variant;
        let (each, replicas) = (self.allocation.each(), self.allocation.replicas());
        let by_server = !variant.batch_delay.is_zero();
        let of = |batch: u32| Profile {
            batch,
            ..self.profile.uncorrected()
        };
        let largest = if by_server {
            self.max
        } else {
            self.profile.batch
        };
        let sustained = of(self.profile.batch).sustained(each);
        let executed = Profile {
            fit: None,
            ..of(self.profile.batch)
        };
        let (single_ms, pair_ms) = (of(1).mean_ms(each), of(2).mean_ms(each));
        let millis = self.profile.parallelism.cores_each(each.as_f64()) * 1e3;
        (self.allocation != Allocation::NONE).then(|| Expected {
            millis: millis.round() as u32,
            slots: of(largest).slots(each).saturating_mul(replicas),
            sustained_rps: f64::from(replicas) * sustained.0,
            executed_rps: f64::from(replicas) * executed.sustained(each).0,
            longest_ms: self.takes_ms(&of(largest)),
            single_ms,
            per_request_ms: pair_ms - single_ms,
            largest,
            by_server,
            delay_ms: variant.batch_delay.as_secs_f64() * 1e3,
        })
    }

    /// Time of a request in the planned batch, batch filling included: as measured, and by the profile.
    pub(super) fn needs(&self, demand: Option<Rps>) -> Needs {
        let others = f64::from(self.sent_together().batch.saturating_sub(1));
        let fill_ms = demand.map_or(0.0, |demand| others * 1e3 / demand.0.max(f64::MIN_POSITIVE));
        Needs {
            measured_ms: self.takes_ms(&self.profile) + fill_ms,
            profile_ms: self.takes_ms(&self.profile.uncorrected()) + fill_ms,
        }
    }

    pub(super) fn part(&self, slots: u32, share: f64) -> VariantPlan {
        let sent = self.sent_together().uncorrected();
        VariantPlan {
            service_min_ms: shortest_ms(self.variant),
            name: self.variant.name.clone(),
            cluster: self.variant.cluster.clone(),
            grpc_cluster: self.variant.grpc_cluster.clone(),
            model: self.variant.model.clone(),
            path: self.variant.path.clone(),
            share: Share(share),
            slots,
            batch: sent.batch,
            // Where servers make batches, requests wait there to fill them.
            replicas: match self.variant.profile.batch {
                0 | 1 => self.allocation.replicas().max(1),
                _ => 1,
            },
            service_ms: self.takes_ms(&sent),
            accuracy: self.variant.accuracy,
            cancels: self.variant.cancels,
            groups: Vec::new(),
        }
    }
}

/// Time of a request at a stage, batch filling included.
pub(super) fn needs_of(runs: &[Run], parts: &[VariantPlan], demand: Option<Rps>) -> Needs {
    let each = runs.iter().zip(parts);
    let serving = each.filter(|(_, part)| part.share.0 > 0.0);
    let needs = serving.map(|(run, _)| run.needs(demand));
    needs.fold(Needs::default(), Needs::max)
}

/// Rate that shares are for.
pub(super) fn shared_rate(service: &Service, inputs: Option<Inputs>) -> Option<Rps> {
    inputs.map(|inputs| inputs.forecast.shared(service.utilisation_max()))
}

/// Capacities of the variants that take longer than the latency budget allows, but less than the objective; 0 for the
/// others, for those that fail, and in a pipeline.
pub(super) fn slow_capacities(service: &Service, runs: &[Run], failing: &[bool]) -> Vec<f64> {
    let fails = failing.iter().copied().chain(std::iter::repeat(false));
    let each = runs.iter().zip(fails);
    each.map(|(run, fails)| match fails || service.stages.len() > 1 {
        true => 0.0,
        false => run.slow_capacity_rps(service),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;
    use crate::plan::{capacities, draft, drafts};
    use crate::profile::{Correction, Ratio};
    use crate::service::Stage;
    use crate::spec::tests::service;

    #[test]
    fn shares_keep_one_reserve_of_the_demand_and_the_variants() {
        // Four cores of a carry 0.8 · 78, two of b 0.8 · 18 requests/s.
        let cores = [4, 2].map(|cores| Allocation::one(Cores::whole(cores)));
        for (mean, utilisation, share) in [
            (57.6, 0.8, 0.25),
            (48.0, 0.8, 0.3),
            // Of the present demand, 0.8 at least: more of b would be above what it executes.
            (40.0, 0.8, 0.3125),
            (70.0, 0.8, 0.25),
            // Without a reserve of the variants, that of the demand stays.
            (40.0, 1.0, 0.3125),
        ] {
            let mut service = service(8);
            for variant in &mut service.variants {
                variant.profile.utilisation = utilisation;
            }
            let mut inputs = Inputs::steady(Rps(57.6));
            inputs.forecast.mean = Rps(mean);
            let draft = draft(&service, &cores, Some(inputs)).unwrap();
            assert_eq!(draft.variants[1].share.0, share, "{mean} {utilisation}");
        }
    }

    #[test]
    fn filters_get_the_profile_and_capacity_follows_the_measured_time() {
        let profiled = service(8);
        let mut slow = profiled.clone();
        let cores = [4, 2].map(|cores| Allocation::one(Cores::whole(cores)));
        slow.variants[1].profile.correction = Correction::of([Ratio {
            millis: 1000,
            percent: 400,
        }]);
        let parts = |service: &Service| {
            let draft = draft(service, &cores, Some(Inputs::steady(Rps(57.6)))).unwrap();
            draft.variants
        };
        let (before, after) = (parts(&profiled), parts(&slow));
        assert_eq!(after[1].service_ms, before[1].service_ms);
        assert_eq!(after[1].service_min_ms, before[1].service_min_ms);
        assert_eq!(after[1].slots, before[1].slots);
        assert!(after[1].share.0 < before[1].share.0, "{after:?}");
        let capacity = |service| capacities(service, &cores, None, &[])[1];
        // 0.8·(10·2 − 2); then two at a time in 4 × 83 ms.
        assert!((capacity(&profiled) - 14.4).abs() < 1e-9);
        assert!((capacity(&slow) - 0.8 * 2000.0 / 332.0).abs() < 1e-9);
        let mut pipeline = slow.clone();
        pipeline.stages = (0..2)
            .map(|index| Stage {
                name: format!("s{index}"),
                variants: index..index + 1,
            })
            .collect();
        let drafts_of =
            |service: &Service| drafts(service, &cores, Some(Inputs::steady(Rps(1.0)))).unwrap();
        let drafts = drafts_of(&pipeline);
        assert_eq!(drafts[0].downstream_ms, 332.0, "of the stage that is slow");
        // However slow it is measured, the stage before keeps its own time.
        pipeline.variants[1].profile.correction = Correction::of([Ratio {
            millis: 1000,
            percent: 3000,
        }]);
        let before_ms = drafts_of(&pipeline)[0].variants[0].service_ms;
        let left_ms = pipeline.latency_max_ms - before_ms;
        assert_eq!(drafts_of(&pipeline)[0].downstream_ms, left_ms);
    }
}
