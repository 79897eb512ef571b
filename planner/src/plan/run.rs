//! Capacity, slots and service time of a variant on its allocation and batch.

use weir_api::plan::HOUR_MS;
use weir_api::{Rps, Share, VariantPlan};

use super::{ServiceTime, shortest_ms};
use crate::capacity::Allocation;
use crate::profile::Profile;
use crate::service::{Service, Variant};

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

    pub(super) fn capacity_rps(&self, service: &Service) -> f64 {
        let one = self
            .profile
            .capacity(self.allocation.each(), service.latency_max_ms);
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
        let in_time = |batch: &u32| {
            let profile = Profile {
                batch: *batch,
                ..self.profile
            };
            profile.service_ms(self.allocation.each()) <= latency_max_ms
        };
        let greater = (self.profile.batch + 1..=self.max).take_while(in_time);
        greater.last().unwrap_or(self.profile.batch)
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

    pub(super) fn service_time(&self) -> Option<ServiceTime> {
        let max = Profile {
            batch: self.max,
            ..self.profile
        };
        (self.allocation != Allocation::NONE).then(|| ServiceTime {
            sent_ms: self.takes_ms(&self.sent_together()),
            min_ms: max.shortest_ms(self.allocation.each()),
            most_ms: self.takes_ms(&max),
        })
    }

    /// Time of a request in the planned batch, batch filling included.
    pub(super) fn needs_ms(&self, demand: Option<Rps>) -> f64 {
        let others = f64::from(self.sent_together().batch.saturating_sub(1));
        let fill_ms = demand.map_or(0.0, |demand| others * 1e3 / demand.0.max(f64::MIN_POSITIVE));
        self.takes_ms(&self.profile) + fill_ms
    }

    pub(super) fn part(&self, slots: u32, share: f64) -> VariantPlan {
        let sent = self.sent_together();
        VariantPlan {
            service_min_ms: shortest_ms(self.variant),
            name: self.variant.name.clone(),
            cluster: self.variant.cluster.clone(),
            grpc_cluster: self.variant.grpc_cluster.clone(),
            model: self.variant.model.clone(),
            share: Share(share),
            slots,
            batch: sent.batch,
            service_ms: self.takes_ms(&sent),
            accuracy: self.variant.accuracy,
            cancels: self.variant.cancels,
        }
    }
}
