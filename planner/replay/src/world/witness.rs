//! Somebody who looks on while a world plays: tests check every step of every engine through it.

use weir_filter::engine::StreamId;
use weir_filter::verdict::Verdict;

use crate::plane::Worker;

/// Looks on, changes nothing.
pub(crate) trait Witness {
    /// A worker was told something at `now` (ns), and these are its engine's verdicts, in order.
    fn told(&mut self, worker: usize, who: &Worker, verdicts: &[(StreamId, Verdict)], now: u64);

    /// A worker is about to be told the last byte of a request's body.
    fn whole(&mut self, worker: usize, stream: StreamId) {
        let _ = (worker, stream);
    }

    /// A worker has a new engine.
    fn anew(&mut self, worker: usize);

    /// So many seconds of the scenario are over.
    fn second(&mut self, over: u64) {
        let _ = over;
    }

    /// The end: nothing of any request is left.
    fn end(&mut self, workers: &mut dyn Iterator<Item = &mut Worker>, now: u64);
}

/// Sees nothing but the seconds go by.
pub(crate) struct Clock<F>(pub(crate) F);

impl<F: FnMut(u64)> Witness for Clock<F> {
    fn told(&mut self, _: usize, _: &Worker, _: &[(StreamId, Verdict)], _: u64) {}
    fn anew(&mut self, _: usize) {}
    fn second(&mut self, over: u64) {
        (self.0)(over);
    }
    fn end(&mut self, _: &mut dyn Iterator<Item = &mut Worker>, _: u64) {}
}

impl Witness for () {
    fn told(&mut self, _: usize, _: &Worker, _: &[(StreamId, Verdict)], _: u64) {}
    fn anew(&mut self, _: usize) {}
    fn end(&mut self, _: &mut dyn Iterator<Item = &mut Worker>, _: u64) {}
}
