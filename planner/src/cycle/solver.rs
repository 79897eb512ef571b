//! Where a turn solves: a port, because the solver computes for milliseconds and a replay remembers
//! what it has already solved. What is decided is [`decide`]'s to say, everywhere.

use std::future::Future;
use std::sync::Arc;

use weir_api::Cores;

use crate::config::Service;
use crate::decide::{Decision, broken, decide};
use crate::forecast::Forecast;

/// The port to the solver.
pub trait Solver {
    /// What [`decide`] says.
    fn decide(
        &self,
        service: &Arc<Service>,
        actuated: Vec<Cores>,
        forecast: Option<Forecast>,
    ) -> impl Future<Output = Decision> + Send;
}

/// Solves on a thread that serves no polls.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aside;

impl Solver for Aside {
    async fn decide(
        &self,
        service: &Arc<Service>,
        actuated: Vec<Cores>,
        forecast: Option<Forecast>,
    ) -> Decision {
        let (service, cores) = (Arc::clone(service), actuated.clone());
        let solving = tokio::task::spawn_blocking(move || decide(&service, &cores, forecast));
        let decision = solving.await;
        decision.unwrap_or_else(|error| broken(&actuated, &error))
    }
}
