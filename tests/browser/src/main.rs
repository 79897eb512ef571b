//! Replays `scenario.yaml` without files, threads and clock. A browser's module has no output: there the report stays
//! in its memory, where `run.mjs` compares it with the report of `weir replay --json`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use weir_replay::input::requests;
use weir_replay::report::{self, Report};
use weir_replay::scenario::{self, Overrides};
use weir_replay::simulation;

/// Scenario, as `weir replay` reads it.
const SCENARIO: &str = include_str!("../scenario.yaml");

/// Report as JSON, or the error; kept after the end for whoever reads the module's memory.
static RESULT: OnceLock<String> = OnceLock::new();

fn main() -> ExitCode {
    let (text, code) = match report() {
        Ok(json) => (json, ExitCode::SUCCESS),
        Err(error) => (format!("error: {error:#}"), ExitCode::FAILURE),
    };
    let text = std::hint::black_box(RESULT.get_or_init(|| text));
    print!("{text}");
    code
}

/// Replays the scenario and returns its report as JSON.
fn report() -> anyhow::Result<String> {
    let (scenario, sending) = scenario::read_text(SCENARIO, Path::new(""), Overrides::default())?;
    let requests = requests(scenario.seed, &sending);
    let play = |contender| simulation::play(&scenario, &requests, contender, scenario.seed);
    let plays: Result<Vec<_>, _> = scenario.contenders.iter().copied().map(play).collect();
    let plays = plays?;
    let yardsticks = report::yardsticks(&scenario, &requests, &plays);
    Ok(Report::new(&scenario, &requests, &plays, &yardsticks)?.json()?)
}
