//! Failing servers, and the probes by which workers detect recovery.

use weir_filter::health::{HealthSignal, ProbeResult};
use weir_filter::variant::VariantKey;

use super::Simulation;
use super::event_queue::Event;
use super::fleet::{Fleet, NO_SERVER};
use super::serving::BREAK_DELAY;
use super::witness::Witness;
use crate::nanos;
use crate::plane::DataPlane;

/// Label of an error from the server.
const ERROR: &str = "error";

impl<W: Witness> Simulation<'_, W> {
    /// Passes a server's error (it does not know the model) to the client.
    pub(super) fn server_error(&mut self, stream: u32, attempt: u16) {
        let Some(worker) = self.end_flight(stream, attempt) else {
            return;
        };
        self.refuse(stream, ERROR, 404, None);
        self.tell(worker, |worker, now, verdicts| {
            worker.on_answer(stream, HealthSignal::Erred, now, verdicts)
        });
        self.carry_out_verdicts(worker, true);
        self.arm(worker);
    }

    /// Sends the probes that a worker requests.
    pub(super) fn probe(&mut self, index: u32) {
        let DataPlane::Weir(workers) = &mut self.plane else {
            return;
        };
        let Some(worker) = workers.get_mut(index as usize) else {
            return;
        };
        for key in worker.probes(self.now) {
            let variants = (0..).zip(&self.scenario.service.variants);
            let mut of_key = variants.filter(|(_, known)| VariantKey::of(&known.name) == key);
            let Some((variant, _)) = of_key.next() else {
                continue;
            };
            let first = self.fleets.get(usize::from(variant));
            let first = first.and_then(Fleet::first).unwrap_or(NO_SERVER);
            let server = self.simulated_servers.get(first as usize);
            let hop = server.map_or(0, |server| server.hop);
            let at = self.now + nanos(BREAK_DELAY) + 2 * hop;
            let worker = index;
            self.event_queue
                .add(at, Event::ProbeResult { worker, variant });
        }
    }

    /// Passes a probe's answer, or its failure, to the worker.
    pub(super) fn probed(&mut self, worker: u32, variant: u16) {
        let first = self.fleets.get(usize::from(variant));
        let first = first.and_then(Fleet::first).unwrap_or(NO_SERVER);
        let server = self.simulated_servers.get(first as usize);
        let probed = match server.filter(|server| server.up) {
            None => ProbeResult::Nobody,
            Some(server) => ProbeResult::Status(if server.failing { 404 } else { 200 }),
        };
        let known = self.scenario.service.variants.get(usize::from(variant));
        let key = VariantKey::of(known.map_or("", |known| &known.name));
        self.tell(worker, |worker, now, verdicts| {
            worker.on_probe(key, probed, now, verdicts)
        });
        self.carry_out_verdicts(worker, false);
        self.arm(worker);
    }
}
