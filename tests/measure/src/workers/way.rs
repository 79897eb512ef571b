//! The path of one request, from the records of the client and the server. It judges nothing.

use std::collections::HashMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use weir_replay::request::Request;

use super::order::{GRAIN, Stay};
use super::send::{Seen, id_of};
use weir_bed::emulator::Execution;

/// A request with the records of the proxy, the server and the client.
pub(super) struct RequestRecord<'a> {
    request: &'a Request,
    seen: &'a Seen,
    /// Its execution, if it was sent upstream.
    execution: Option<&'a Execution>,
    /// Remaining time at dispatch, in whole ms.
    left_ms: Option<i64>,
    reserve: Duration,
}

impl<'a> RequestRecord<'a> {
    pub(super) fn of(
        request: &'a Request,
        seen: &'a Seen,
        executions: &HashMap<&str, &'a Execution>,
        reserve: Duration,
    ) -> RequestRecord<'a> {
        let execution = executions.get(id_of(request).as_str()).copied();
        let left = execution.and_then(|run| run.headers.get("x-slo-remaining-ms"));
        RequestRecord {
            request,
            seen,
            execution,
            left_ms: left.and_then(|left| left.parse().ok()),
            reserve,
        }
    }

    pub(super) fn is_on_time(&self) -> bool {
        self.seen.status == 200 && self.seen.ended <= self.request.deadline()
    }

    /// Time from dispatch to response as the filter saw it, without the wait and the execution at
    /// the server.
    fn round_trip_ms(&self) -> Option<f64> {
        let run = self.execution?;
        let answered = self.seen.remaining_ms.filter(|left| *left > 0)?;
        // `left_ms` excludes the reserve, `answered` includes it.
        let reserve_ms = self.reserve.as_secs_f64() * 1e3;
        let away_ms = self.left_ms? as f64 + reserve_ms - answered as f64;
        Some(away_ms - (run.ended_ms - run.arrived_ms))
    }

    /// `latest`: a request is no longer served within this time of its deadline.
    pub(super) fn stay(&self, latest: Duration) -> Stay {
        let deadline = self.request.deadline();
        let left = self.left_ms.and_then(|ms| u64::try_from(ms).ok());
        match left.map(Duration::from_millis) {
            Some(left) => {
                let went = deadline.saturating_sub(self.reserve + left + GRAIN);
                let came = self
                    .seen
                    .held
                    .map_or(self.seen.left, |held| went.saturating_sub(held));
                Stay {
                    deadline,
                    came,
                    went,
                    dispatched: true,
                }
            }
            None => Stay {
                deadline,
                came: self.seen.left,
                went: self.seen.ended.min(deadline.saturating_sub(latest)),
                dispatched: false,
            },
        }
    }
}

/// The mean round trip of all requests.
pub(super) fn round_trip_ms(ways: &[RequestRecord<'_>]) -> Result<f64> {
    let trips: Vec<f64> = ways
        .iter()
        .filter_map(RequestRecord::round_trip_ms)
        .collect();
    ensure!(!trips.is_empty(), "no request was answered");
    Ok(trips.iter().sum::<f64>() / trips.len() as f64)
}
