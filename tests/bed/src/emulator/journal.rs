//! What the emulated server executed, as tests and people read it: the latest executions with the ids
//! and headers their requests came with. It decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use axum::http::HeaderMap;
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};
use weir_sim::server::{Run, Witness};

/// Executions remembered; above that the oldest are forgotten, and counted as such.
pub const EXECUTIONS_MAX: usize = 500_000;

/// The protocol by which a request for inference came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Door {
    /// Open Inference Protocol v2 over HTTP.
    OipHttp,
    /// Open Inference Protocol v2 over gRPC, one request.
    OipGrpc,
    /// The same, one request of a stream.
    OipGrpcStream,
    /// TF Serving's REST.
    TfServing,
    /// Any body to `/predict`.
    Plain,
    /// Server-sent events.
    Events,
}

/// One request as the server executed it. Times are ms since the server's start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Execution {
    /// The protocol it came by.
    pub door: Door,
    /// Its `x-request-id`, empty where it had none.
    pub request_id: String,
    /// The `x-slo-*` headers, `grpc-timeout` and `x-envoy-expected-rq-timeout-ms`, as received.
    pub headers: BTreeMap<String, String>,
    /// 1 for the first request whose execution started; requests of one batch in queue order.
    pub order: u64,
    /// When it had arrived in full.
    pub arrived_ms: f64,
    /// When its execution started.
    pub started_ms: f64,
    /// When its execution ends.
    pub ended_ms: f64,
    /// Requests executed together with it, itself included.
    pub batch: u32,
    /// Cores of its execution: `c` of the law.
    pub cores: f64,
}

/// What is told of a request beside when it ran.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) door: Door,
    pub(super) request_id: String,
    pub(super) headers: BTreeMap<String, String>,
}

impl Asked {
    pub(super) fn of(door: Door, headers: &HeaderMap) -> Asked {
        const TOLD: [&str; 2] = ["grpc-timeout", "x-envoy-expected-rq-timeout-ms"];
        let told = |name: &&str| name.starts_with("x-slo-") || TOLD.contains(name);
        let names = headers.keys().map(|name| name.as_str()).filter(told);
        Asked {
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

/// What rides with a request through the model: what is told of it, and who waits for the answer.
#[derive(Debug)]
pub(super) struct Rider {
    pub(super) asked: Asked,
    /// Told when its execution starts, where somebody wants to know.
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

impl Witness<Rider> for Journal {
    fn started(&mut self, rider: &Rider, run: &Run) {
        if self.executions.len() >= EXECUTIONS_MAX {
            self.executions.pop_front();
            self.forgotten += 1;
        }
        let execution = execution(rider.asked.clone(), run);
        if let Some(begun) = &rider.begun {
            let _ = begun.send(execution.clone());
        }
        self.executions.push_back(execution);
    }
}

impl Rider {
    /// Tells who waits; one whose client has left is gone, the work was done.
    pub(super) fn answer(self, run: &Run) {
        let _ = self.reply.send(execution(self.asked, run));
    }
}

fn execution(asked: Asked, run: &Run) -> Execution {
    let ms = |at: Duration| at.as_secs_f64() * 1e3;
    Execution {
        door: asked.door,
        request_id: asked.request_id,
        headers: asked.headers,
        order: run.order,
        arrived_ms: ms(run.arrived),
        started_ms: ms(run.started),
        ended_ms: ms(run.ended),
        batch: run.batch,
        cores: run.cores,
    }
}
