//! Planner with scripted responses, for those that the real one never gives.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::{KEY, PATIENCE, Variant, plan};

/// A planner with scripted responses, not the real planner.
pub struct ScriptedPlanner {
    script: Arc<Script>,
    addr: SocketAddr,
    serving: AbortHandle,
}

struct Script {
    response: watch::Sender<ScriptedResponse>,
    polls: watch::Sender<u64>,
}

#[derive(Debug, Clone)]
struct ScriptedResponse {
    revision: u64,
    status: StatusCode,
    body: String,
}

impl ScriptedPlanner {
    /// Starts on a free port, without a response yet.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn start() -> Result<ScriptedPlanner> {
        let nothing = ScriptedResponse {
            revision: 0,
            status: StatusCode::OK,
            body: String::new(),
        };
        let script = Arc::new(Script {
            response: watch::Sender::new(nothing),
            polls: watch::Sender::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        let addr = listener.local_addr()?;
        let routes = axum::Router::new()
            .route("/v1/plans/{service}", get(poll))
            .with_state(Arc::clone(&script));
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        Ok(ScriptedPlanner {
            script,
            addr,
            serving: serving.abort_handle(),
        })
    }

    /// Its listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers polls for revisions before `revision` with this body and status from now on.
    pub fn respond(&self, revision: u64, status: u16, body: impl ToString) {
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        self.script.response.send_replace(ScriptedResponse {
            revision,
            status,
            body: body.to_string(),
        });
    }

    /// Publishes a plan.
    pub fn publish(&self, revision: u64, variants: &[Variant]) {
        self.respond(revision, 200, plan(revision, variants));
    }

    /// Waits for `count` polls in total.
    ///
    /// # Errors
    ///
    /// They do not arrive within [`PATIENCE`].
    pub async fn until_polls(&self, count: u64) -> Result<()> {
        let mut polls = self.script.polls.subscribe();
        let reached = polls.wait_for(|polls| *polls >= count);
        tokio::time::timeout(PATIENCE, reached)
            .await
            .context("timed out waiting for polls")??;
        Ok(())
    }
}

impl Drop for ScriptedPlanner {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

#[derive(Deserialize)]
struct PollQuery {
    after: u64,
}

async fn poll(
    State(script): State<Arc<Script>>,
    Query(query): Query<PollQuery>,
    headers: HeaderMap,
) -> Response {
    let authorized = headers.get("authorization").is_some_and(|sent| {
        sent.to_str()
            .is_ok_and(|sent| sent.strip_prefix("Bearer ") == Some(KEY))
    });
    if !authorized {
        return StatusCode::UNAUTHORIZED.into_response();
    }
    script.polls.send_modify(|polls| *polls += 1);
    let mut response = script.response.subscribe();
    let newer = response.wait_for(|response| response.revision > query.after);
    match tokio::time::timeout(Duration::from_secs(20), newer).await {
        Ok(Ok(response)) => (response.status, response.body.clone()).into_response(),
        _ => StatusCode::NO_CONTENT.into_response(),
    }
}
