//! One run of a server with one lane behind a real Envoy, and its figures.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::time::Instant;
use weir_replay::request::Request;

use super::super::lag_ms;
use super::super::order::at_once;
use super::super::send::{Seen, id_of, send_since};
use super::super::way::{RequestRecord, round_trip_ms};
use super::{AT_ONCE, Case, Figures, HOP, SERVICE_MS};
use weir_bed::emulator::{Emulator, Execution, LatencyModel, Noise, ServerConfig};
use weir_bed::envoy::{Bootstrap, Envoy};

/// Warm-up time from the first execution, not counted: the filter has no measurements of the server yet.
const WARM_MS: f64 = 2000.0;
/// Time before a run's end that is not counted, because the queue empties.
const END_MS: f64 = 1000.0;
/// Reserve for the response's return to a client on the same machine, which may be busy.
const RESERVE: Duration = Duration::from_millis(10);
/// Number of later executions compared with each.
const LATER_MAX: usize = 200;

/// The server, at a network distance, with this scatter.
pub(super) async fn server(sigma: f64, seed: u64) -> Result<Emulator> {
    let mut config = ServerConfig::new("small", LatencyModel::constant(SERVICE_MS));
    config.noise = (sigma > 0.0).then_some(Noise { sigma, seed });
    let emulator = Emulator::start(config).await?;
    emulator.away_by(HOP);
    Ok(emulator)
}

/// The range of times, in ms, in which executions count.
fn counted(executions: &[Execution], length: Duration) -> Result<Range<f64>> {
    let first = executions.first().context("nothing was executed")?;
    let from = first.started_ms + WARM_MS;
    let to = first.started_ms + length.as_secs_f64() * 1e3 - END_MS;
    ensure!(from < to, "a run of {length:?} is too short");
    Ok(from..to)
}

/// Executions started per second.
pub(super) fn executed_rps(executions: &[Execution], length: Duration) -> Result<f64> {
    let span = counted(executions, length)?;
    let begun = executions.iter().map(|run| run.started_ms);
    let begun = begun.filter(|at| span.contains(at)).count();
    Ok(begun as f64 * 1e3 / (span.end - span.start))
}

/// Idle time of the server before each execution but the first; 0 if its request was already present.
fn idle_ms(executions: &[Execution], length: Duration) -> Result<Vec<f64>> {
    let span = counted(executions, length)?;
    let pairs = executions.iter().zip(executions.iter().skip(1));
    let pairs = pairs.filter(|(_, next)| span.contains(&next.started_ms));
    Ok(pairs
        .map(|(one, next)| (next.started_ms - one.ended_ms).max(0.0))
        .collect())
}

/// Records of a run: its executions, its responses, and its start.
pub(super) struct Real {
    emulator: Emulator,
    started: Instant,
    seen: Vec<Seen>,
}

impl Real {
    pub(super) async fn play(
        case: Case,
        seed: u64,
        overlap: bool,
        requests: &[Request],
    ) -> Result<Real> {
        let emulator = server(case.sigma, seed).await?;
        let plugin = json!({
            "service": "lane", "queue": { "overlap": overlap, "concurrency_max": 0 },
            "deadline": { "reserve_ms": RESERVE.as_millis() as u64 },
            "plan": { "variants": [{ "name": "small", "cluster": "small", "share": 1.0,
                                     "slots": 1, "service_ms": SERVICE_MS, "accuracy": 70.0 }] },
        });
        let bootstrap = Bootstrap::shipped()?.plugin(&plugin);
        let bootstrap = bootstrap.backend("small", emulator.addr());
        let envoy = Envoy::start(&bootstrap, case.workers).await?;
        let url = format!("http://{}/v2/models/small/infer", envoy.listener("weir")?);
        let (started, seen) = send_since(&url, requests).await?;
        Ok(Real {
            emulator,
            started,
            seen,
        })
    }

