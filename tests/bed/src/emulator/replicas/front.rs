//! HTTP endpoint for the total resources. A response shows the actual resources. A change is answered when all of it
//! is ready, or when another change has replaced it.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use weir_sim::server::check_cores;

use super::super::Resources;
use super::super::http::Change;
use super::super::work::Refused;
use super::Shared;
use super::state::Split;

pub(super) async fn listen(shared: Arc<Shared>) -> anyhow::Result<(SocketAddr, AbortHandle)> {
    let routes = Router::new()
        .route("/resources", get(show).put(change))
        .with_state(shared);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok((addr, serving.abort_handle()))
}

async fn show(State(shared): State<Arc<Shared>>) -> Json<Resources> {
    Json(shared.resources())
}

async fn change(State(shared): State<Arc<Shared>>, body: Bytes) -> Response {
    let checked = Change::read(&body).and_then(|change| {
        let cores = change.cores.map(check_cores).transpose()?;
        let each = change.each.map(check_cores).transpose()?;
        Ok(Change {
            cores,
            each,
            ..change
        })
    });
    let Change {
        cores,
        parallelism,
        batch,
        each,
    } = match checked {
        Ok(checked) => checked,
        Err(message) => {
            return Refused::new(StatusCode::BAD_REQUEST, message).into_response();
        }
    };
    if let Some(batch) = batch {
        // A batch change takes no time.
        shared
            .servers
            .iter()
            .for_each(|server| server.set_batch(batch));
    }
    if cores.is_none() && parallelism.is_none() {
        return Json(shared.resources()).into_response();
    }
    let mut changed = shared.changed.subscribe();
    let target = {
        let mut state = shared.state();
        let requested = state.requested();
        let target = Split {
            cores: cores.unwrap_or(requested.cores),
            parallelism: parallelism.unwrap_or(requested.parallelism),
            each,
            ..requested
        };
        state.request(Instant::now(), target);
        target
    };
    shared.requested.notify_one();
    loop {
        let now = Instant::now();
        {
            let state = shared.state();
            if state.was_replaced(target) || state.is_settled(now) {
                drop(state);
                return Json(shared.resources()).into_response();
            }
        }
        if changed.changed().await.is_err() {
            return StatusCode::SERVICE_UNAVAILABLE.into_response();
        }
    }
}
