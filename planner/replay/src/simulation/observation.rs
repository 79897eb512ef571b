//! Observation of a baseline: counters of the servers and proxies, and the requests that wait.

use std::time::Duration;

use weir_solve::sponge::input::Waiting;

use super::Simulation;
use super::flight::Place;
use super::witness::Witness;
use crate::control::{Observation, Usage};
use crate::plane::DataPlane;
use crate::request::Request;

impl<W: Witness> Simulation<'_, W> {
    pub(super) fn observation(&self, with_waiting: bool) -> Observation {
        let time = self.time();
        let mut usage = vec![Usage::default(); self.fleets.len()];
        for server in &self.simulated_servers {
            if let Some(usage) = usage.get_mut(usize::from(server.variant)) {
                usage.core_seconds += server.core_seconds(time);
                usage.busy_core_seconds += server.busy_core_seconds(time);
            }
        }
        // Demand is what arrives at the first stage.
        let entry = self.stages.first().map_or(0, |span| span.proxies.len());
        let entry = self.counted.iter().take(entry);
        let mut seen = Observation {
            usage,
            arrivals: entry.map(|proxy| proxy.arrivals()).sum(),
            ..Observation::default()
        };
        if with_waiting {
            seen.network_ms = self.arrived().next().map_or(0.0, network_ms);
            seen.waiting = self.waiting();
        }
        seen
    }

    /// Requests whose bodies have arrived, the latest heads first, as far back as a late one may still wait.
    fn arrived(&self) -> impl Iterator<Item = &Request> {
        let now = self.time();
        let oldest = now.saturating_sub(self.scenario.service.slo * 2);
        let order = self.order.get(..self.arrived).unwrap_or_default();
        let heads = order.iter().rev();
        let heads = heads.filter_map(|request| self.requests.get(*request as usize));
        let recent = heads.take_while(move |request| request.head >= oldest);
        recent.filter(move |request| request.arrives <= now)
    }

    /// Requests in a queue: with Weir at the proxies, otherwise at the servers, where they count until answered.
    fn waiting(&self) -> Vec<Waiting> {
        let place = match self.plane {
            DataPlane::Weir(_) => Place::Held,
            DataPlane::Fifo(_) => Place::InFlight,
        };
        let waits = |request: &&Request| {
            let flight = self.flights.get(request.id as usize);
            flight.is_some_and(|flight| flight.place == place)
        };
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let each = self.arrived().filter(waits).map(|request| Waiting {
            slo_ms: ms(request.budget),
            network_ms: network_ms(request),
            waited_ms: ms(self.time().saturating_sub(request.arrives)),
        });
        each.collect()
    }
}

fn network_ms(request: &Request) -> f64 {
    request.arrives.saturating_sub(request.sent).as_secs_f64() * 1e3
}
