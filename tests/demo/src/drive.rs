//! The run: sends the load through all three listeners at once, shows progress, and collects the data for the report
//! and the picture. Makes no decisions about the system it drives.

use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use axum::body::Bytes;
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;
use tokio::time::{MissedTickBehavior, interval};
use weir_bed::fate::{Outcome, Summary};
use weir_bed::load::{Lag, Progress, Protocol, Rates, Run, Schedule, Sender, start};
use weir_bed::network::Network;

use crate::scenario::{ANSWER_BYTES, PATIENCE, Scenario};
use crate::system::{LISTENERS, Set, System};
use crate::visible::{Spread, Visible};
use weir_bed::planner::{Cycle, Status};

/// Interval of progress updates and status requests.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(500);
/// Cycles requested each time: more than can happen in one interval.
const CYCLES_REQUESTED: usize = 20;
/// Interval of progress lines when there is no terminal.
const LINE_EVERY_S: u64 = 5;
/// Length to which the JSON part of a body is padded; the tensor's bytes follow it.
const JSON_BYTES: usize = 256;
/// Header with the JSON part's length, from the Open Inference Protocol's binary data extension.
const JSON_LENGTH: &str = "inference-header-content-length";

/// The results of a run.
#[derive(Debug)]
pub(crate) struct Results {
    /// One of each listener, in the order of [`LISTENERS`], like `outcomes`.
    pub(crate) summaries: Vec<Summary>,
    pub(crate) outcomes: Vec<Vec<Outcome>>,
    pub(crate) lag: Lag,
    /// The planner's cycles during the run, by second since its start.
    pub(crate) cycles: Vec<(f64, Cycle)>,
    /// Time from publishing a plan until a worker adopts it, in ms.
    pub(crate) visible: Spread,
}

/// Runs the load.
pub(crate) async fn drive(
    scenario: &Scenario,
    system: &System,
    rates: &Rates,
    network: Arc<Network>,
    seed: u64,
) -> Result<Results> {
    let payload_bytes = scenario.load().payload_bytes;
    let schedule = Arc::new(Schedule::new(rates, &network, payload_bytes, seed)?);
    let sender = Sender {
        slo: scenario.slo(),
        timeout: PATIENCE,
        body: body(payload_bytes),
        answer_bytes: ANSWER_BYTES,
        read_bytes_per_s: None,
        protocol: Protocol::Http1,
    };
    let visible_before = Visible::read(system).await?;
    system.reset();
    let began_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let mut targets = system.targets()?;
    for target in &mut targets {
        let length = JSON_BYTES.to_string();
        target.headers.push((JSON_LENGTH.to_owned(), length));
    }
    let run = start(schedule, network, sender, targets)?;
    let mut cycles = BTreeMap::new();
    watch(system, &run, rates, &mut cycles).await;
    let record = run.finish().await?;
    let last = system.planner.status(CYCLES_REQUESTED).await;
    remember(
        &mut cycles,
        last.context("the planner stopped answering during the run")?,
    );
    let sets = system.sets_by_listener();
    let core_seconds: Vec<f64> = sets
        .iter()
        .map(|sets| sets.iter().map(|set| set.core_seconds()).sum())
        .collect();
    let visible = Visible::read(system).await?.since(&visible_before);
    system.drain().await?;
    let mut summaries = Vec::new();
    for ((outcomes, sets), core_seconds) in record.outcomes.iter().zip(&sets).zip(core_seconds) {
        let sum = Summary::of(outcomes, scenario.slo(), |name| scenario.accuracy(name))?;
        let executed = sets.iter().map(|set| executed(set));
        let executed: Vec<Vec<String>> = executed.collect::<Result<_>>()?;
        summaries.push(with_backends(sum, outcomes, &executed, core_seconds)?);
    }
    let second = |at_ms: u64| (at_ms as f64 - began_ms as f64) / 1e3;
    let mut cycles: Vec<(f64, Cycle)> = cycles
        .into_values()
        .map(|cycle: Cycle| (second(cycle.at_ms), cycle))
        .collect();
    // Keeps the last cycle before the run as its initial state.
    let before = cycles.partition_point(|(second, _)| *second < 0.0);
    cycles.drain(..before.saturating_sub(1));
    if let Some((second, cycle)) = cycles.first_mut().filter(|(second, _)| *second < 0.0) {
        (*second, cycle.plans_published) = (0.0, 0);
    }
    Ok(Results {
        summaries,
        outcomes: record.outcomes,
        lag: record.lag,
        cycles,
        visible,
    })
}

/// A request's body of `bytes` bytes, most of them a tensor's.
fn body(bytes: u64) -> Bytes {
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX).max(JSON_BYTES);
    let tensor = bytes - JSON_BYTES;
    let json = json!({ "inputs": [{
        "name": "input", "datatype": "UINT8", "shape": [tensor],
        "parameters": { "binary_data_size": tensor },
    }] });
    let mut body = format!("{:<JSON_BYTES$}", json.to_string()).into_bytes();
    // The content does not matter to the emulator.
    body.resize(bytes, 0x7f);
    body.into()
}

