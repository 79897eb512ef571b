//! The network between client and proxy, as delays: how long a payload takes over a link whose
//! bandwidth changes.
//!
//! A request of `n` bytes sent at `t` arrives after half a round trip and the time in which the
//! bandwidth, integrated from `t` on, carries `n` bytes; its answer likewise. Every request has the link
//! to itself, as in Sponge (EuroMLSys '24): clients are many phones, not one. Delays are computed, never
//! slept here, and no byte is really sent; the load generator does both.

mod log;
mod pieces;
mod synthetic;

use std::time::Duration;

pub use log::LOG_ROUND_TRIP;
pub use pieces::{PIECES_MAX, Piece};
pub use synthetic::{GREATEST_BYTES_PER_S, LEAST_BYTES_PER_S};

/// Segments of one network: a day of seconds, with room.
pub const SEGMENTS_MAX: usize = 200_000;
/// Longest segment.
pub const SEGMENT_MAX: Duration = Duration::from_secs(3600);
/// Longest round trip.
pub const ROUND_TRIP_MAX: Duration = Duration::from_secs(60);

/// A stretch of time with one bandwidth and one round-trip time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Segment {
    /// How long it lasts.
    pub duration: Duration,
    /// Bytes per second; 0 where nothing gets through.
    pub bytes_per_s: f64,
    /// There and back, without the payload's time.
    pub round_trip: Duration,
}

/// A link over time; it starts again from the beginning where a run is longer.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    segments: Vec<Segment>,
    /// End of each segment since the beginning.
    ends: Vec<Duration>,
    bytes_per_loop: f64,
}

impl Network {
    /// A link of these segments.
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

    /// No delay at all.
    pub fn none() -> Network {
        Network::constant(f64::INFINITY, Duration::ZERO)
    }

    /// The same bandwidth (bytes/s, above 0) and round trip throughout.
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

    /// How long a request of `bytes` sent at `at` takes to the proxy.
    pub fn upload(&self, at: Duration, bytes: u64) -> Duration {
        self.round_trip(at) / 2 + self.transfer(at, bytes)
    }

    /// How long an answer of `bytes` that leaves the proxy at `at` takes to the client.
    pub fn download(&self, at: Duration, bytes: u64) -> Duration {
        self.round_trip(at) / 2 + self.transfer(at, bytes)
    }

    /// Bandwidth at `at`, in bytes/s.
    pub fn bytes_per_s(&self, at: Duration) -> f64 {
        self.segment(at)
            .map_or(0.0, |(segment, _)| segment.bytes_per_s)
    }

    /// Length before it starts again.
    pub fn length(&self) -> Duration {
        self.ends.last().copied().unwrap_or_default()
    }

    fn round_trip(&self, at: Duration) -> Duration {
        self.segment(at)
            .map_or(Duration::ZERO, |(segment, _)| segment.round_trip)
    }

    /// The segment at `at`, and what is left of it.
    fn segment(&self, at: Duration) -> Option<(&Segment, Duration)> {
        let at = within(at, self.length());
        let index = self.ends.partition_point(|end| *end <= at);
        Some((
            self.segments.get(index)?,
            self.ends.get(index)?.saturating_sub(at),
        ))
    }

    /// The time from `at` in which the bandwidth carries `bytes`.
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
        // What is left is less than one loop carries, so two passes always do.
        for _ in 0..2 * self.segments.len() + 1 {
            let Some((segment, rest)) = self.segment(now) else {
                break;
            };
            let room = segment.bytes_per_s * rest.as_secs_f64();
            if left <= room {
                let seconds = if left > 0.0 {
                    left / segment.bytes_per_s
                } else {
                    0.0
                };
                return took + Duration::from_secs_f64(seconds);
            }
            left -= room;
            took += rest;
            now += rest;
        }
        took
    }
}

/// Longest whole-loop part of a transfer: a day.
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
    fn a_payload_takes_the_time_the_changing_bandwidth_needs() {
        let link = link(&[(1000, 1000.0), (1000, 0.0), (1000, 500.0)]);
        // (sent at ms, bytes, arrives after ms); half the round trip is 20 ms.
        for (at, bytes, ms) in [
            (0, 0, 20),
            (0, 100, 120),
            (900, 100, 120),
            (900, 200, 1320), // 100 bytes, a second of nothing, 100 more
            (1500, 50, 620),
            (2900, 150, 220),   // 50 bytes, and round again
            (0, 1500, 3020),    // exactly one loop
            (3900, 3200, 7320), // two loops and what (900, 200) takes
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
    fn no_network_delays_nothing() {
        let none = Network::none();
        assert_eq!(
            none.upload(Duration::from_millis(1234), u64::MAX),
            Duration::ZERO
        );
    }

    #[test]
    fn a_link_that_is_none_is_refused() {
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
        /// What is sent later never arrives earlier, more bytes never take less time, and sending in
        /// two parts, one after the other, takes as long as in one.
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
            // Where nothing gets through, "when the first part is done" is the stretch's beginning.
            prop_assert!(parted.abs_diff(whole) <= slack, "{parted:?} {whole:?}");
        }
    }
}
