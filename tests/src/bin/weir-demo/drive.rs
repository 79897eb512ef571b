//! The run: sends the load through all three listeners at once, shows how it goes, and collects what
//! the report and the picture are made of. Decides nothing about the system it drives.

use std::collections::{BTreeMap, HashSet};
use std::io::IsTerminal;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::{MissedTickBehavior, interval};
use weir_tests::fate::{Outcome, Summary};
use weir_tests::load::{Lag, Progress, Protocol, Rates, Run, Schedule, Sender, start};
use weir_tests::network::Network;

use crate::scenario::{ANSWER_BYTES, PATIENCE, Scenario};
use crate::system::{LISTENERS, Set, System};
use crate::visible::{Spread, Visible};
use weir_tests::planner::{Cycle, Status};

/// How often progress is shown and the planner asked.
const LOOK: Duration = Duration::from_millis(500);
/// Turns asked for at each look: more than there can be between two.
const CYCLES_ASKED: usize = 20;
/// How often a line is printed where there is no terminal to draw on.
const LINE_EVERY_S: u64 = 5;
/// What is really sent.
const BODY: &str =
    r#"{"inputs":[{"name":"input","datatype":"BYTES","shape":[1],"data":["an image"]}]}"#;

/// What a run leaves.
#[derive(Debug)]
pub(crate) struct Results {
    /// In the order of [`LISTENERS`], like `outcomes`.
    pub(crate) summaries: Vec<Summary>,
    pub(crate) outcomes: Vec<Vec<Outcome>>,
    pub(crate) lag: Lag,
    /// The planner's turns during the run, by second since its start.
    pub(crate) cycles: Vec<(f64, Cycle)>,
    /// From publishing a plan to its being taken over, in ms.
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
        patience: PATIENCE,
        body: BODY.into(),
        answer_bytes: ANSWER_BYTES,
        protocol: Protocol::Http1,
    };
    let visible_before = Visible::read(system).await?;
    system.reset();
    let began_ms = SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis();
    let run = start(schedule, network, sender, system.targets()?)?;
    let mut cycles = BTreeMap::new();
    watch(system, &run, rates, &mut cycles).await;
    let record = run.finish().await?;
    let last = system.planner.status(CYCLES_ASKED).await;
    remember(
        &mut cycles,
        last.context("the planner has gone during the run")?,
    );
    let core_seconds: Vec<f64> = system.sets.iter().map(Set::core_seconds).collect();
    let visible = Visible::read(system).await?.since(&visible_before);
    system.drain().await?;
    let mut summaries = Vec::new();
    for ((outcomes, set), core_seconds) in
        record.outcomes.iter().zip(&system.sets).zip(core_seconds)
    {
        let sum = Summary::of(outcomes, scenario.slo(), |name| scenario.accuracy(name))?;
        summaries.push(with_backends(sum, outcomes, set, core_seconds)?);
    }
    let second = |at_ms: u64| (at_ms as f64 - began_ms as f64) / 1e3;
    let mut cycles: Vec<(f64, Cycle)> = cycles
        .into_values()
        .map(|cycle: Cycle| (second(cycle.at_ms), cycle))
        .collect();
    // The run begins with what the turn before it left.
    let before = cycles.partition_point(|(second, _)| *second < 0.0);
    cycles.drain(..before.saturating_sub(1));
    if let Some((second, cycle)) = cycles.first_mut().filter(|(second, _)| *second < 0.0) {
        (*second, cycle.published) = (0.0, 0);
    }
    Ok(Results {
        summaries,
        outcomes: record.outcomes,
        lag: record.lag,
        cycles,
        visible,
    })
}

fn with_backends(
    sum: Summary,
    outcomes: &[Outcome],
    set: &Set,
    core_seconds: f64,
) -> Result<Summary> {
    let forgotten: u64 = set.servers.iter().map(|server| server.forgotten()).sum();
    ensure!(
        forgotten == 0,
        "{forgotten} executions were forgotten: the run is too long"
    );
    let executed: Vec<_> = set
        .servers
        .iter()
        .flat_map(|server| server.executions())
        .collect();
    // Ids tell executions apart; changed on the way, they would hide that one was executed twice.
    let ids = || {
        executed
            .iter()
            .map(|execution| execution.request_id.as_str())
    };
    let sent: HashSet<&str> = outcomes.iter().map(|outcome| outcome.id.as_str()).collect();
    if let Some(id) = ids().find(|id| !sent.contains(id)) {
        bail!("a server executed '{id}', which the load generator never sent");
    }
    let known: HashSet<&str> = ids().collect();
    let answered = outcomes.iter().filter(|outcome| outcome.answered());
    if let Some(Outcome { id, .. }) = answered
        .into_iter()
        .find(|o| !known.contains(o.id.as_str()))
    {
        bail!("'{id}' was answered, but no server executed it");
    }
    Ok(sum.with_backends(ids(), core_seconds))
}

/// Shows how the run goes and asks the planner for its turns until every request has ended.
async fn watch(system: &System, run: &Run, rates: &Rates, cycles: &mut BTreeMap<u64, Cycle>) {
    let seconds = rates.rps().len() as u64;
    let bar = ProgressBar::new(seconds);
    if let Ok(style) = ProgressStyle::with_template("{pos:>4}/{len} s [{bar:30}] {msg}") {
        bar.set_style(style.progress_chars("━╸ "));
    }
    let drawn = std::io::stderr().is_terminal();
    let mut printed = 0;
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    while !run.is_finished() {
        looks.tick().await;
        // A status that does not come leaves a gap in the picture, no more.
        if let Ok(status) = system.planner.status(CYCLES_ASKED).await {
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
