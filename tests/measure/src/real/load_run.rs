//! One run: a load through one way, and what its clients saw.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::body::Bytes;
use weir_bed::fate::{Outcome, Summary};
use weir_bed::load::{Protocol, Rates, Schedule, Sender, Target, start};
use weir_bed::network::Network;

use super::servers::Server;
use super::system::{SLO, System, Way};
use super::{own_queue, seconds};

/// Time after which a client disconnects.
const PATIENCE: Duration = Duration::from_secs(5);
/// Maximum lag of the generator's 99th percentile, as a part of the objective; beyond it a run proves nothing.
const LAG_P99_PART_MAX: f64 = 0.125;

/// Seconds in which answers per second are counted: queues are full, and no client has lost its patience in them.
const SUSTAINED: std::ops::Range<u64> = 2..7;

/// Result of a run.
#[derive(Debug, Clone)]
pub(crate) struct LoadRun {
    pub(crate) summary: Summary,
    outcomes: Vec<Outcome>,
    /// Latency objective of its requests.
    slo: Duration,
    seconds: f64,
    /// Mean accuracy of the variants that requests were sent to, percent; `None` where the filter chose none.
    pub(crate) accuracy_percent: Option<f64>,
    /// Counters second by second, if they were read.
    pub(crate) counters: String,
}

impl LoadRun {
    /// The run with counters that were read meanwhile.
    pub(crate) fn with_counters(self, counters: String) -> LoadRun {
        LoadRun { counters, ..self }
    }

    /// Number of requests sent.
    pub(crate) fn sent(&self) -> usize {
        self.outcomes.len()
    }

    /// Answered on time, percent of all sent.
    pub(crate) fn on_time_percent(&self) -> f64 {
        percent(self.summary.on_time, self.summary.sent)
    }

    /// Answered on time, percent of those sent within that span of seconds.
    pub(crate) fn on_time_percent_within(&self, span: &std::ops::Range<u64>) -> f64 {
        let sent = self.outcomes.iter();
        let sent: Vec<_> = sent
            .filter(|outcome| span.contains(&outcome.sent_at.as_secs()))
            .collect();
        let on_time = sent
            .iter()
            .filter(|outcome| outcome.on_time(self.slo))
            .count();
        percent(on_time as u64, sent.len() as u64)
    }

    /// Requests sent in each of the first seconds, and those of them answered on time.
    pub(crate) fn by_second(&self, seconds: usize) -> Vec<(u64, u64)> {
        let mut counts = vec![(0, 0); seconds];
        for outcome in &self.outcomes {
            if let Some((sent, on_time)) = counts.get_mut(outcome.sent_at.as_secs() as usize) {
                *sent += 1;
                *on_time += u64::from(outcome.on_time(self.slo));
            }
        }
        counts
    }

    /// Answered on time, percent of those sent in each second.
    pub(crate) fn by_second_percent(&self) -> impl Iterator<Item = String> {
        let counts = self.by_second(self.seconds as usize);
        let percent = |(sent, on_time)| format!("{:.0}", percent(on_time, sent));
        counts.into_iter().map(percent)
    }

    /// Answers per second while [`SUSTAINED`], late ones included.
    pub(crate) fn answered_rps(&self) -> f64 {
        let until = SUSTAINED.end.min(self.seconds as u64);
        let span = SUSTAINED.start..until;
        let within = |outcome: &&Outcome| span.contains(&outcome.ended_at.as_secs());
        let ended = self.outcomes.iter().filter(within);
        let answers = ended.filter(|outcome| outcome.answered()).count();
        answers as f64 / (until - SUSTAINED.start) as f64
    }
}

fn percent(part: u64, all: u64) -> f64 {
    part as f64 * 100.0 / all.max(1) as f64
}

/// Returns a sender of requests with the usual objective.
pub(crate) fn sender(body: &Bytes, protocol: Protocol) -> Sender {
    Sender {
        slo: SLO,
        timeout: PATIENCE,
        body: body.clone(),
        answer_bytes: 0,
        read_bytes_per_s: None,
        protocol,
    }
}

/// Sends these rates to the target. `during` runs beside the load.
pub(crate) async fn load_run(
    rates: &Rates,
    seed: u64,
    target: Target,
    sender: Sender,
    during: impl Future<Output = Result<()>>,
) -> Result<LoadRun> {
    let slo = sender.slo;
    let network = Arc::new(Network::none());
    let schedule = Schedule::new(rates, &network, sender.body.len() as u64, seed)?;
    let run = start(Arc::new(schedule), network, sender, vec![target])?;
    let (record, fault) = tokio::join!(run.finish(), during);
    fault?;
    let record = record?;
    ensure!(
        record.lag.p99_ms <= slo.as_secs_f64() * 1e3 * LAG_P99_PART_MAX,
        "the generator was late ({:?}): invalid run",
        record.lag
    );
    let outcomes = record.outcomes.into_iter().next().context("no outcomes")?;
    let summary = Summary::of(&outcomes, slo, |_| None)?;
    Ok(LoadRun {
        summary,
        outcomes,
        slo,
        seconds: rates.rps().len() as f64,
        accuracy_percent: None,
        counters: String::new(),
    })
}

/// Sends a load by one way once the servers are idle, and reads counters meanwhile. `during` runs beside the load.
pub(crate) async fn counted_run(
    system: &System,
    servers: &[Server],
    (rates, seed, body): (&Rates, u64, &Bytes),
    way: Way,
    during: impl Future<Output = Result<()>>,
) -> Result<LoadRun> {
    own_queue::until_empty(servers.iter().map(Server::url), body).await?;
    let target = system.target(way)?;
    let before = system.sent(servers).await?;
    let run = load_run(rates, seed, target, sender(body, Protocol::Http1), during);
    let mut counters = String::new();
    let mut run = tokio::select! {
        run = run => run?,
        Err(error) = seconds::record(system, servers, &mut counters) => return Err(error),
    };
    let after = system.sent(servers).await?;
    let sent = before
        .iter()
        .zip(after)
        .map(|(before, after)| after - before);
    let of_each: Vec<(f64, f64)> = system.accuracy.iter().copied().zip(sent).collect();
    let sent: f64 = of_each.iter().map(|(_, sent)| sent).sum();
    let accuracy = of_each.iter().map(|(accuracy, sent)| accuracy * sent);
    run.accuracy_percent = (sent > 0.0).then(|| accuracy.sum::<f64>() / sent);
    run.counters = counters;
    Ok(run)
}
