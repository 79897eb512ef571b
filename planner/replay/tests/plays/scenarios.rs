//! Texts of scenarios, and their plays.

use std::path::Path;

use weir_replay::input::requests;
use weir_replay::report::Summary;
use weir_replay::request::{Play, Request};
use weir_replay::scenario::{Overrides, Scenario, read_text};
use weir_replay::simulation::play;

pub(crate) const STATIC: &str = "{ plane: weir, control: static }";
pub(crate) const PLANNER: &str = "{ plane: weir, control: planner }";

/// Text of a variant on a cluster of its name, with further keys.
pub(crate) fn variant(name: &str, accuracy: f64, keys: &str) -> String {
    format!("{{ name: {name}, cluster: {name}, accuracy: {accuracy}, {keys} }}")
}

/// Keys of a variant with replicas of one core: those at the start, and the most.
pub(crate) fn one_core(initial: u32, max: u32) -> String {
    format!(
        "cores: {{ initial: 1, min: 1, max: 1 }}, replicas: {{ initial: {initial}, min: 0, max: {max} }}"
    )
}

/// Key of a variant that executes for `gamma_ms`/c + `eta_ms` on c cores.
pub(crate) fn latency(gamma_ms: f64, eta_ms: f64, parallelism: &str) -> String {
    format!(
        "latency: {{ gammaMs: {gamma_ms}, etaMs: {eta_ms}, parallelism: {parallelism}, tail: 1.26 }}"
    )
}

/// Text of a stage with those variants.
pub(crate) fn stage(name: &str, variants: &[String]) -> String {
    format!("{{ name: {name}, variants: [{}] }}", variants.join(", "))
}

/// Reads a scenario.
pub(crate) fn scenario(text: &str) -> (Scenario, Vec<Request>) {
    scenario_beside(Path::new(""), text)
}

/// Reads a scenario whose files are in a folder.
pub(crate) fn scenario_beside(folder: &Path, text: &str) -> (Scenario, Vec<Request>) {
    let (scenario, sending) = read_text(text, folder, Overrides::default()).unwrap();
    let requests = requests(scenario.seed, &sending);
    (scenario, requests)
}

/// Plays the first contender.
pub(crate) fn played(scenario: &Scenario, requests: &[Request]) -> (Play, Summary) {
    let play = play(scenario, requests, scenario.contenders[0], scenario.seed).unwrap();
    let summary = Summary::of(scenario, requests, &play, None).unwrap();
    (play, summary)
}

/// Reads a scenario and plays its first contender.
pub(crate) fn played_text(text: &str) -> (Play, Summary) {
    let (scenario, requests) = scenario(text);
    played(&scenario, &requests)
}

/// Plays the first contender twice: both plays are equal, and each request ends once.
pub(crate) fn played_twice(scenario: &Scenario, requests: &[Request]) -> (Play, Summary) {
    let (play, summary) = played(scenario, requests);
    assert!(
        play == played(scenario, requests).0,
        "the same seed, another play"
    );
    let ended = summary.on_time
        + summary.late
        + summary.too_inaccurate
        + summary.refused_total()
        + summary.disconnected
        + summary.lost;
    assert_eq!(ended, summary.sent, "each request ends once");
    (play, summary)
}
