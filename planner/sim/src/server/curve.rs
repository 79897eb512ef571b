//! The server curve of a simulated server: what it does with a number of requests in flight, without its noise.

use weir_solve::latency_model::{Batching, ServerCurve};

use super::ServerConfig;

impl ServerConfig {
    /// How long a request takes, and how many are answered, by how many are in flight at the server.
    pub fn curve(&self) -> ServerCurve<impl Fn(u32) -> f64> {
        let window_ms = self.batch_delay.as_secs_f64() * 1e3;
        ServerCurve {
            batching: Batching {
                lanes: self.parallelism.at_once(self.cores),
                batch: self.batch_max.get(),
                window_ms: (window_ms > 0.0).then_some(window_ms),
            },
            batch_ms: |size| {
                let cores = self.parallelism.cores_each(self.cores);
                self.latency.ms(size, cores)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use weir_solve::latency_model::{LatencyModel, Parallelism};

    use super::*;
    use crate::server::ServerModel;

    const LENGTH: Duration = Duration::from_secs(60);
    /// Time of the first answers, which do not count.
    const WARM_UP: Duration = Duration::from_secs(5);

    fn server(lanes: u32, batch: u32, window_ms: u64) -> ServerConfig {
        let latency = LatencyModel {
            gamma_ms: 0.0,
            epsilon_ms: 0.0,
            delta_ms: 3.0,
            eta_ms: 27.0,
        };
        ServerConfig {
            parallelism: Parallelism::Fixed(NonZeroU32::new(lanes).unwrap()),
            batch_max: NonZeroU32::new(batch).unwrap(),
            batch_delay: Duration::from_millis(window_ms),
            ..ServerConfig::new("m", latency)
        }
    }

    /// Answers each second with that many in flight all the time, each request replaced when it is answered.
    fn closed_loop_rps(config: &ServerConfig, in_flight: u32) -> f64 {
        let mut model: ServerModel<()> = ServerModel::new(config.clone()).unwrap();
        // A server that waits for company keeps all in step; without a window the first is executed alone.
        let apart_ms = if config.batch_delay.is_zero() { 7 } else { 0 };
        let begins = |n: u32| Duration::from_millis(apart_ms) * n;
        let (mut to_begin, mut answered) = (0, 0_u32);
        loop {
            let next = (to_begin < in_flight).then(|| begins(to_begin));
            let event = model.next_event();
            let now = match (next, event) {
                (Some(next), Some(event)) => next.min(event),
                (next, event) => next.or(event).unwrap(),
            };
            if now > LENGTH {
                return f64::from(answered) / (LENGTH - WARM_UP).as_secs_f64();
            }
            let mut ended = Vec::new();
            model.advance(now, &mut ended);
            for (rider, run) in ended {
                answered += u32::from(run.ended > WARM_UP);
                model.arrive(now, rider).unwrap();
            }
            if next == Some(now) {
                model.arrive(now, ()).unwrap();
                to_begin += 1;
            }
        }
    }

    #[test]
    fn closed_loops_follow_the_curve() {
        for (name, server) in [
            ("serial", server(1, 1, 0)),
            ("four lanes", server(4, 1, 0)),
            ("batches", server(1, 8, 0)),
            ("batches on two lanes", server(2, 8, 0)),
            ("batches with a window", server(1, 8, 5)),
        ] {
            for in_flight in [1, 2, 3, 4, 6, 8, 12, 16, 24, 32] {
                let (found, expected) = (
                    closed_loop_rps(&server, in_flight),
                    server.curve().throughput_rps(in_flight),
                );
                let error = (found / expected - 1.0).abs();
                assert!(
                    error < 0.1,
                    "{name}, {in_flight} in flight: {found} {expected}"
                );
            }
        }
    }
}
