//! `weir replay`: reads a scenario, simulates each contender and reports the results. The table (or
//! JSON) goes to standard output, the progress to standard error.
//!
//! An interrupted replay leaves no partial report: the folder is written beside its place after the last
//! contender, and renamed.

mod shared;

use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};
use weir_replay::input::{Sending, requests};
use weir_replay::report::{self, Report};
use weir_replay::request::{Play, Request};
use weir_replay::scenario::{self, Overrides, Scenario, ScenarioFile};
use weir_replay::simulation;

use crate::output::print;
use crate::progress::Progress;

/// Arguments of `weir replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Replay {
    /// The scenario file (YAML).
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Random seed, instead of the scenario's.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Load as a multiple of the servers' capacity with their initial cores, instead of the scenario's load.
    #[arg(long, value_name = "X")]
    of_capacity: Option<f64>,
    /// Simulate only these contenders of the scenario, such as weir+planner.
    #[arg(long, value_name = "CONTENDER", num_args = 1..)]
    only: Vec<String>,
    /// Write the report (HTML, JSON, table) into this folder, replacing an earlier report.
    #[arg(long, value_name = "DIR")]
    report: Option<PathBuf>,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
    /// Check the scenario and its files and print a summary, without a simulation.
    #[arg(long)]
    check: bool,
}

impl Replay {
    /// # Errors
    /// An invalid scenario, or a report that cannot be written.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        let overrides = Overrides {
            seed: self.seed,
            of_capacity: self.of_capacity,
            requests_max: None,
        };
        match scenario::read_any(&self.file, overrides)? {
            ScenarioFile::Single(single) => self.run_single(*single),
            ScenarioFile::Shared(scenario, sendings) => shared::run(self, scenario, sendings),
        }
    }

    fn run_single(&self, (mut scenario, sending): (Scenario, Sending)) -> anyhow::Result<()> {
        scenario.contenders = chosen(&scenario.contenders, &labels(&scenario), &self.only)?;
        if let Some(folder) = &self.report {
            report::check(folder).context("--report")?;
        }
        let requests = requests(scenario.seed, &sending);
        tell_records("load", &sending);
        drop(sending);
        if self.check {
            let summary = Summary::new(&scenario, &requests);
            return print(match self.json {
                true => format!("{:#}\n", summary.json(&scenario, &requests)),
                false => summary.text(&scenario, &requests),
            });
        }
        let report = played(&scenario, &requests)?;
        if let Some(folder) = &self.report {
            report.write(folder)?;
        }
        if self.json {
            print(report.json()?)
        } else {
            print(format!("{}\n", report.table()))
        }
    }
}

/// Tells on standard error how many records are left out, and how many have budgets, which override the service. `load`
/// is the path of the load.
fn tell_records(load: &str, sending: &Sending) {
    let (played, left_out) = (sending.arrivals.len(), sending.left_out);
    if left_out > 0 {
        let all = played + left_out;
        eprintln!("{load}.records: {left_out} of {all} are not played: they arrive after length_s");
    }
    let own = sending.arrivals.iter().filter(|one| one.budget.is_some());
    let own = own.count();
    if own > 0 {
        eprintln!(
            "{load}.records: {own} of {played} have budgets, which count instead of service.slo and slo_ms; \
             {load}.budgets: service leaves them out"
        );
    }
}

/// Contenders named on the command line, in the scenario's order; all if it names none. `names` are those of `all`.
fn chosen<C: Copy>(all: &[C], names: &[String], only: &[String]) -> anyhow::Result<Vec<C>> {
    if let Some(unknown) = only.iter().find(|name| !names.contains(name)) {
        anyhow::bail!(
            "--only {unknown}: no contender of the scenario; it has {}",
            names.join(", ")
        );
    }
    let plays = |name: &String| only.is_empty() || only.contains(name);
    let chosen = all.iter().zip(names).filter(|(_, name)| plays(name));
    Ok(chosen.map(|(contender, _)| *contender).collect())
}

fn labels(scenario: &Scenario) -> Vec<String> {
    let all = scenario.contenders.iter();
    all.map(|contender| contender.label(&scenario.service))
        .collect()
}

/// Simulates every contender, computes the bounds, and creates the report.
fn played(scenario: &Scenario, requests: &[Request]) -> anyhow::Result<Report> {
    let mut progress = Progress::new(scenario.length, scenario.contenders.len())?;
    let mut plays: Vec<Play> = Vec::with_capacity(scenario.contenders.len());
    for contender in &scenario.contenders {
        progress.begin(contender.label(&scenario.service));
        let tell = |over| progress.second(over);
        plays.push(simulation::play_telling(
            tell,
            scenario,
            requests,
            *contender,
            scenario.seed,
        )?);
        progress.end();
    }
    progress.bounds();
    let yardsticks = report::yardsticks(scenario, requests, &plays);
    let report = Report::new(scenario, requests, &plays, &yardsticks)?;
    progress.finish(requests.len());
    Ok(report)
}

/// Summary of the scenario for `--check`.
struct Summary {
    length_s: f64,
    /// Seconds without a request.
    silent_s: u64,
    mean_rps: f64,
    /// Throughput of the servers with their initial cores.
    capacity_rps: f64,
    contenders: Vec<String>,
}

impl Summary {
    fn new(scenario: &Scenario, requests: &[Request]) -> Summary {
        let length_s = scenario.length.as_secs_f64();
        let mut seconds: Vec<u64> = requests.iter().map(|r| r.sent.as_secs()).collect();
        seconds.dedup();
        let length = scenario.length.as_secs();
        Summary {
            length_s,
            silent_s: length.saturating_sub(seconds.len() as u64),
            mean_rps: requests.len() as f64 / length_s,
            capacity_rps: scenario.capacity_rps(),
            contenders: labels(scenario),
        }
    }

    fn json(&self, scenario: &Scenario, requests: &[Request]) -> Value {
        json!({
            "scenario": scenario.name,
            "seed": scenario.seed,
            "requests": requests.len(),
            "length_s": self.length_s,
            "silent_s": self.silent_s,
            "mean_rps": self.mean_rps,
            "capacity_rps": self.capacity_rps,
            "proxies": scenario.proxies.count,
            "workers": scenario.proxies.workers,
            "faults": scenario.faults.len(),
            "contenders": self.contenders,
        })
    }

    fn text(&self, scenario: &Scenario, requests: &[Request]) -> String {
        let lines = self.lines(scenario, requests);
        format!("{lines}contenders: {}\n", self.contenders.join(", "))
    }

    /// Lines without the contenders.
    fn lines(&self, scenario: &Scenario, requests: &[Request]) -> String {
        let (mean, capacity) = (self.mean_rps, self.capacity_rps);
        let multiple = if capacity > 0.0 {
            format!(
                "{:.2} × the {capacity:.1}/s that the servers execute at the start",
                mean / capacity
            )
        } else {
            "the servers execute nothing at the start".to_owned()
        };
        format!(
            "{}, seed {}\n\
             {} requests over {} s, {} s without any; {mean:.1}/s, {multiple}\n\
             proxies: {} with {} workers each; faults: {}\n",
            scenario.name,
            scenario.seed,
            requests.len(),
            self.length_s,
            self.silent_s,
            scenario.proxies.count,
            scenario.proxies.workers,
            scenario.faults.len(),
        )
    }
}
