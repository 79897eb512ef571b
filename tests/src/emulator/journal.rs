//! What the emulated server executed, as tests and people read it: the latest executions with the ids
//! and headers their requests came with. It decides nothing.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::oneshot;
use weir_model::server::{Run, Witness};

/// Executions remembered; above that the oldest are forgotten, and counted as such.
pub const EXECUTIONS_MAX: usize = 500_000;

/// One request as the server executed it. Times are ms since the server's start.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Execution {
    /// Its `x-request-id`, empty where it had none.
    pub request_id: String,
    /// The `x-slo-*` headers and `grpc-timeout`, as received.
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

/// What rides with a request through the model: what is told of it, and who waits for the answer.
#[derive(Debug)]
pub(super) struct Rider {
    pub(super) request_id: String,
    pub(super) headers: BTreeMap<String, String>,
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
        let (request_id, headers) = (rider.request_id.clone(), rider.headers.clone());
        self.executions
            .push_back(execution(request_id, headers, run));
    }
}

impl Rider {
    /// Tells who waits; one whose client has left is gone, the work was done.
    pub(super) fn answer(self, run: &Run) {
        let _ = self
            .reply
            .send(execution(self.request_id, self.headers, run));
    }
}

fn execution(request_id: String, headers: BTreeMap<String, String>, run: &Run) -> Execution {
    let ms = |at: Duration| at.as_secs_f64() * 1e3;
    Execution {
        request_id,
        headers,
        order: run.order,
        arrived_ms: ms(run.arrived),
        started_ms: ms(run.started),
        ended_ms: ms(run.ended),
        batch: run.batch,
        cores: run.cores,
    }
}
