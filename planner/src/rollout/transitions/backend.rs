//! The port to servers or pods in virtual time.

use weir_api::Cores;

use super::case::{Case, Fate, Rng};
use crate::capacity::{Allocation, InForce, Resize};

/// The answer to a change.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    Confirmed(InForce),
    Failed { doubt: bool },
}

/// Servers or pods in virtual time, ms.
pub(super) trait Backend {
    fn advance(&mut self, now: u64);
    fn in_force(&mut self, now: u64) -> Vec<InForce>;
    /// Asks for a change; when there is an answer, and which.
    fn resize(
        &mut self,
        case: &Case,
        now: u64,
        change: &Resize,
        fate: Fate,
        rng: &mut Rng,
    ) -> (u64, Answer);
    /// Somebody else changes a variant.
    fn undo(&mut self, now: u64, case: &Case, index: usize, to: Allocation, rng: &mut Rng);
    /// Cores that are there or asked for, by what is really so.
    fn used(&self) -> Cores;
    fn replicas(&self) -> Vec<u32>;
    /// Whether a variant has what is published of it, and it serves.
    fn serves(&self, index: usize, published: Allocation) -> bool;
    fn allocations(&self) -> Vec<Allocation>;
    /// Whether nothing is under way.
    fn is_settled(&self) -> bool;
    /// Servers that were asked for other cores while they loaded or grew.
    fn asked_anew(&self) -> u32;
}
