//! The **server curve**: how long a request takes, and how many are answered, by how many are in flight at a server.
//!
//! Serial servers, lanes, and servers that batch with and without a batch window are shapes of it. All lanes execute;
//! what comes meanwhile waits, and the next free lane takes all of it, up to the largest batch. So with n in flight one in
//! `lanes + 1` of them is in each batch: with one lane, two in flight are answered no faster than one, and four are. A
//! server with a batch window waits for company before it executes, so that one in `lanes` is in each batch, until all are
//! full; what is beyond them has waited when a lane is free.
//!
//! Times are the mean of a closed loop, which keeps the number in flight; Little's law ties both: n = T(n)·X(n).

/// Lanes, batches and the batch window of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Batching {
    /// Batches executed at once.
    pub lanes: u32,
    /// Maximum number of requests in a batch; 1 if each is executed alone.
    pub batch: u32,
    /// Wait of a batch that is not full, in ms; `None` if the server does not wait for its batches to fill.
    pub window_ms: Option<f64>,
}

impl Batching {
    /// Mean number of requests in a batch with that many in flight.
    #[must_use]
    pub fn together(&self, in_flight: u32) -> f64 {
        let groups = match self.is_in_step(in_flight) {
            true => self.lanes.max(1),
            false => self.lanes.saturating_add(1),
        };
        let most = f64::from(self.batch.max(1));
        (f64::from(in_flight) / f64::from(groups)).clamp(1.0, most)
    }

    /// Requests that are executed at once with that many in flight.
    #[must_use]
    pub fn executing(&self, in_flight: u32) -> f64 {
        f64::from(self.lanes.min(in_flight)) * self.together(in_flight)
    }

    /// Whether a batch waits for more requests with that many in flight.
    #[must_use]
    pub fn waits_to_fill(&self, in_flight: u32) -> bool {
        self.is_in_step(in_flight) && self.together(in_flight) < f64::from(self.batch)
    }

    /// Whether lanes wait for company, so that all in flight are in the batches that execute.
    fn is_in_step(&self, in_flight: u32) -> bool {
        self.window_ms.is_some() && in_flight <= self.lanes.saturating_mul(self.batch)
    }

    /// Fewest requests in flight with which all batches are full: the throughput grows no further.
    #[must_use]
    pub fn full_from(&self) -> u32 {
        match self.batch {
            // Lanes alone are full with one request each.
            0 | 1 => self.lanes,
            batch if self.window_ms.is_some() => self.lanes.saturating_mul(batch),
            batch => self.lanes.saturating_add(1).saturating_mul(batch),
        }
    }
}

/// Server curve: a [`Batching`] whose batch of b requests executes in `batch_ms(b)` ms on the cores of one execution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ServerCurve<F> {
    /// Lanes, batches and window.
    pub batching: Batching,
    /// Time of a batch, in ms.
    pub batch_ms: F,
}

impl<F: Fn(u32) -> f64> ServerCurve<F> {
    /// X(n): requests/s that are answered with that many in flight all the time; 0 without any or without lanes.
    #[must_use]
    pub fn throughput_rps(&self, in_flight: u32) -> f64 {
        let executing = self.batching.executing(in_flight);
        if executing <= 0.0 {
            return 0.0;
        }
        executing * 1e3 / self.execution_ms(in_flight)
    }

    /// T(n): mean time of a request in ms, from its arrival at the server to its answer; infinite without lanes.
    #[must_use]
    pub fn time_ms(&self, in_flight: u32) -> f64 {
        let executing = self.batching.executing(in_flight);
        if executing <= 0.0 {
            return f64::INFINITY;
        }
        f64::from(in_flight) / executing * self.execution_ms(in_flight)
    }

    /// Most requests in flight, at most that many, whose T(n), times `tail`, is within `within_ms`; at least 1.
    #[must_use]
    pub fn in_time(&self, within_ms: f64, tail: f64, most: u32) -> u32 {
        let fits = |n: &u32| self.time_ms(*n) * tail <= within_ms;
        (1..=most).take_while(fits).last().unwrap_or(1)
    }

    /// Time in ms for which a batch of the mean size, between two whole ones, occupies its lane.
    fn execution_ms(&self, in_flight: u32) -> f64 {
        let together = self.batching.together(in_flight);
        let below = together.floor();
        let (smaller, part) = (below as u32, together - below);
        let least = (self.batch_ms)(smaller);
        let executes = match part > 0.0 {
            true => least + part * ((self.batch_ms)(smaller + 1) - least),
            false => least,
        };
        let waits = self.batching.waits_to_fill(in_flight);
        executes
            + self
                .batching
                .window_ms
                .filter(|_| waits)
                .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(lanes: u32, batch: u32, window_ms: Option<f64>) -> ServerCurve<impl Fn(u32) -> f64> {
        ServerCurve {
            batching: Batching {
                lanes,
                batch,
                window_ms,
            },
            batch_ms: |size| 27.0 + 3.0 * f64::from(size),
        }
    }

    #[test]
    fn throughput_of_each_shape() {
        for (name, curve, points) in [
            (
                "serial",
                curve(1, 1, None),
                &[(1, 33.3), (2, 33.3), (16, 33.3)][..],
            ),
            (
                "lanes",
                curve(4, 1, None),
                &[(1, 33.3), (4, 133.3), (5, 133.3)],
            ),
            (
                "batches",
                curve(1, 8, None),
                &[
                    (1, 33.3),
                    (2, 33.3),
                    (4, 60.6),
                    (8, 102.6),
                    (16, 156.9),
                    (32, 156.9),
                ],
            ),
            (
                "batches with a window",
                curve(1, 8, Some(5.0)),
                &[
                    (1, 28.6),
                    (2, 52.6),
                    (4, 90.9),
                    (8, 156.9),
                    (9, 111.1),
                    (16, 156.9),
                ],
            ),
            ("no lanes", curve(0, 8, None), &[(1, 0.0)]),
        ] {
            for (in_flight, rps) in points {
                let found = curve.throughput_rps(*in_flight);
                assert!((found - rps).abs() < 0.05, "{name} {in_flight}: {found}");
                let by_little = f64::from(*in_flight) * 1e3 / found;
                let time = curve.time_ms(*in_flight);
                assert!(
                    time == by_little || (time - by_little).abs() < 1e-6,
                    "{name} {time}"
                );
            }
        }
    }

    #[test]
    fn full_batches_and_those_in_time() {
        assert_eq!(curve(4, 1, None).batching.full_from(), 4);
        assert_eq!(curve(1, 8, None).batching.full_from(), 16);
        assert_eq!(curve(2, 8, Some(5.0)).batching.full_from(), 16);
        let batches = curve(1, 8, None);
        // 16 in flight take two full batches, 2 × 51 ms.
        assert_eq!(batches.in_time(102.1, 1.0, 64), 16);
        assert_eq!(batches.in_time(102.1, 1.0, 8), 8);
        assert_eq!(batches.in_time(101.0, 1.0, 64), 15);
        assert_eq!(batches.in_time(29.0, 1.0, 64), 1, "at least one");
    }
}
