//! Replays in the page: a scenario, or a service under a pasted trace, played by the real engine and the real cycle.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use weir_replay::input::requests;
use weir_replay::report::Report;
use weir_replay::request::{Fate, Play, Request};
use weir_replay::scenario::{Overrides, read_text};
use weir_replay::simulation;
use weir_sim::load::parse_trace;

use crate::{ConsoleError, document};

/// Maximum number of requests of a replay, over all contenders.
pub const PLAYED_MAX: usize = 1_000_000;
/// Maximum number of seconds of a pasted trace that are played.
pub const SECONDS_MAX: usize = 3600;

/// Replay of a service under a trace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TraceReplay {
    /// Service file, YAML or JSON. Addresses and keys may be left out.
    pub service: String,
    /// Trace: requests/s of each second, in any form that `weir replay` reads.
    pub trace: String,
    /// Column or key of the trace, if it has several.
    #[serde(default)]
    pub key: Option<String>,
    /// Whether clients send pictures over a link like 4G.
    #[serde(default)]
    pub mobile: bool,
    /// Whether the same requests are also sent to a proxy with static weights and a timeout.
    #[serde(default)]
    pub compare: bool,
    /// Seed.
    #[serde(default)]
    pub seed: u64,
}

/// Replay with what is drawn of it.
#[derive(Debug, Serialize)]
pub struct Replayed {
    /// Report, as of `weir replay --json`.
    pub report: Value,
    /// Requests sent in each second.
    pub sent_rps: Vec<f64>,
    /// One for each contender.
    pub series: Vec<Series>,
}

/// Seconds of one contender.
#[derive(Debug, Serialize)]
pub struct Series {
    /// Name.
    pub contender: String,
    /// Requests of each second that were answered on time, in percent; 100 without requests.
    pub on_time_percent: Vec<f64>,
    /// Demand with headroom, as forecast; empty without a planner.
    pub demand_rps: Vec<f64>,
    /// Target cores.
    pub cores_target: Vec<f64>,
    /// Actual cores.
    pub cores_actual: Vec<f64>,
}

/// Replays a scenario.
///
/// # Errors
/// The first invalid field, by its path; or more than [`PLAYED_MAX`] requests.
pub fn scenario(text: &str) -> Result<Replayed, ConsoleError> {
    if text.len() > document::TEXT_MAX {
        let right = format!("at most {} bytes", document::TEXT_MAX);
        let size = format!("{} bytes", text.len());
        return Err(ConsoleError::value("scenario", size, right));
    }
    let (scenario, sending) = read_text(text, Path::new(""), Overrides::default())?;
    let requests = requests(scenario.seed, &sending);
    let played = requests.len() * scenario.contenders.len();
    if played > PLAYED_MAX {
        let right = format!("at most {PLAYED_MAX} over all contenders: a shorter or lower load");
        return Err(ConsoleError::value(
            "load",
            format!("{played} requests"),
            right,
        ));
    }
    let failed = |error: &dyn std::fmt::Display| ConsoleError::Replay(error.to_string());
    let mut plays = Vec::with_capacity(scenario.contenders.len());
    for contender in &scenario.contenders {
        let play = simulation::play(&scenario, &requests, *contender, scenario.seed);
        plays.push(play.map_err(|error| failed(&error))?);
    }
    let report = Report::new(&scenario, &requests, &plays, &[]).map_err(|error| failed(&error))?;
    let report = serde_json::to_value(&report).map_err(|error| failed(&error))?;
    let seconds = usize::try_from(scenario.length.as_secs()).unwrap_or(SECONDS_MAX);
    let mut sent_rps = vec![0.0; seconds];
    for request in &requests {
        if let Some(sent) = sent_rps.get_mut(second(request.sent)) {
            *sent += 1.0;
        }
    }
    let series = plays.iter().map(|play| series(&requests, play, &sent_rps));
    Ok(Replayed {
        report,
        series: series.collect(),
        sent_rps,
    })
}

