//! Solver of a planner that serves: it computes aside, while polls are answered.

use std::sync::Arc;

use crate::capacity::Actual;
use crate::control_loop::Solver;
use crate::policy::{broken, decide};
use crate::service::{Decision, Inputs, Service};

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
