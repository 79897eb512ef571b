//! Replay of a scenario that somebody sent: it reads no file, and is bounded in simulated time, requests, engines and,
//! by its caller, in real time.

use std::time::Duration;

use crate::input::requests;
use crate::report::Report;
use crate::scenario::{FieldError, Overrides, Scenario, read_sent};
use crate::simulation::{self, PlayError};

/// Maximum time of one solve of the simulated planner.
pub const SOLVE_MAX: Duration = Duration::from_millis(100);

/// Bounds of a replay.
#[derive(Debug, Clone, Copy)]
pub struct SentBounds {
    /// Maximum number of simulated seconds.
    pub seconds_max: u64,
    /// Maximum number of requests, over all contenders.
    pub requests_max: usize,
    /// Maximum number of workers, over all proxies and stages.
    pub workers_max: usize,
}

/// Reason why there is no report.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum SentError {
    #[error("{0}")]
    Field(#[from] FieldError),
    #[error("stopped")]
    Stopped,
    #[error("{0}")]
    Broken(String),
}

/// Plays a scenario and returns its report as JSON. `goes_on` is called before each contender and after each simulated
/// second; false stops the replay.
///
/// # Errors
/// The first invalid field; or it was stopped.
pub fn play(
    text: &str,
    bounds: SentBounds,
    goes_on: &mut dyn FnMut() -> bool,
) -> Result<String, SentError> {
    let overrides = Overrides {
        requests_max: Some(bounds.requests_max),
        ..Overrides::default()
    };
    let (mut scenario, sending) = read_sent(text, overrides)?;
    check(&scenario, sending.arrivals.len(), bounds)?;
    let service = &mut scenario.service;
    service.solver_limit = service.solver_limit.min(SOLVE_MAX);
    let requests = requests(scenario.seed, &sending);
    drop(sending);
    let mut plays = Vec::with_capacity(scenario.contenders.len());
    for contender in &scenario.contenders {
        if !goes_on() {
            return Err(SentError::Stopped);
        }
        let play = simulation::play_while(goes_on, &scenario, &requests, *contender, scenario.seed);
        plays.push(
            play.map_err(|error| refused(&error))?
                .ok_or(SentError::Stopped)?,
        );
    }
    let report = Report::new(&scenario, &requests, &plays, &[]);
    let report = report.and_then(|report| report.json());
    report.map_err(|error| SentError::Broken(error.to_string()))
}

/// Refuses a scenario beyond the bounds.
fn check(scenario: &Scenario, requests: usize, bounds: SentBounds) -> Result<(), FieldError> {
    let proxies = &scenario.proxies;
    let workers = scenario.service.stages.len() * (proxies.count * proxies.workers) as usize;
    let played = requests * scenario.contenders.len();
    let (requests_max, workers_max) = (bounds.requests_max, bounds.workers_max);
    let (seconds, seconds_max) = (scenario.length.as_secs(), bounds.seconds_max);
    for (path, fits, message) in [
        (
            "length_s",
            seconds <= seconds_max,
            format!("{seconds} s; it must be at most {seconds_max} s"),
        ),
        (
            "load",
            played <= requests_max,
            format!("{played} requests over all contenders; it must be at most {requests_max}"),
        ),
        (
            "proxies",
            workers <= workers_max,
            format!("{workers} workers over all stages; it must be at most {workers_max}"),
        ),
    ] {
        if !fits {
            return Err(FieldError {
                path: path.to_owned(),
                message,
            });
        }
    }
    Ok(())
}

