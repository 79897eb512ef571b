//! The load of each policy's demo; its parameters are fixed before any run.

use std::path::Path;

use anyhow::Result;
use weir_bed::load::Rates;

use super::Policy;

/// InfAdapter's demo: rate at the beginning and end, in requests/s.
const LOW_RPS: f64 = 40.0;
/// Peak rate over the capacity of the starting cores by InfAdapter's lines.
const CREST_OVER_CAPACITY: f64 = 1.2;
/// Size of an uploaded image. It is really sent, in pieces as the emulated network delivers it.
const PAYLOAD_BYTES: u64 = 200_000;
/// IPA's demo: rate at the beginning and end, in requests/s.
const IPA_LOW_RPS: f64 = 20.0;
/// Peak rate over the capacity of the narrower stage with the starting cores: that is 118 requests/s. All cores
/// sustain 149 with the cheapest variants in batches of two.
const IPA_CREST_OVER_CAPACITY: f64 = 1.4;
/// Peak rate of Themis' demo, which begins like IPA's, over the capacity of the starting cores. It is below the
/// capacity of all cores in replicas of one core, and above their capacity in a few large replicas.
const THEMIS_CREST_OVER_CAPACITY: f64 = 0.7;
/// Sponge's demo: the constant rate. While the network is fast, two cores sustain it.
const SPONGE_RPS: f64 = 25.0;
/// The largest of the paper's three payloads: a fade takes half of the SLO or more.
const SPONGE_BYTES: u64 = 500_000;

/// The load of a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    shape: Shape,
    /// Payload of every request.
    pub(crate) payload_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    /// From `low_rps` to a peak above the capacity, and back.
    Swell {
        low_rps: f64,
        crest_over_capacity: f64,
        capacity_rps: f64,
    },
    /// A constant rate.
    Steady { rps: f64 },
}

impl Load {
    /// The load of a policy's demo; `capacity_rps` is the capacity of the starting cores.
    pub(super) fn of(policy: Policy, capacity_rps: f64) -> Load {
        match policy {
            Policy::Infadapter => Load {
                shape: Shape::Swell {
                    low_rps: LOW_RPS,
                    crest_over_capacity: CREST_OVER_CAPACITY,
                    capacity_rps,
                },
                payload_bytes: PAYLOAD_BYTES,
            },
            Policy::Ipa => Load {
                shape: Shape::Swell {
                    low_rps: IPA_LOW_RPS,
                    crest_over_capacity: IPA_CREST_OVER_CAPACITY,
                    capacity_rps,
                },
                payload_bytes: PAYLOAD_BYTES,
            },
            Policy::Themis => Load {
                shape: Shape::Swell {
                    low_rps: IPA_LOW_RPS,
                    crest_over_capacity: THEMIS_CREST_OVER_CAPACITY,
                    capacity_rps,
                },
                payload_bytes: PAYLOAD_BYTES,
            },
            Policy::Sponge => Load {
                shape: Shape::Steady { rps: SPONGE_RPS },
                payload_bytes: SPONGE_BYTES,
            },
        }
    }

    /// Request rate of each second of the run, from the trace if there is one.
    pub(crate) fn rates(&self, seconds: usize, trace: Option<&Path>) -> Result<Rates> {
        match (trace, self.shape) {
            (Some(path), _) => Rates::from_file(path)?.fitted(seconds),
            (
                None,
                Shape::Swell {
                    low_rps,
                    crest_over_capacity,
                    capacity_rps,
                },
            ) => Rates::swell(low_rps, crest_over_capacity * capacity_rps, seconds),
            (None, Shape::Steady { rps }) => Rates::constant(rps, seconds),
        }
    }
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.shape {
            Shape::Swell {
                low_rps,
                crest_over_capacity,
                capacity_rps,
            } => write!(
                f,
                "synthetic, {low_rps} requests/s, rising to {crest_over_capacity} × the capacity of the starting cores, {capacity_rps:.0}"
            ),
            Shape::Steady { rps } => write!(f, "synthetic, constant {rps} requests/s"),
        }
    }
}
