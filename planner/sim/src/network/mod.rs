//! Delays of the network between client and proxy: the transfer time of a payload over a link with
//! changing bandwidth.
//!
//! A request of `n` bytes sent at `t` arrives after half a round trip plus the time in which the
//! bandwidth, integrated from `t` on, carries `n` bytes; the same holds for its answer. Every request
//! has the link to itself, as in Sponge (EuroMLSys '24): clients are many phones, not one. This module
//! only computes delays; the load generator sleeps and sends.

mod log;
mod pieces;
mod synthetic;

use std::time::Duration;

pub use log::LOG_ROUND_TRIP;
pub use pieces::{PIECES_MAX, Piece};
pub use synthetic::{BYTES_PER_S_MAX, BYTES_PER_S_MIN};

/// Maximum number of segments of one network: a day of seconds, with a margin.
pub const SEGMENTS_MAX: usize = 200_000;
/// Maximum duration of a segment.
pub const SEGMENT_MAX: Duration = Duration::from_secs(3600);
/// Maximum round trip.
pub const ROUND_TRIP_MAX: Duration = Duration::from_secs(60);

/// Time interval with one bandwidth and one round-trip time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// Length of the interval.
    pub duration: Duration,
    /// Bytes per second; 0 during an outage.
    pub bytes_per_s: f64,
    /// Round-trip time, without the payload's transfer time.
    pub round_trip: Duration,
}

/// Link over time; it repeats from the beginning in a longer run.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    segments: Vec<Segment>,
    /// End of each segment since the beginning.
    ends: Vec<Duration>,
    bytes_per_loop: f64,
}

impl Network {
    /// Creates a link from its segments.
    ///
    /// # Errors
    /// No segments, too many, one that is out of range (by number and field), or a link that never
    /// carries anything.
    pub fn new(segments: Vec<Segment>) -> anyhow::Result<Network> {
        let count = segments.len();
        anyhow::ensure!(
            (1..=SEGMENTS_MAX).contains(&count),
            "{count} segments; there must be 1 to {SEGMENTS_MAX}"
        );
        let mut ends = Vec::with_capacity(count);
        let mut end = Duration::ZERO;
        let mut bytes_per_loop = 0.0;
        for (index, segment) in segments.iter().enumerate() {
            segment
                .check()
                .map_err(|wrong| anyhow::anyhow!("segment {}: {wrong}", index + 1))?;
            end += segment.duration;
            ends.push(end);
            bytes_per_loop += segment.bytes_per_s * segment.duration.as_secs_f64();
        }
        anyhow::ensure!(bytes_per_loop > 0.0, "the bandwidth is 0 throughout");
        Ok(Network {
            segments,
            ends,
            bytes_per_loop,
        })
    }

    /// Link without delay.
    pub fn none() -> Network {
        Network::constant(f64::INFINITY, Duration::ZERO)
    }

    /// Link with constant bandwidth (bytes/s, above 0) and round trip.
    pub fn constant(bytes_per_s: f64, round_trip: Duration) -> Network {
        let segment = Segment {
            duration: Duration::from_secs(1),
            bytes_per_s,
            round_trip,
        };
        Network {
            segments: vec![segment],
            ends: vec![segment.duration],
            bytes_per_loop: bytes_per_s,
        }
    }

    /// Transfer time to the proxy of a request of `bytes` sent at `at`.
    pub fn upload(&self, at: Duration, bytes: u64) -> Duration {
        self.round_trip(at) / 2 + self.transfer(at, bytes)
    }

    /// Transfer time to the client of an answer of `bytes` that leaves the proxy at `at`.
    pub fn download(&self, at: Duration, bytes: u64) -> Duration {
        self.round_trip(at) / 2 + self.transfer(at, bytes)
    }

    /// Bandwidth at `at`, in bytes/s.
    pub fn bytes_per_s(&self, at: Duration) -> f64 {
        self.segment(at)
            .map_or(0.0, |(segment, _)| segment.bytes_per_s)
    }

    /// Length of the link before it repeats.
    pub fn length(&self) -> Duration {
        self.ends.last().copied().unwrap_or_default()
    }

    fn round_trip(&self, at: Duration) -> Duration {
        self.segment(at)
            .map_or(Duration::ZERO, |(segment, _)| segment.round_trip)
    }

    /// Returns the segment at `at`, and the time until its end.
    fn segment(&self, at: Duration) -> Option<(&Segment, Duration)> {
        let at = within(at, self.length());
        let index = self.ends.partition_point(|end| *end <= at);
        Some((
            self.segments.get(index)?,
            self.ends.get(index)?.saturating_sub(at),
        ))
    }

    /// Returns the time from `at` in which the bandwidth carries `bytes`.
    fn transfer(&self, at: Duration, bytes: u64) -> Duration {
        let mut left = bytes as f64;
        let loops = (left / self.bytes_per_loop).floor();
        left -= loops
            * if loops > 0.0 {
                self.bytes_per_loop
            } else {
                0.0
            };
        let whole = self.length().as_secs_f64() * loops;
        let mut took = Duration::from_secs_f64(whole.min(TRANSFER_MAX.as_secs_f64()));
        let mut now = at;
        // The remainder is less than one loop carries, so two passes always suffice.
        for _ in 0..2 * self.segments.len() + 1 {
            let Some((segment, rest)) = self.segment(now) else {
                break;
            };
            let capacity = segment.bytes_per_s * rest.as_secs_f64();
            if left <= capacity {
                let seconds = if left > 0.0 {
                    left / segment.bytes_per_s
                } else {
                    0.0
                };
                return took + Duration::from_secs_f64(seconds);
            }
            left -= capacity;
            took += rest;
            now += rest;
        }
        took
    }
}

