//! What the slot table is written with.

use crate::coordination::curve::{Ends, Point};
use crate::coordination::lead::Lead;
use crate::coordination::limit::{Limit, Phase};
use crate::health::{Failure, Health};

/// Bytes left to write; excess values are dropped.
pub(super) struct Writer<'a>(pub(super) &'a mut [u8]);

impl Writer<'_> {
    #[inline]
    pub(super) fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        if let Some((place, rest)) = std::mem::take(&mut self.0).split_first_chunk_mut() {
            *place = bytes;
            self.0 = rest;
        }
    }

    #[inline]
    pub(super) fn u32(&mut self, value: u32) {
        self.put(value.to_le_bytes());
    }

    #[inline]
    pub(super) fn u64(&mut self, value: u64) {
        self.put(value.to_le_bytes());
    }

    #[inline]
    pub(super) fn health(&mut self, health: &Health) {
        let failing = health.failing;
        self.put([match health.failure() {
            None => 0,
            Some(Failure::Unreachable) => 1,
            Some(Failure::Errors) => 2,
            Some(Failure::Silent) => 3,
        }]);
        self.u64(failing.map_or(0, |failing| failing.since.0));
        self.u64(failing.map_or(0, |failing| failing.next_trial.0));
        self.put(health.errors.to_le_bytes());
        self.put([health.rounds, u8::from(health.serves)]);
        self.u32(health.sources.code());
    }

    #[inline]
    pub(super) fn limit(&mut self, limit: &Limit) {
        self.u32(limit.planned);
        self.u32(limit.found);
        self.u32(limit.trial);
        self.put([match limit.phase {
            Phase::Rest => 0,
            Phase::Base => 1,
            Phase::Trial => 2,
        }]);
        self.put(limit.samples.to_le_bytes());
        self.put(limit.cut_off.to_le_bytes());
        self.put(limit.slow.to_le_bytes());
        self.u64(limit.sum);
        self.u32(limit.base);
        self.u32(limit.left);
        self.u64(limit.since.0);
        self.u64(limit.ended_at.0);
        self.u32(limit.lost);
        self.u64(limit.next_trial.0);
        self.put([limit.fruitless, limit.halvings]);
        self.put([u8::from(limit.falls) | u8::from(limit.late) << 1]);
    }

    #[inline]
    pub(super) fn ends(&mut self, ends: &Ends) {
        for count in [ends.most, ends.latest, ends.under_way, ends.sent] {
            self.u32(count);
        }
        self.u64(ends.until.0);
    }

    #[inline]
    pub(super) fn point(&mut self, point: &Point) {
        for times in [point.own, point.from_end] {
            self.u32(times.mean);
            self.u32(times.scatter);
        }
        self.put(point.count.to_le_bytes());
        self.u32(point.at_ms);
        self.u32(point.completed_at_ms);
    }

    #[inline]
    pub(super) fn lead(&mut self, lead: &Lead) {
        self.u64(lead.planned.as_nanos());
        self.u64(lead.early_wait);
        self.u64(lead.recent_wait);
        self.put([u8::from(lead.confirmed)]);
        for mean in [&lead.idle, &lead.early] {
            self.u64(mean.mean);
            self.u64(mean.scatter);
            self.u64(mean.last);
            self.put(mean.count.to_le_bytes());
            self.u64(mean.at.0);
        }
    }
}
