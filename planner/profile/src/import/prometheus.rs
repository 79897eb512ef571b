//! Metrics of model servers: MLServer's summary `model_infer_request_duration` in seconds, and TensorFlow Serving's
//! histogram `:tensorflow:serving:request_latency` in µs. Both are of requests and include the server's own queue.
//!
//! MLServer's summary counts failures as well, also those of models that it does not have, and tells their time not
//! apart. It lacks the time of REST or gRPC and of JSON.

use std::collections::BTreeMap;

use super::{EXECUTIONS_MIN, Given, Imported, only};
use crate::ProfileError;
use crate::exposition::{Sample, histograms, samples};
use crate::histogram::Histogram;
use crate::measurement::{Measurement, Percentile};

/// Server whose metrics are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// MLServer.
    Mlserver,
    /// TensorFlow Serving.
    TfServing,
}

/// Metrics of one reading.
struct Metrics {
    /// Times of requests, by model.
    times: BTreeMap<String, Histogram>,
    /// Times of all inference requests over REST (MLServer), whose summary has no percentiles.
    rest: Option<Histogram>,
    /// Requests that succeeded, by model; `None` where the source does not count them (TensorFlow Serving).
    successes: Option<BTreeMap<String, f64>>,
}

/// Value of a label; empty without it.
fn label<'a>(sample: &Sample<'a>, name: &str) -> &'a str {
    sample.label(name).unwrap_or_default()
}

impl Program {
    /// Unit of its times, in ms.
    fn unit_ms(self) -> f64 {
        match self {
            Program::Mlserver => 1e3,
            Program::TfServing => 1e-3,
        }
    }

    /// Fact about all of its times, for people.
    fn note(self) -> &'static str {
        match self {
            Program::Mlserver => {
                "times are of inference with the server's own queue and batch window, without the time of REST or gRPC \
                 and of JSON, so the server is slower than this (a small model to half the rate): weir profile --url or \
                 --from-proxy measures the whole"
            }
            Program::TfServing => {
                "times are of requests and include the server's own queue and batch window"
            }
        }
    }

    fn read(self, text: &str) -> Result<Metrics, ProfileError> {
        match self {
            Program::Mlserver => {
                const NAMES: [&str; 2] = [
                    "model_infer_request_duration",
                    "rest_server_request_duration_seconds",
                ];
                let samples = samples(text, &NAMES)?;
                // The library also exports the time of creation.
                let model = |sample: &Sample, base: &str| {
                    (base == NAMES[0]).then(|| label(sample, "model").to_owned())
                };
                let infer = |sample: &Sample, base: &str| {
                    let is_infer = label(sample, "path").ends_with("/infer")
                        && label(sample, "status_code").starts_with('2');
                    (base == NAMES[1] && is_infer).then_some(())
                };
                Ok(Metrics {
                    times: histograms(&samples, model)?,
                    rest: histograms(&samples, infer)?.remove(&()),
                    successes: successes(text)?,
                })
            }
            Program::TfServing => {
                let samples = samples(text, &[":tensorflow:serving:request_latency"])?;
                let model = |sample: &Sample, base: &str| {
                    (base == ":tensorflow:serving:request_latency")
                        .then(|| label(sample, "model_name").to_owned())
                };
                Ok(Metrics {
                    times: histograms(&samples, model)?,
                    rest: None,
                    successes: None,
                })
            }
        }
    }
}

/// Counts the requests that succeeded at MLServer, by model; `None` if it does not count them.
fn successes(text: &str) -> Result<Option<BTreeMap<String, f64>>, ProfileError> {
    const NAME: &str = "model_infer_request_success";
    if !text.contains(NAME) {
        return Ok(None);
    }
    let mut all = BTreeMap::new();
    for sample in samples(text, &[NAME])? {
        if sample.name == "model_infer_request_success_total" {
            *all.entry(label(&sample, "model").to_owned()).or_default() += sample.value;
        }
    }
    Ok(Some(all))
}

