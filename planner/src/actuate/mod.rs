//! The cores to have → cores in force. Make before break: capacity grows before weight moves to it,
//! and weight moves away before capacity shrinks; what counts is what a backend has confirmed.

mod allocation;
mod bounds;
mod doubts;
mod error;
mod local;
mod steps;

use std::future::Future;

use weir_api::Cores;

use crate::kube::replace::Kept;

pub use allocation::{Allocation, Goal, InForce};
pub use bounds::{Amount, BOUNDS_MAX, Bound, Bounds};
pub(crate) use doubts::Doubts;
pub use error::{ActuateError, Obstacle, Reason};
pub use local::{ANSWER_BYTES_MAX, Advisory, Backend, Local};
pub use steps::{Carried, MUCH_MORE, Path, SERVES_AT_ALL, Shapes, Step, Transition};

/// A change of one variant's cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resize {
    /// Index of the variant.
    pub variant: usize,
    /// What it is to have.
    pub goal: Goal,
    /// What of it serves now.
    pub ready: Allocation,
    /// Whether no more replicas may be there at any moment than it is to have, because of what each holds
    /// ([`Bounds`]).
    pub bound: bool,
}

impl Resize {
    /// All cores it is to have.
    pub fn cores(&self) -> Cores {
        self.goal.cores(self.ready)
    }

    /// Whether anything that serves is to have less.
    pub fn shrinks(&self) -> bool {
        let staying = self.goal.ready(self.ready);
        staying.replicas() < self.ready.replicas() || staying.each() < self.ready.each()
    }
}

/// The port to the backends' cores; a replay answers from its simulation.
pub trait Actuate {
    /// What is in force, in the variants' order; `None` where a backend has no way to say.
    fn in_force(&self) -> impl Future<Output = Vec<Option<Result<InForce, ActuateError>>>> + Send;

    /// Makes these changes at the same time; the answers, in the same order, are what is then in force.
    fn resize(
        &self,
        changes: &[Resize],
    ) -> impl Future<Output = Vec<Result<InForce, ActuateError>>> + Send;

    /// Tells the servers of each variant the greatest batch that they are to make; those of `None` are left as they
    /// are. The answers are what all that serve have been told; `None` where nobody can be, or nothing serves.
    fn tell(
        &self,
        _batches: &[Option<u32>],
    ) -> impl Future<Output = Vec<Option<Result<u32, ActuateError>>>> + Send {
        std::future::ready(Vec::new())
    }

    /// Chooses what of a variant is to be replaced because it cannot have what it is to have where it is, and counts
    /// on it no more; what is in force then, which the budget with `room` cores left bears once it is replaced. The
    /// same again until it is. `None` where there is nothing to replace.
    fn retire(&self, variant: usize, room: Cores) -> Option<Result<InForce, Kept>>;

    /// Replaces what [`Actuate::retire`] has chosen, once no plan counts on it; what is in force then. Refused, it is
    /// counted on again.
    fn replace(&self, variant: usize)
    -> impl Future<Output = Result<InForce, ActuateError>> + Send;
}
