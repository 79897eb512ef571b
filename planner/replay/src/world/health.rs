//! Servers that err, and the probes by which workers find out that one is well again.

use weir_filter::health::{HealthSignal, ProbeResult};
use weir_filter::variant::VariantKey;

use super::agenda::What;
use super::life::BREAK_DELAY;
use super::witness::Witness;
use super::{World, nanos};
use crate::plane::DataPlane;

/// The label of a server's own error.
const ERROR: &str = "error";

impl<W: Witness> World<'_, W> {
    /// A server has answered that it does not know the model, which the client is told.
    pub(super) fn erred(&mut self, stream: u32, attempt: u8) {
        let Some(worker) = self.lands(stream, attempt) else {
            return;
        };
        self.refuse(stream, ERROR, 404, None);
        self.tell(worker, |worker, now, verdicts| {
            worker.on_answer(stream, HealthSignal::Erred, now, verdicts)
        });
        self.obey(worker, true);
        self.arm(worker);
    }

    /// What a worker wants probed is on its way.
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
            let hop = self.sites.get(usize::from(variant)).map_or(0, |s| s.hop);
            let at = self.now + nanos(BREAK_DELAY) + 2 * hop;
            let worker = index;
            self.agenda.add(at, What::Probed { worker, variant });
        }
    }

    /// A probe's answer is with its worker, or word that there is none.
    pub(super) fn probed(&mut self, worker: u32, variant: u16) {
        let site = self.sites.get(usize::from(variant));
        let probed = match site.filter(|site| site.up) {
            None => ProbeResult::Nobody,
            Some(site) => ProbeResult::Status(if site.errs { 404 } else { 200 }),
        };
        let known = self.scenario.service.variants.get(usize::from(variant));
        let key = VariantKey::of(known.map_or("", |known| &known.name));
        self.tell(worker, |worker, now, verdicts| {
            worker.on_probe(key, probed, now, verdicts)
        });
        self.obey(worker, false);
        self.arm(worker);
    }
}
