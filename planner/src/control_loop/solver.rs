//! Solver port of a cycle. The solver computes for milliseconds, and a replay remembers earlier results; both return
//! the result of [`decide`](crate::policy::decide).

use std::future::Future;
use std::sync::Arc;

use crate::capacity::Actual;
use crate::service::{Decision, Inputs, Service};

/// Solver port.
pub trait Solver {
    /// Returns the result of [`decide`](crate::policy::decide).
    fn decide(
        &self,
        service: &Arc<Service>,
        actual: Vec<Actual>,
        inputs: Option<Inputs>,
    ) -> impl Future<Output = Decision> + Send;
}
