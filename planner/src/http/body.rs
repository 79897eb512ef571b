//! Bodies of requests: in time, in size, and only a few at once.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use tokio::time::timeout;

use super::App;
use super::problem::{Problem, ProblemKind};

/// Maximum time in which a body is received.
pub const BODY_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum number of bodies that are received at once.
pub const BODIES_MAX: usize = 4;

/// Receives a body of at most `max` bytes.
pub(super) async fn receive(app: &App, body: Body, max: usize) -> Result<Bytes, Problem> {
    let too_large = || {
        let message = format!("the body is larger than {max} bytes");
        Problem::new(ProblemKind::LargeBody, message)
    };
    if body.size_hint().lower() > max as u64 {
        return Err(too_large());
    }
    let _permit = app.bodies.try_acquire().map_err(|_| {
        let message = format!("{BODIES_MAX} bodies are being received already, no more at once");
        Problem::new(ProblemKind::Busy, message)
    })?;
    match timeout(BODY_TIME_MAX, to_bytes(body, max)).await {
        Ok(Ok(body)) => Ok(body),
        // A client that breaks off gets no answer.
        Ok(Err(_)) => Err(too_large()),
        Err(_) => {
            let message = format!("the body was not received within {BODY_TIME_MAX:?}");
            Err(Problem::new(ProblemKind::SlowBody, message))
        }
    }
}
