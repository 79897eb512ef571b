//! Where a turn solves: a port, because the solver computes for milliseconds and a replay remembers
//! what it has already solved. What is decided is [`decide`]'s to say, everywhere.

use std::future::Future;
use std::sync::Arc;

use crate::capacity::Actual;
use crate::policy::{broken, decide};
use crate::service::{Decision, Inputs, Service};

/// The port to the solver.
pub trait Solver {
    /// What [`decide`] says.
    fn decide(
        &self,
        service: &Arc<Service>,
        actual: Vec<Actual>,
        inputs: Option<Inputs>,
    ) -> impl Future<Output = Decision> + Send;
}

/// Solves on a thread that serves no polls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aside;

impl Solver for Aside {
    async fn decide(
        &self,
        service: &Arc<Service>,
        actual: Vec<Actual>,
        inputs: Option<Inputs>,
    ) -> Decision {
        let (service, there) = (Arc::clone(service), actual.clone());
        let solving = tokio::task::spawn_blocking(move || decide(&service, &there, inputs));
        let decision = solving.await;
        decision.unwrap_or_else(|error| broken(&actual, &error))
    }
}
