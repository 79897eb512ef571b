//! `weir replay` of a scenario with several services that share a budget.

use serde_json::{Value, json};
use weir_replay::input::{Sending, requests};
use weir_replay::report::SharedReport;
use weir_replay::request::Request;
use weir_replay::scenario::SharedScenario;
use weir_replay::simulation::play_shared;

use super::Replay;
use crate::output::print;
use crate::progress::Progress;

/// Plays the scenario, or summarizes it.
///
/// # Errors
/// An option that is for scenarios of one service, or a scenario that cannot be simulated.
pub(super) fn run(
    arguments: &Replay,
    mut scenario: SharedScenario,
    sendings: Vec<Sending>,
) -> anyhow::Result<()> {
    let labels: Vec<String> = scenario.contenders.iter().map(|one| one.label()).collect();
    let chosen = super::chosen(&scenario.contenders, &labels, &arguments.only)?;
    scenario.contenders = chosen;
    if let Some(folder) = &arguments.report {
        anyhow::bail!(
            "--report {}: it must be left out with several services; use --json, or the table on standard output",
            folder.display()
        );
    }
    let each = scenario.services.iter().zip(&sendings);
    let all: Vec<Vec<Request>> = each
        .map(|(service, sending)| requests(service.scenario.seed, sending))
        .collect();
    for (index, sending) in sendings.iter().enumerate() {
        super::tell_records(&format!("services[{index}].scenario.load"), sending);
    }
    drop(sendings);
    if arguments.check {
        return print(match arguments.json {
            true => format!("{:#}\n", summary_json(&scenario, &all)),
            false => summary_text(&scenario, &all),
        });
    }
    let report = played(&scenario, &all)?;
    print(match arguments.json {
        true => report.json()?,
        false => format!("{}\n", report.table()),
    })
}

/// Simulates every contender, computes the bounds, and creates the report.
fn played(scenario: &SharedScenario, requests: &[Vec<Request>]) -> anyhow::Result<SharedReport> {
    let mut progress = Progress::new(scenario.length, scenario.contenders.len())?;
    let mut plays = Vec::with_capacity(scenario.contenders.len());
    for contender in &scenario.contenders {
        progress.begin(contender.label());
        let tell = |over| progress.second(over);
        plays.push(play_shared(tell, scenario, requests, *contender)?);
        progress.end();
    }
    progress.bounds();
    let report = SharedReport::new(scenario, requests, plays)?;
    progress.finish(requests.iter().map(Vec::len).sum());
    Ok(report)
}

fn summary_json(scenario: &SharedScenario, requests: &[Vec<Request>]) -> Value {
    let each = scenario.services.iter().zip(requests);
    let services: Vec<Value> = each
        .map(|(service, requests)| {
            let own = super::Summary::new(&service.scenario, requests);
            let mut summary = own.json(&service.scenario, requests);
            if let Some(summary) = summary.as_object_mut() {
                summary.remove("contenders");
                summary.insert("weight".to_owned(), json!(service.weight));
            }
            summary
        })
        .collect();
    let labels: Vec<String> = scenario.contenders.iter().map(|one| one.label()).collect();
    json!({
        "scenario": scenario.name,
        "seed": scenario.seed,
        "budget_cores": scenario.step.times(scenario.budget).as_f64(),
        "services": services,
        "contenders": labels,
    })
}

fn summary_text(scenario: &SharedScenario, requests: &[Vec<Request>]) -> String {
    let labels: Vec<String> = scenario.contenders.iter().map(|one| one.label()).collect();
    let mut text = format!(
        "{}: {} services, {} cores\n",
        scenario.name,
        scenario.services.len(),
        scenario.step.times(scenario.budget),
    );
    for (service, requests) in scenario.services.iter().zip(requests) {
        let own = super::Summary::new(&service.scenario, requests);
        text += &own.lines(&service.scenario, requests);
    }
    text + &format!("contenders: {}\n", labels.join(", "))
}