pub(super) fn import(
    program: Program,
    text: &str,
    earlier: Option<&str>,
    given: &Given,
) -> Result<Imported, ProfileError> {
    let now = program.read(text)?;
    let before = earlier.map(|text| program.read(text)).transpose()?;
    // A model without a success is one that somebody asked for, and that the server does not have.
    let has = |name: &String| match &now.successes {
        Some(all) => all.get(name).is_some_and(|count| *count > 0.0),
        None => true,
    };
    let models = now.times.into_iter().filter(|(name, _)| has(name));
    let models: Vec<(String, Histogram)> = models.collect();
    let thing = match program {
        Program::Mlserver => "model_infer_request_duration of a request that succeeded",
        Program::TfServing => ":tensorflow:serving:request_latency",
    };
    let (name, times) = only(&models, given, thing)?;
    let since = |now: &Histogram, before: Option<&Histogram>| match before {
        Some(before) => now.since(before),
        None => Ok(now.clone()),
    };
    let times = since(times, before.as_ref().and_then(|one| one.times.get(name)))?;
    let all = times.count();
    let of = |metrics: &Metrics| {
        metrics
            .successes
            .as_ref()
            .and_then(|all| all.get(name).copied())
    };
    let earlier = before.as_ref().and_then(of).unwrap_or_default();
    let succeeded = now.successes.as_ref().and_then(|all| all.get(name));
    // Both are counted at different moments, so one may be ahead.
    let executions = succeeded.map_or(all, |now| (now - earlier).clamp(0.0, all));
    let failed = all - executions;
    let too_few = || {
        let failed = match failed > 0.0 {
            true => format!(", and {failed} failed ones"),
            false => String::new(),
        };
        ProfileError(format!(
            "model {name}: {executions} requests{failed}; it must be {EXECUTIONS_MIN} or more"
        ))
    };
    if executions < EXECUTIONS_MIN as f64 {
        return Err(too_few());
    }
    if failed > executions {
        return Err(ProfileError(format!(
            "model {name}: {failed} of {all} requests failed; it must be half of them or less: their time is not told apart"
        )));
    }
    let mut notes = vec![program.note().to_owned()];
    let mut mean_ms = times.mean().ok_or_else(too_few)? * program.unit_ms();
    if failed > 0.0 {
        // As if failures took no time: mostly they take little.
        mean_ms *= all / executions;
        notes.push(format!(
            "{failed} of {all} requests failed ({:.1} %): their time is in the mean of the others, which may be too long",
            100.0 * failed / all
        ));
    }
    // The REST histogram names no model.
    let rest = match (&now.rest, models.len()) {
        (Some(rest), 1) => {
            let before = before.as_ref().and_then(|one| one.rest.as_ref());
            Some(since(rest, before)?)
        }
        _ => None,
    };
    let at = |percentile: Percentile| {
        let of = rest.as_ref().unwrap_or(&times);
        let enough = of.count() >= percentile.executions_min() as f64;
        let found = of.quantile(f64::from(percentile.percent()) / 100.0);
        // As a ratio to its own mean: the REST server's part is in the percentile, and not in the model's mean.
        let found = found
            .zip(of.mean())
            .filter(|(_, mean)| enough && *mean > 0.0);
        found.map(|(found, mean)| mean_ms * found.value / mean)
    };
    let [p80_ms, p95_ms, p99_ms] = Percentile::ALL.map(at);
    if p80_ms.is_none() {
        notes.push("no percentiles are known".to_owned());
    }
    Ok(Imported {
        measurements: vec![Measurement {
            cores: given.cores,
            batch: given.batch,
            mean_ms: Some(mean_ms),
            half_width_percent: times.half_width_percent(),
            p80_ms,
            p95_ms,
            p99_ms,
            executions: Some(executions as u64),
            ..Measurement::default()
        }],
        parallelism: None,
        notes,
    })
}

#[cfg(test)]
mod tests;
