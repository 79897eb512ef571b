//! The port to the backends that run the variants. Make before break: capacity grows before weight moves to it, and
//! weight moves away before capacity shrinks. Only capacity that a backend has confirmed counts.

#[cfg(feature = "serve")]
pub mod cgroup;
mod error;
mod gate;
#[cfg(feature = "serve")]
mod http;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "serve")]
mod pending_writes;

use std::future::Future;

use weir_api::Cores;

use crate::capacity::{Actual, Resize};

pub use error::{ActuateError, BackendError, Blocker, NotReplaced, Reason};
pub use gate::Gate;
#[cfg(feature = "serve")]
pub use http::{ANSWER_BYTES_MAX, Advisory, Backend, HttpBackends, HttpMemory, SwitchedBackends};
#[cfg(feature = "serve")]
pub(crate) use pending_writes::PendingWrites;

/// Port to the backends' cores; a replay answers from its simulation.
pub trait Actuate {
    /// Reads the actual capacity of each variant, in the variants' order; `None` if a backend cannot report it.
    fn actual(&self) -> impl Future<Output = Vec<Option<Result<Actual, ActuateError>>>> + Send;

    /// Applies the changes concurrently; returns the actual capacity after each, in the same order.
    fn resize(
        &self,
        changes: &[Resize],
    ) -> impl Future<Output = Vec<Result<Actual, ActuateError>>> + Send;

    /// Tells the servers of each variant their maximum batch size; `None` leaves a variant's servers as they are.
    /// Returns the batch size that all serving servers have confirmed. `None` if they cannot be told, or none serves.
    fn tell(
        &self,
        _batches: &[Option<u32>],
    ) -> impl Future<Output = Vec<Option<Result<u32, ActuateError>>>> + Send {
        std::future::ready(Vec::new())
    }

    /// Chooses the part of a variant to replace because it cannot get its target capacity where it runs. From then on
    /// plans do not count on it. Returns the actual capacity without it; with `spare` cores, the budget covers
    /// the replacement. Repeated calls return the same choice until it is replaced. `None` if there is nothing to
    /// replace.
    fn retire(&self, variant: usize, spare: Cores) -> Option<Result<Actual, NotReplaced>>;

    /// Replaces the choice of [`Actuate::retire`], once no plan counts on it. Returns the actual capacity then. If
    /// the replacement is refused, plans count on it again.
    fn replace(&self, variant: usize) -> impl Future<Output = Result<Actual, ActuateError>> + Send;
}