/// Maximum whole-loop part of a transfer: a day.
const TRANSFER_MAX: Duration = Duration::from_secs(86_400);

/// `at` modulo `length`.
fn within(at: Duration, length: Duration) -> Duration {
    let nanos = at.as_nanos() % length.as_nanos().max(1);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}

impl Segment {
    fn check(&self) -> Result<(), String> {
        let Segment {
            duration,
            bytes_per_s,
            round_trip,
        } = *self;
        if duration.is_zero() || duration > SEGMENT_MAX {
            return Err(format!(
                "duration: {duration:?} must be above 0 and at most {SEGMENT_MAX:?}"
            ));
        }
        if !(bytes_per_s >= 0.0 && bytes_per_s.is_finite()) {
            return Err(format!(
                "bandwidth: {bytes_per_s} bytes/s must be a number, 0 or more"
            ));
        }
        if round_trip > ROUND_TRIP_MAX {
            return Err(format!(
                "round trip: {round_trip:?} must be at most {ROUND_TRIP_MAX:?}"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn link(parts: &[(u64, f64)]) -> Network {
        let segment = |(ms, bytes_per_s): &(u64, f64)| Segment {
            duration: Duration::from_millis(*ms),
            bytes_per_s: *bytes_per_s,
            round_trip: Duration::from_millis(40),
        };
        Network::new(parts.iter().map(segment).collect()).unwrap()
    }

    #[test]
    fn upload_takes_the_time_the_changing_bandwidth_needs() {
        let link = link(&[(1000, 1000.0), (1000, 0.0), (1000, 500.0)]);
        // (sent at ms, bytes, arrives after ms); half the round trip is 20 ms.
        for (at, bytes, ms) in [
            (0, 0, 20),
            (0, 100, 120),
            (900, 100, 120),
            (900, 200, 1320), // 100 bytes, a second of nothing, 100 more
            (1500, 50, 620),
            (2900, 150, 220),   // 50 bytes, and on from the beginning
            (0, 1500, 3020),    // exactly one loop
            (3900, 3200, 7320), // two loops and the time of (900, 200)
        ] {
            let took = link.upload(Duration::from_millis(at), bytes);
            let off = took.as_secs_f64() * 1e3 - ms as f64;
            assert!(
                off.abs() < 1e-3,
                "{bytes} bytes at {at} ms: {took:?}, not {ms} ms"
            );
        }
    }

    #[test]
    fn network_none_has_no_delay() {
        let none = Network::none();
        assert_eq!(
            none.upload(Duration::from_millis(1234), u64::MAX),
            Duration::ZERO
        );
    }

    #[test]
    fn invalid_link_is_refused() {
        let good = Segment {
            duration: Duration::from_secs(1),
            bytes_per_s: 1.0,
            round_trip: Duration::ZERO,
        };
        for (segments, message) in [
            (vec![], "0 segments"),
            (
                vec![Segment {
                    bytes_per_s: 0.0,
                    ..good
                }],
                "0 throughout",
            ),
            (
                vec![
                    good,
                    Segment {
                        duration: Duration::ZERO,
                        ..good
                    },
                ],
                "segment 2: duration",
            ),
            (
                vec![Segment {
                    bytes_per_s: f64::NAN,
                    ..good
                }],
                "segment 1: bandwidth: NaN",
            ),
            (
                vec![Segment {
                    round_trip: SEGMENT_MAX,
                    ..good
                }],
                "segment 1: round trip",
            ),
        ] {
            let error = Network::new(segments).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    proptest! {
        /// A later send never arrives earlier, more bytes never take less time, and two parts sent one
        /// after the other take as long as the whole.
        #[test]
        fn delays_are_an_integral(
            parts in prop::collection::vec((1u64..2000, 0f64..1e6), 1..20),
            at in 0u64..100_000,
            later in 0u64..5000,
            first in 0u64..2_000_000,
            second in 0u64..2_000_000,
        ) {
            prop_assume!(parts.iter().any(|(_, bytes_per_s)| *bytes_per_s > 1e3));
            let link = link(&parts);
            let at = Duration::from_millis(at);
            let later = at + Duration::from_millis(later);
            let slack = Duration::from_micros(50);
            let arrives = |at: Duration, bytes| at + link.transfer(at, bytes);
            prop_assert!(arrives(at, first) <= arrives(later, first) + slack);
            prop_assert!(arrives(at, first) <= arrives(at, first + second) + slack);
            let parted = arrives(arrives(at, first), second);
            let whole = arrives(at, first + second);
            // During an outage, the first part is done when the outage begins.
            prop_assert!(parted.abs_diff(whole) <= slack, "{parted:?} {whole:?}");
        }
    }
}
