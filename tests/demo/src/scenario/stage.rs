//! One stage: its variants, and the limits of the compared listener. A plain service is a pipeline
//! of one stage.

use std::net::SocketAddr;
use std::time::Duration;

use serde::Deserialize;
use weir_bed::envoy::Careful;

use super::Variant;

/// The parsed keys of one stage.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Stage {
    /// The `service` of its filters' configuration.
    pub(crate) name: String,
    pub(crate) variants: Vec<Variant>,
}

impl Stage {
    /// Capacity of its variants on their starting cores, in requests/s.
    pub(crate) fn capacity_rps(&self) -> f64 {
        self.variants.iter().map(Variant::capacity_rps).sum()
    }

    /// Maximum time of a single request on the starting cores, in ms.
    pub(super) fn slowest_ms(&self) -> f64 {
        let each = self.variants.iter().map(Variant::alone_ms);
        each.fold(0.0, f64::max)
    }

    /// The cluster of the `careful` listener: weights proportional to the capacities, and no more
    /// requests at once than that capacity answers within the SLO (Little's law).
    pub(crate) fn careful(&self, slo: Duration, hosts: &[Vec<(SocketAddr, u32)>]) -> Careful {
        const WEIGHT_MAX: f64 = 100.0;
        let most = self
            .variants
            .iter()
            .map(Variant::capacity_rps)
            .fold(1.0, f64::max);
        let weight = |variant: &Variant| variant.capacity_rps() / most * WEIGHT_MAX;
        // The weight of a variant is split over its servers in proportion to their lanes.
        let weighed = |(variant, hosts): (&Variant, &Vec<(SocketAddr, u32)>)| {
            let all: u32 = hosts.iter().map(|(_, lanes)| lanes).sum();
            let one = weight(variant) / f64::from(all.max(1));
            let each = hosts.iter().map(move |(host, lanes)| {
                (*host, (one * f64::from(*lanes)).round().max(1.0) as u32)
            });
            each.collect::<Vec<_>>()
        };
        let at_once = (self.capacity_rps() * slo.as_secs_f64()).round() as u32;
        Careful {
            hosts: self.variants.iter().zip(hosts).flat_map(weighed).collect(),
            timeout: slo,
            max_requests: at_once,
            max_pending_requests: at_once,
        }
    }
}
