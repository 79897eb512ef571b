//! Somebody who looks on while a world plays: tests check every step of every engine through it.

use weir_filter::engine::{Engine, StreamId};
use weir_filter::verdict::Verdict;

/// Looks on, changes nothing.
pub(in crate::replay) trait Witness {
    /// A worker's engine was told something at `now` (ns), and these are its verdicts, in order.
    fn told(&mut self, worker: usize, engine: &Engine, verdicts: &[(StreamId, Verdict)], now: u64);

    /// A worker has a new engine.
    fn anew(&mut self, worker: usize);

    /// The end: nothing of any request is left.
    fn end(&mut self, engines: &mut dyn Iterator<Item = &mut Engine>, now: u64);
}

impl Witness for () {
    fn told(&mut self, _: usize, _: &Engine, _: &[(StreamId, Verdict)], _: u64) {}
    fn anew(&mut self, _: usize) {}
    fn end(&mut self, _: &mut dyn Iterator<Item = &mut Engine>, _: u64) {}
}