/// Replays a service under a trace.
///
/// # Errors
/// The first invalid field, by its path.
pub fn trace(request: &TraceReplay) -> Result<Replayed, ConsoleError> {
    let rates = parse_trace(&request.trace, request.key.as_deref());
    let rates = rates.map_err(|error| ConsoleError::Text {
        what: "trace",
        message: format!("{error:#}"),
    })?;
    if rates.len() > SECONDS_MAX {
        let right = format!("at most {SECONDS_MAX}");
        let seconds = format!("{} seconds", rates.len());
        return Err(ConsoleError::value("trace", seconds, right));
    }
    let service = document::parse("service file", &request.service)?;
    let mut contenders = vec![json!({ "plane": "weir", "control": "planner" })];
    if request.compare {
        contenders.push(json!({ "plane": "fifo-timeout", "control": "static" }));
    }
    let mut document = json!({
        "name": "console", "seed": request.seed, "service": service,
        "load": { "rates": rates }, "contenders": contenders,
        "clients": { "timeout_ms": 5000 },
    });
    if let (true, Some(keys)) = (request.mobile, document.as_object_mut()) {
        // The demo's: a picture up, a small answer down.
        keys.insert("network".to_owned(), json!("4g"));
        keys.insert("payload_bytes".to_owned(), json!(200_000));
        keys.insert("answer_bytes".to_owned(), json!(500));
    }
    // JSON is YAML.
    scenario(&document.to_string())
}

fn second(time: Duration) -> usize {
    usize::try_from(time.as_secs()).unwrap_or(usize::MAX)
}

fn series(requests: &[Request], play: &Play, sent_rps: &[f64]) -> Series {
    let mut on_time = vec![0.0; sent_rps.len()];
    for (request, outcome) in requests.iter().zip(&play.outcomes) {
        let in_time =
            matches!(outcome.fate, Fate::Answered(_)) && outcome.ended <= request.deadline();
        if let Some(count) = on_time.get_mut(second(request.sent)).filter(|_| in_time) {
            *count += 1.0;
        }
    }
    let part = |(count, sent): (&f64, &f64)| match *sent > 0.0 {
        true => 100.0 * count / sent,
        false => 100.0,
    };
    let seconds = play.seconds.iter().take(sent_rps.len());
    let sum = |cores: &Vec<f64>| cores.iter().sum();
    Series {
        contender: play.contender.clone(),
        on_time_percent: on_time.iter().zip(sent_rps).map(part).collect(),
        demand_rps: seconds
            .clone()
            .filter_map(|second| second.demand_rps)
            .collect(),
        cores_target: seconds
            .clone()
            .map(|second| sum(&second.cores_target))
            .collect(),
        cores_actual: seconds.map(|second| sum(&second.cores_actual)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SERVICE: &str = include_str!("../../../tests/demo/service.yaml");

    fn request(trace: &str) -> TraceReplay {
        TraceReplay {
            service: SERVICE.to_owned(),
            trace: trace.to_owned(),
            compare: true,
            seed: 1,
            ..TraceReplay::default()
        }
    }

    #[test]
    fn trace_is_played_by_both_contenders() {
        let replayed = trace(&request("40\n50\n60\n50\n40\n")).unwrap();
        assert_eq!(replayed.sent_rps.len(), 5);
        assert_eq!(replayed.series.len(), 2);
        let sent: f64 = replayed.sent_rps.iter().sum();
        for (series, summary) in replayed
            .series
            .iter()
            .zip(replayed.report["contenders"].as_array().unwrap())
        {
            assert_eq!(series.on_time_percent.len(), 5);
            assert_eq!(summary["sent"].as_f64(), Some(sent));
            let on_time = series.on_time_percent.iter().zip(&replayed.sent_rps);
            let on_time: f64 = on_time.map(|(part, sent)| part * sent / 100.0).sum();
            let reported = summary["on_time"].as_f64().unwrap();
            assert!((on_time - reported).abs() < 1e-6, "{on_time} {reported}");
        }
        assert!(replayed.series[0].demand_rps.len() >= 4);
    }

    #[test]
    fn what_cannot_be_played_is_refused() {
        let long = "1\n".repeat(SECONDS_MAX + 1);
        for (trace_text, message) in [
            ("1\nmany\n", "trace: line 2: 'many' must be 0 to"),
            (long.as_str(), "3601 seconds; it must be at most 3600"),
            (
                &"100000\n".repeat(6),
                "requests; it must be at most 1000000 over",
            ),
        ] {
            let error = trace(&request(trace_text)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let error = scenario("name: 1").unwrap_err().to_string();
        assert!(!error.is_empty());
    }
}
