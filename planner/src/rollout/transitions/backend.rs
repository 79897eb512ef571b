//! Port to servers or pods in virtual time.

use weir_api::Cores;

use super::case::{Case, Fate, Rng};
use crate::capacity::{Actual, Allocation, Resize};

/// Answer to a change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Confirmed(Actual),
    Failed { indeterminate: bool },
}

/// Servers or pods in virtual time, in ms.
pub(super) trait Backend {
    fn advance(&mut self, now: u64);
    fn actual(&mut self, now: u64) -> Vec<Actual>;
    /// Requests a change; returns the time of the answer, and the answer.
    fn resize(
        &mut self,
        case: &Case,
        now: u64,
        change: &Resize,
        fate: Fate,
        rng: &mut Rng,
    ) -> (u64, Answer);
    /// Changes a variant as another controller would.
    fn undo(&mut self, now: u64, case: &Case, index: usize, to: Allocation, rng: &mut Rng);
    /// Returns the cores in use or requested, by the real state.
    fn used(&self) -> Cores;
    fn replicas(&self) -> Vec<u32>;
    /// Whether a variant has the published allocation, and it serves.
    fn serves(&self, index: usize, published: Allocation) -> bool;
    fn allocations(&self) -> Vec<Allocation>;
    /// Whether no change is in progress.
    fn is_stable(&self) -> bool;
    /// Returns the number of servers for which other cores were requested while they loaded or grew.
    fn requested_anew(&self) -> u32;
}