/// An error of a play names a field, unless it is a bug.
fn refused(error: &PlayError) -> SentError {
    let message = error.to_string();
    match (error, message.split_once(": ")) {
        (PlayError::Ends { .. }, _) | (_, None) => SentError::Broken(message),
        (_, Some((path, message))) => SentError::Field(FieldError {
            path: path.to_owned(),
            message: message.to_owned(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: SentBounds = SentBounds {
        seconds_max: 60,
        requests_max: 1000,
        workers_max: 16,
    };

    /// A scenario of ten seconds, with that load and these further keys.
    fn scenario(load: &str, keys: &str) -> String {
        let service = include_str!("../../../tests/demo/service.yaml");
        let service: serde_json::Value = serde_saphyr::from_str(service).unwrap();
        format!("name: sent\nload: {load}\nservice: {service}\n{keys}")
    }

    fn message(text: &str) -> String {
        play(text, BOUNDS, &mut || true).unwrap_err().to_string()
    }

    #[test]
    fn report_is_that_of_the_contenders() {
        let rates = "{rates: [20, 20, 20, 20, 20]}";
        let text = scenario(rates, "contenders: [{plane: weir, control: planner}]\n");
        let mut seconds = 0;
        let mut count = || {
            seconds += 1;
            true
        };
        let report = play(&text, BOUNDS, &mut count).unwrap();
        assert!(seconds >= 5, "{seconds}");
        let report: serde_json::Value = serde_json::from_str(&report).unwrap();
        assert_eq!(report["contenders"].as_array().unwrap().len(), 1);
        let whole = simulated(&text);
        assert_eq!(report["contenders"][0], whole["contenders"][0]);
    }

    /// The same without steps.
    fn simulated(text: &str) -> serde_json::Value {
        let (scenario, sending) = read_sent(text, Overrides::default()).unwrap();
        let requests = requests(scenario.seed, &sending);
        let contender = scenario.contenders[0];
        let play = simulation::play(&scenario, &requests, contender, scenario.seed).unwrap();
        let report = Report::new(&scenario, &requests, &[play], &[]).unwrap();
        serde_json::from_str(&report.json().unwrap()).unwrap()
    }

    #[test]
    fn replay_ends_when_it_must_not_go_on() {
        let rates = "{rates: [20, 20, 20, 20, 20]}";
        let text = scenario(rates, "contenders: [{plane: weir, control: planner}]\n");
        let mut left = 3;
        let stopped = play(&text, BOUNDS, &mut || {
            left -= 1;
            left > 0
        });
        assert!(matches!(stopped, Err(SentError::Stopped)), "{stopped:?}");
    }

    #[test]
    fn bounds_and_files_are_refused_by_field() {
        let one = "{rates: [1]}";
        let variants = |profile: &str| {
            format!(
                "name: sent\nload: {one}\nservice: {{slo: 1s, budget: {{cores: 2}}, variants: [{{name: a, cluster: a, \
                 accuracy: 1, cores: {{initial: 1}}, {profile}}}]}}\n"
            )
        };
        for (text, expected) in [
            (
                scenario("{generator: poisson, rps: 1}", "length_s: 61\n"),
                "length_s: 61 s; it must be at most 60 s",
            ),
            (
                scenario("{rates: [1001]}", ""),
                "load: 1001 requests; it must be 1 to 1000",
            ),
            (
                scenario("{generator: poisson, rps: 1e5}", "length_s: 86400\n"),
                "load: 8640000000 requests; it must be 1 to 1000",
            ),
            (
                scenario(one, "proxies: {count: 5, workers: 4}\n"),
                "proxies: 20 workers over all stages; it must be at most 16",
            ),
            (
                scenario("{file: /etc/passwd}", ""),
                "load.file: /etc/passwd; it must be left out",
            ),
            (
                scenario("{records: a.csv}", ""),
                "load.records: a.csv; it must be left out",
            ),
            (
                scenario(one, "network: {file: {path: /dev/zero}}\n"),
                "network.file: /dev/zero; it must be left out",
            ),
            (
                "name: sent\nload: {rates: [1]}\nservice: /etc/passwd\n".to_owned(),
                "service: /etc/passwd; it must be left out",
            ),
            (
                variants("profile: {file: /etc/passwd}"),
                "service.variants[0].profile.file: /etc/passwd; it must be left out",
            ),
            ("name: 1".to_owned(), ""),
            (scenario(one, "services: []\n"), "services: unknown field"),
            (scenario(one, "colour: red\n"), "colour: unknown field"),
        ] {
            let message = message(&text);
            assert!(message.starts_with(expected), "{message}");
        }
    }
}
