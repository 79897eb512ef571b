//! Executions of a variant as its profile has them, to compare measurements with.
//!
//! The latency model gives the time of a batch, and each request of it is measured with that time. Of the batches only
//! their mean size is known, so the mean time of a request lies in a range. With batches of 1 to B and the mean m, the
//! mean over requests is at least that of the batch m, and at most that of the batch 1 + B − B/m: batches are then either
//! single requests or the largest. A server that makes batches by itself may make any.
//!
//! With batches, a request that comes while one is executed waits at the server for it, before its own: the filter sends
//! what has a slot. Up to two of the largest batches therefore agree with the profile.

use std::ops::RangeInclusive;

/// Executions on the present cores by the profile, without its correction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Expected {
    /// Cores of one execution, in thousandths.
    pub millis: u32,
    /// Requests that are executed at the same time.
    pub slots: u32,
    /// Rate that the servers sustain, all of it.
    pub sustained_rps: f64,
    /// Rate that the slots execute with the planned batch, by the latency model alone.
    pub executed_rps: f64,
    /// High percentile of the largest batch's time, in ms.
    pub longest_ms: f64,
    /// Mean time of a single request, in ms.
    pub single_ms: f64,
    /// Time of each further request of a batch, in ms.
    pub per_request_ms: f64,
    /// Largest batch.
    pub largest: u32,
    /// Whether the server makes the batches.
    pub by_server: bool,
    /// Time for which a server waits for a batch to fill, in ms.
    pub delay_ms: f64,
}

impl Expected {
    /// Rate that the slots execute with the largest batch, in requests/s.
    pub fn fastest_rps(&self) -> f64 {
        let batch_ms = self.batch_ms();
        match batch_ms > 0.0 {
            true => f64::from(self.slots) * 1e3 / batch_ms,
            false => 0.0,
        }
    }

    /// Mean time of the largest batch, in ms.
    pub fn batch_ms(&self) -> f64 {
        self.single_ms + f64::from(self.largest.max(1) - 1) * self.per_request_ms
    }

    /// Factor by which a server with all slots taken may be slower than with the largest batches: it executes what is
    /// there, and what comes meanwhile waits, so that the slots of one batch are two smaller ones in turn.
    pub fn own_batches(&self) -> f64 {
        let batch_ms = self.batch_ms();
        let in_two_ms = batch_ms + self.single_ms - self.per_request_ms;
        match self.largest > 1 && batch_ms > 0.0 {
            true => (in_two_ms / batch_ms).max(1.0),
            false => 1.0,
        }
    }

    /// Mean times of a request that the profile allows, in ms, for the mean number of requests that a worker sent
    /// together; `None` if it is not known. A server may execute several of these as one batch, because the slots of a
    /// batch are shared among workers.
    pub fn mean_ms(&self, together: Option<f64>) -> RangeInclusive<f64> {
        let largest = f64::from(self.largest.max(1));
        let of = |batch: f64| self.single_ms + (batch - 1.0) * self.per_request_ms;
        let batches = largest.min(2.0);
        if self.by_server {
            return of(1.0)..=batches * of(largest) + self.delay_ms;
        }
        of(together.unwrap_or(1.0).clamp(1.0, largest))..=batches * of(largest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const EXPECTED: Expected = Expected {
        millis: 1000,
        slots: 8,
        sustained_rps: 100.0,
        executed_rps: 160.0,
        longest_ms: 100.0,
        single_ms: 20.0,
        per_request_ms: 10.0,
        largest: 4,
        by_server: false,
        delay_ms: 5.0,
    };

    #[test]
    fn range_follows_the_mean_batch() {
        let server = Expected {
            by_server: true,
            ..EXPECTED
        };
        let single = Expected {
            largest: 1,
            ..EXPECTED
        };
        for (expected, together, range) in [
            (EXPECTED, Some(1.0), 20.0..=100.0),
            (EXPECTED, Some(2.0), 30.0..=100.0),
            (EXPECTED, Some(4.0), 50.0..=100.0),
            (EXPECTED, Some(9.0), 50.0..=100.0),
            (EXPECTED, None, 20.0..=100.0),
            (single, None, 20.0..=20.0),
            (server, Some(1.0), 20.0..=105.0),
        ] {
            assert_eq!(expected.mean_ms(together), range, "{together:?}");
        }
    }

    #[test]
    fn slots_of_a_batch_may_be_two_smaller_ones() {
        // One of 1 and one of 3 take 20 + 40 ms, one of 4 takes 50.
        assert_eq!(EXPECTED.own_batches(), 60.0 / 50.0);
        let single = Expected {
            largest: 1,
            ..EXPECTED
        };
        assert_eq!(single.own_batches(), 1.0);
        // A batch that saves nothing.
        let serial = Expected {
            per_request_ms: 20.0,
            ..EXPECTED
        };
        assert_eq!(serial.own_batches(), 1.0);
    }

    proptest! {
        /// The mean over the requests of any batches lies in the range, in however many parts each was sent.
        #[test]
        fn any_batches_lie_in_the_range(
            batches in prop::collection::vec(1_u32..=4, 1..40),
            parts in 1_u32..=4,
        ) {
            let requests = f64::from(batches.iter().sum::<u32>());
            let total_ms = batches.iter().map(|batch| {
                let batch = f64::from(*batch);
                batch * (20.0 + (batch - 1.0) * 10.0)
            });
            let mean_ms = total_ms.sum::<f64>() / requests;
            let sent: u32 = batches.iter().map(|batch| parts.min(*batch)).sum();
            let range = EXPECTED.mean_ms(Some(requests / f64::from(sent)));
            let (low, high) = (range.start() - 1e-9, range.end() + 1e-9);
            prop_assert!((low..=high).contains(&mean_ms), "{mean_ms} {range:?}");
        }
    }
}
