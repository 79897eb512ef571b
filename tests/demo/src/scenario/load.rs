//! The load of each policy's demo: its figures, stated before any run.

use std::path::Path;

use anyhow::Result;
use weir_bed::load::Rates;

use super::Policy;

/// InfAdapter's demo, at the beginning and end, in requests/s.
const LOW_RPS: f64 = 40.0;
/// At its crest, over the capacity that the starting split of cores has by InfAdapter's lines.
const CREST_OVER_CAPACITY: f64 = 1.2;
/// An image on its way up, really sent: in pieces, as the emulated network carries it.
const PAYLOAD_BYTES: u64 = 200_000;
/// IPA's demo, likewise.
const IPA_LOW_RPS: f64 = 20.0;
/// At its crest, over what the starting split's narrower stage comes to: that is 118 requests/s. All cores carry
/// 149 with the cheapest variants in batches of two.
const IPA_CREST_OVER_CAPACITY: f64 = 1.4;
/// Themis' demo, from the same beginning. At its crest, over the starting split's capacity: within what all
/// cores carry in replicas of one core, and beyond what they carry in a few large ones.
const THEMIS_CREST_OVER_CAPACITY: f64 = 0.7;
/// Sponge's demo, throughout: while the network is quick, two cores carry it.
const SPONGE_RPS: f64 = 25.0;
/// The greatest of the paper's three payloads: a fade takes half of the promise and more.
const SPONGE_BYTES: u64 = 500_000;

/// What is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Load {
    shape: Shape,
    /// What every request carries.
    pub(crate) payload_bytes: u64,
}

#[derive(Debug, Clone, Copy)]
enum Shape {
    /// From `low_rps` to a crest over the capacity, and back.
    Swell {
        low_rps: f64,
        crest_over_capacity: f64,
        capacity_rps: f64,
    },
    /// The same throughout.
    Steady { rps: f64 },
}

impl Load {
    /// That policy's, where the starting split sustains so much.
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

    /// Requests per second over the run, or the trace as it is.
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
                "synthetic, {low_rps} requests/s, rising to {crest_over_capacity} × the starting split's {capacity_rps:.0}"
            ),
            Shape::Steady { rps } => write!(f, "synthetic, {rps} requests/s throughout"),
        }
    }
}
