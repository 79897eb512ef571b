//! Observer of a simulation, through which tests check every step of every engine.

use weir_filter::engine::StreamId;
use weir_filter::verdict::Verdict;

use crate::plane::Worker;

/// Observes the simulation without changing it.
pub(crate) trait Witness {
    /// Called after each call of a worker at `now` (ns), with its engine's verdicts in order.
    fn on_verdicts(
        &mut self,
        worker: usize,
        who: &Worker,
        verdicts: &[(StreamId, Verdict)],
        now: u64,
    );

    /// Called before a worker receives the last byte of a request's body.
    fn on_last_byte(&mut self, worker: usize, stream: StreamId) {
        let _ = (worker, stream);
    }

    /// Called when a worker has a new engine.
    fn on_new_engine(&mut self, worker: usize);

    /// Called when `over` seconds of the scenario have elapsed.
    fn second(&mut self, over: u64) {
        let _ = over;
    }

    /// Called at the end, when no request is left.
    fn end(&mut self, workers: &mut dyn Iterator<Item = &mut Worker>, now: u64);
}

/// Reports only the elapsed seconds.
pub(crate) struct Progress<F>(pub(crate) F);

impl<F: FnMut(u64)> Witness for Progress<F> {
    fn on_verdicts(&mut self, _: usize, _: &Worker, _: &[(StreamId, Verdict)], _: u64) {}
    fn on_new_engine(&mut self, _: usize) {}
    fn second(&mut self, over: u64) {
        (self.0)(over);
    }
    fn end(&mut self, _: &mut dyn Iterator<Item = &mut Worker>, _: u64) {}
}

impl Witness for () {
    fn on_verdicts(&mut self, _: usize, _: &Worker, _: &[(StreamId, Verdict)], _: u64) {}
    fn on_new_engine(&mut self, _: usize) {}
    fn end(&mut self, _: &mut dyn Iterator<Item = &mut Worker>, _: u64) {}
}
