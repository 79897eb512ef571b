//! The cores to have → cores in force. Make before break: capacity grows before weight moves to it,
//! and weight moves away before capacity shrinks; what counts is what a backend has confirmed.

mod doubts;
mod error;
mod http;
pub mod kubernetes;

use std::future::Future;

use weir_api::Cores;

use crate::backends::kubernetes::replace::Kept;
use crate::capacity::{InForce, Resize};

pub(crate) use doubts::Doubts;
pub use error::{ActuateError, Obstacle, Reason};
pub use http::{ANSWER_BYTES_MAX, Advisory, Backend, Local};

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