/// The request ids of a set's executions, one for each.
fn executed(set: &Set) -> Result<Vec<String>> {
    let forgotten: u64 = set.variants.iter().map(|variant| variant.forgotten()).sum();
    ensure!(
        forgotten == 0,
        "{forgotten} executions were dropped from the journal: the run is too long"
    );
    let executions = set.variants.iter().flat_map(|variant| variant.executions());
    Ok(executions.map(|done| done.request_id).collect())
}

/// Adds the executions of each stage's servers. An answered request is executed once at each stage, a refused or
/// abandoned one at some.
fn with_backends(
    sum: Summary,
    outcomes: &[Outcome],
    executed: &[Vec<String>],
    core_seconds: f64,
) -> Result<Summary> {
    // Executions are matched by id; a changed id would hide that a request was executed twice.
    let sent: HashSet<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    for ids in executed {
        if let Some(id) = ids.iter().find(|id| !sent.contains(id.as_str())) {
            bail!("a server executed '{id}', which the load generator never sent");
        }
        let known: HashSet<&str> = ids.iter().map(String::as_str).collect();
        let mut answered = outcomes.iter().filter(|outcome| outcome.answered());
        if let Some(Outcome { id, .. }) = answered.find(|o| !known.contains(o.id.as_str())) {
            bail!("'{id}' was answered, but no server of a stage executed it");
        }
    }
    let by_stage = |(stage, ids): (usize, &Vec<String>)| -> Vec<String> {
        ids.iter().map(|id| format!("{stage} {id}")).collect()
    };
    let at_stages: Vec<String> = executed.iter().enumerate().flat_map(by_stage).collect();
    Ok(sum.with_backends(at_stages.iter().map(String::as_str), core_seconds))
}

/// Shows progress and requests the planner's cycles until every request has ended.
async fn watch(system: &System, run: &Run, rates: &Rates, cycles: &mut BTreeMap<u64, Cycle>) {
    let seconds = rates.rps().len() as u64;
    let bar = ProgressBar::new(seconds);
    if let Ok(style) = ProgressStyle::with_template("{pos:>4}/{len} s [{bar:30}] {msg}") {
        bar.set_style(style.progress_chars("━╸ "));
    }
    let drawn = std::io::stderr().is_terminal();
    let mut printed = 0;
    let mut ticks = interval(PROGRESS_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !run.is_finished() {
        ticks.tick().await;
        // A missing status only leaves a gap in the picture.
        if let Ok(status) = system.planner.status(CYCLES_REQUESTED).await {
            remember(cycles, status);
        }
        let second = run.elapsed().as_secs();
        let message = message(&run.progress(), rates.rps().get(second as usize));
        bar.set_position(second.min(seconds));
        bar.set_message(message.clone());
        if !drawn && second >= printed + LINE_EVERY_S {
            printed = second;
            eprintln!("{second:>4}/{seconds} s  {message}");
        }
    }
    bar.finish_and_clear();
}

fn remember(cycles: &mut BTreeMap<u64, Cycle>, status: Status) {
    cycles.extend(status.cycles.into_iter().map(|cycle| (cycle.at_ms, cycle)));
}

fn message(progress: &[Progress], rate: Option<&f64>) -> String {
    let load = rate.map_or("sending done".to_owned(), |rate| {
        format!("{rate:>3.0} requests/s")
    });
    let share = |(name, progress): (&&str, &Progress)| {
        let on_time = 100.0 * progress.on_time as f64 / progress.ended.max(1) as f64;
        format!("{name} {on_time:5.1} %")
    };
    let shares: Vec<String> = LISTENERS.iter().zip(progress).map(share).collect();
    format!("{load}   on time so far: {}", shares.join("  "))
}

#[cfg(test)]
mod tests {
    use weir_bed::fate::Fate;

    use super::*;

    fn answered(id: &str) -> Outcome {
        Outcome {
            id: id.into(),
            sent_at: Duration::ZERO,
            ended_at: Duration::ZERO,
            fate: Fate::Answered {
                variant: None,
                remaining_ms: None,
            },
        }
    }

    /// The summary of `a`, answered, and `b`, abandoned, with these executions at the stages.
    fn doubled(executed: [&[&str]; 2]) -> Result<u64> {
        let disconnected = Outcome {
            fate: Fate::Disconnected,
            ..answered("b")
        };
        let executed = executed.map(|ids| ids.iter().map(|id| (*id).to_owned()).collect());
        let sum = with_backends(
            Summary::default(),
            &[answered("a"), disconnected],
            &executed,
            0.0,
        )?;
        Ok(sum.doubled)
    }

    #[test]
    fn second_execution_at_a_stage_is_counted() {
        assert_eq!(doubled([&["a"], &["a"]]).unwrap(), 0);
        assert_eq!(doubled([&["a", "b"], &["a"]]).unwrap(), 0);
        assert_eq!(doubled([&["a", "a"], &["a"]]).unwrap(), 1);
        assert_eq!(doubled([&["a", "b"], &["a", "b", "b"]]).unwrap(), 1);
        let refused = |executed| doubled(executed).unwrap_err().to_string();
        assert!(refused([&["a"], &["b"]]).contains("'a' was answered"));
        assert!(refused([&["b"], &["a"]]).contains("'a' was answered"));
        assert!(refused([&["a"], &["a", "c"]]).contains("executed 'c'"));
    }
}