    pub(super) fn figures(
        &self,
        requests: &[Request],
        length: Duration,
        capacity: f64,
    ) -> Result<Figures> {
        let executions = self.emulator.executions();
        let runs = executions.iter();
        let by_id: HashMap<&str, &Execution> =
            runs.map(|run| (run.request_id.as_str(), run)).collect();
        ensure!(
            by_id.len() == executions.len(),
            "a request was executed twice"
        );
        let both = || requests.iter().zip(&self.seen);
        let ways: Vec<RequestRecord> = both()
            .map(|(request, seen)| RequestRecord::of(request, seen, &by_id, RESERVE))
            .collect();
        let on_time = ways.iter().filter(|way| way.is_on_time()).count();
        // An executed request cut off at its deadline is late, not refused.
        let refused = both().filter(|(request, seen)| {
            !matches!(seen.status, 0 | 200) && !by_id.contains_key(id_of(request).as_str())
        });
        let waits: Vec<Duration> = refused.map(|(_, seen)| seen.ended - seen.left).collect();
        let soon = waits.iter().filter(|wait| **wait <= AT_ONCE).count();
        let answered = both().filter(|(_, seen)| seen.status == 200);
        let answered = answered.filter_map(|(request, _)| by_id.get(id_of(request).as_str()));
        let percent = |part: usize, whole: usize| part as f64 * 100.0 / whole.max(1) as f64;
        let (pairs, wrong) = self.out_of_order(requests, &by_id);
        let executed_rps = executed_rps(&executions, length)?;
        let idle_ms = idle_ms(&executions, length)?;
        let late = executions.len().saturating_sub(on_time);
        let idle: Vec<f64> = idle_ms.iter().copied().filter(|ms| *ms > 0.0).collect();
        Ok(Figures {
            executed_rps,
            lay_percent: percent(idle_ms.len() - idle.len(), idle_ms.len()),
            idle_ms: idle.iter().sum::<f64>() / idle.len().max(1) as f64,
            throughput_percent: executed_rps * 100.0 / capacity,
            on_time_percent: percent(on_time, requests.len()),
            executed_late_percent: percent(late, requests.len()),
            pairs,
            out_of_order_percent: percent(wrong, pairs),
            refused: waits.len(),
            refused_at_once_percent: percent(soon, waits.len()),
            at_server: at_once(answered.map(|run| (run.arrived_ms, run.ended_ms))),
            unanswered: self.seen.iter().filter(|seen| seen.status == 0).count(),
            round_trip_ms: round_trip_ms(&ways)?,
            lag_p99_ms: lag_ms(requests, &self.seen, 99),
        })
    }

    /// Number of pairs of executions, and of those in the wrong order.
    fn out_of_order(
        &self,
        requests: &[Request],
        executions: &HashMap<&str, &Execution>,
    ) -> (usize, usize) {
        let both = requests.iter().zip(&self.seen);
        let executed = both.filter_map(|(request, seen)| {
            let run = executions.get(id_of(request).as_str())?;
            let began = self.emulator.instant(run.started_ms);
            let began = began.saturating_duration_since(self.started);
            Some((run.order, [began, seen.left, request.deadline()]))
        });
        let mut executed: Vec<(u64, [Duration; 3])> = executed.collect();
        executed.sort_unstable();
        let in_order: Vec<[Duration; 3]> = executed.into_iter().map(|(_, times)| times).collect();
        wrong_pairs(&in_order)
    }
}

/// Number of pairs in which the second execution's request had left its client when the first started, and of those
/// in which the second was the more urgent. Each entry, in execution order: its start, its request's departure, its
/// deadline.
fn wrong_pairs(executed: &[[Duration; 3]]) -> (usize, usize) {
    let (mut pairs, mut wrong) = (0, 0);
    for (place, [began, _, deadline]) in executed.iter().enumerate() {
        for [_, left, other] in executed.iter().skip(place + 1).take(LATER_MAX) {
            if left <= began {
                pairs += 1;
                wrong += usize::from(other < deadline);
            }
        }
    }
    (pairs, wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pair_is_wrong_if_later_request_was_present_and_more_urgent() {
        let times = |began, left, deadline| [began, left, deadline].map(Duration::from_millis);
        let first = times(10, 0, 300);
        assert_eq!(wrong_pairs(&[first, times(35, 5, 301)]), (1, 0));
        assert_eq!(wrong_pairs(&[first, times(35, 5, 200)]), (1, 1));
        assert_eq!(wrong_pairs(&[first, times(35, 11, 200)]), (0, 0));
    }
}
