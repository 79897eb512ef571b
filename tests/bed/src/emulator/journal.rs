//! Journal of the emulated server: the latest executions with the ids and headers of their
//! requests, for tests and people. It decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use axum::http::HeaderMap;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use weir_sim::server::{Run, Witness};

/// Maximum executions remembered. Beyond it the oldest are dropped and counted.
pub const EXECUTIONS_MAX: usize = 500_000;

/// The protocol by which an inference request arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// Open Inference Protocol v2 over HTTP.
    OipHttp,
    /// Open Inference Protocol v2 over gRPC, single request.
    OipGrpc,
    /// Open Inference Protocol v2 over gRPC, one request of a stream.
    OipGrpcStream,
    /// TF Serving's REST.
    TfServing,
    /// Any body to `/predict`.
    Plain,
    /// Server-sent events.
    Events,
}

/// One executed request. Times are ms since the server's start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Execution {
    /// The protocol of the request.
    pub door: Door,
    /// Its `x-request-id`, or "" if missing.
    pub request_id: String,
    /// The `x-slo-*` headers, `grpc-timeout` and `x-envoy-expected-rq-timeout-ms`, as received.
    pub headers: BTreeMap<String, String>,
    /// Position among all executions, from 1. Requests of one batch are numbered in queue order.
    pub order: u64,
    /// Time at which the whole request had arrived.
    pub arrived_ms: f64,
    /// Start of its execution.
    pub started_ms: f64,
    /// End of its execution.
    pub ended_ms: f64,
    /// Requests in its batch, itself included.
    pub batch: u32,
    /// Cores of its execution: `c` of the latency model.
    pub cores: f64,
}

/// Details of a request that its record contains besides the times.
#[derive(Debug, Clone)]
pub(super) struct RequestInfo {
    pub(super) door: Door,
    pub(super) request_id: String,
    pub(super) headers: BTreeMap<String, String>,
}

impl RequestInfo {
    pub(super) fn of(door: Door, headers: &HeaderMap) -> RequestInfo {
        const RECORDED: [&str; 2] = ["grpc-timeout", "x-envoy-expected-rq-timeout-ms"];
        let recorded = |name: &&str| name.starts_with("x-slo-") || RECORDED.contains(name);
        let names = headers.keys().map(|name| name.as_str()).filter(recorded);
        RequestInfo {
            door,
            request_id: header(headers, "x-request-id"),
            headers: names
                .map(|name| (name.to_owned(), header(headers, name)))
                .collect(),
        }
    }
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers.get(name).map_or_else(String::new, |value| {
        String::from_utf8_lossy(value.as_bytes()).into_owned()
    })
}

/// A request on its way through the queue: its details, and the channels to the handler that waits
/// for it.
#[derive(Debug)]
pub(super) struct PendingRequest {
    pub(super) info: RequestInfo,
    /// Receives a record when the execution starts, if the handler requested it.
    pub(super) begun: Option<mpsc::UnboundedSender<Execution>>,
    pub(super) reply: oneshot::Sender<Execution>,
}

/// The latest [`EXECUTIONS_MAX`] executions, in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct Journal {
    pub(super) executions: VecDeque<Execution>,
    pub(super) forgotten: u64,
}

impl Journal {
    pub(super) fn clear(&mut self) {
        self.executions.clear();
        self.forgotten = 0;
    }
}

impl Witness<PendingRequest> for Journal {
    fn started(&mut self, pending: &PendingRequest, run: &Run) {
        if self.executions.len() >= EXECUTIONS_MAX {
            self.executions.pop_front();
            self.forgotten += 1;
        }
        let execution = execution(pending.info.clone(), run);
        if let Some(begun) = &pending.begun {
            let _ = begun.send(execution.clone());
        }
        self.executions.push_back(execution);
    }
}

impl PendingRequest {
    /// Sends the record to the handler. If the client has disconnected, nobody receives it; the
    /// work was done all the same.
    pub(super) fn answer(self, run: &Run) {
        let _ = self.reply.send(execution(self.info, run));
    }
}

fn execution(info: RequestInfo, run: &Run) -> Execution {
    let ms = |at: Duration| at.as_secs_f64() * 1e3;
    Execution {
        door: info.door,
        request_id: info.request_id,
        headers: info.headers,
        order: run.order,
        arrived_ms: ms(run.arrived),
        started_ms: ms(run.started),
        ended_ms: ms(run.ended),
        batch: run.batch,
        cores: run.cores,
    }
}
