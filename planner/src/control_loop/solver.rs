//! Solver port of a cycle. The solver computes for milliseconds, and a replay remembers earlier results; both return
//! the result of [`decide`].

use std::future::Future;
use std::sync::Arc;

use crate::capacity::Actual;
use crate::policy::{broken, decide};
use crate::service::{Decision, Inputs, Service};

/// Solver port.
pub trait Solver {
    /// Returns the result of [`decide`].
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
        let (service, owned) = (Arc::clone(service), actual.clone());
        let solving = tokio::task::spawn_blocking(move || decide(&service, &owned, inputs));
        let decision = solving.await;
        decision.unwrap_or_else(|error| broken(&actual, &error))
    }
}
