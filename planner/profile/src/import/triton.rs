//! Triton's statistics extension: for each batch that was executed, number and time of its executions.

use serde::Deserialize;

use super::{EXECUTIONS_MIN, Given, Imported, only};
use crate::ProfileError;
use crate::measurement::Measurement;

/// Nanoseconds of a millisecond.
const NS: f64 = 1e6;

#[derive(Deserialize)]
struct Answer {
    model_stats: Vec<ModelStats>,
}

#[derive(Deserialize)]
struct ModelStats {
    name: String,
    #[serde(default)]
    version: String,
    #[serde(default)]
    batch_stats: Vec<BatchStats>,
    inference_stats: InferenceStats,
}

#[derive(Deserialize)]
struct InferenceStats {
    queue: Duration,
}

#[derive(Deserialize)]
struct BatchStats {
    batch_size: u32,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
}

/// Number of events, and their time together.
#[derive(Deserialize)]
struct Duration {
    count: u64,
    ns: u64,
}

impl Duration {
    fn mean_ms(&self) -> f64 {
        match self.count {
            0 => 0.0,
            count => self.ns as f64 / count as f64 / NS,
        }
    }
}

pub(super) fn import(text: &str, given: &Given) -> Result<Imported, ProfileError> {
    let answer: Answer = serde_json::from_str(text).map_err(|error| {
        let right = "it must be the answer of /v2/models/NAME/stats";
        ProfileError(format!("{error}; {right}"))
    })?;
    let models = answer.model_stats.into_iter();
    let models: Vec<(String, ModelStats)> = models.map(|one| (one.name.clone(), one)).collect();
    if let Some(model) = &given.model {
        let versions = models.iter().filter(|(name, _)| name == model);
        let versions: Vec<&str> = versions.map(|(_, one)| one.version.as_str()).collect();
        if versions.len() > 1 {
            return Err(ProfileError(format!(
                "--model {model}: versions {}; it must be one: read /v2/models/{model}/versions/VERSION/stats",
                versions.join(", ")
            )));
        }
    }
    let (name, model) = only(&models, given, "model_stats")?;
    let (mut measurements, mut notes) = (Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    for batch in &model.batch_stats {
        let executions = batch.compute_infer.count;
        if executions < EXECUTIONS_MIN {
            left_out.push(format!("batch {} with {executions}", batch.batch_size));
            continue;
        }
        let parts = [
            &batch.compute_input,
            &batch.compute_infer,
            &batch.compute_output,
        ];
        measurements.push(Measurement {
            cores: given.cores,
            batch: batch.batch_size,
            mean_ms: Some(parts.map(Duration::mean_ms).iter().sum()),
            executions: Some(executions),
            ..Measurement::default()
        });
    }
    if measurements.is_empty() {
        let found = match left_out.is_empty() {
            true => "no executions".to_owned(),
            false => format!("too few executions: {}", left_out.join(", ")),
        };
        return Err(ProfileError(format!(
            "model {name}: {found}; it must be {EXECUTIONS_MIN} or more of a batch"
        )));
    }
    if !left_out.is_empty() {
        notes.push(format!(
            "left out, as fewer than {EXECUTIONS_MIN} executions: {}",
            left_out.join(", ")
        ));
    }
    let queue_ms = model.inference_stats.queue.mean_ms();
    notes.push(format!(
        "times are from the start of an execution to its end; a request waited {queue_ms:.2} ms before it"
    ));
    Ok(Imported {
        measurements,
        parallelism: None,
        notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answer in the form of Triton's statistics extension.
    const ANSWER: &str = r#"{"model_stats": [{"name": "digits", "version": "1", "last_inference": 1700000000000,
        "inference_count": 4100, "execution_count": 1105,
        "inference_stats": {
            "success": {"count": 4100, "ns": 90000000000}, "fail": {"count": 0, "ns": 0},
            "queue": {"count": 4100, "ns": 8200000000},
            "compute_input": {"count": 4100, "ns": 100000000}, "compute_infer": {"count": 4100, "ns": 80000000000},
            "compute_output": {"count": 4100, "ns": 100000000},
            "cache_hit": {"count": 0, "ns": 0}, "cache_miss": {"count": 0, "ns": 0}},
        "response_stats": {},
        "batch_stats": [
            {"batch_size": 1, "compute_input": {"count": 100, "ns": 50000000},
             "compute_infer": {"count": 100, "ns": 900000000}, "compute_output": {"count": 100, "ns": 50000000}},
            {"batch_size": 2, "compute_input": {"count": 5, "ns": 1}, "compute_infer": {"count": 5, "ns": 1},
             "compute_output": {"count": 5, "ns": 1}},
            {"batch_size": 4, "compute_input": {"count": 1000, "ns": 1000000000},
             "compute_infer": {"count": 1000, "ns": 28000000000}, "compute_output": {"count": 1000, "ns": 1000000000}}],
        "memory_usage": []}]}"#;

    fn given(model: Option<&str>) -> Given {
        Given {
            cores: 4.0,
            batch: 1,
            model: model.map(str::to_owned),
            ..Given::default()
        }
    }

    #[test]
    fn each_batch_with_enough_executions_is_a_measurement() {
        for model in [None, Some("digits")] {
            let found = import(ANSWER, &given(model)).unwrap();
            let measured: Vec<_> = found
                .measurements
                .iter()
                .map(|one| {
                    (
                        one.cores,
                        one.batch,
                        one.mean_ms.unwrap(),
                        one.executions.unwrap(),
                    )
                })
                .collect();
            assert_eq!(measured, [(4.0, 1, 10.0, 100), (4.0, 4, 30.0, 1000)]);
            let notes = found.notes.join("\n");
            assert!(
                notes.contains("batch 2 with 5") && notes.contains("waited 2.00 ms"),
                "{notes}"
            );
        }
    }

    #[test]
    fn wrong_answers_are_refused() {
        let empty = r#"{"model_stats": []}"#.to_owned();
        let idle = ANSWER
            .replace("\"count\": 1000", "\"count\": 3")
            .replace("\"count\": 100,", "\"count\": 3,");
        let twice = ANSWER.replacen(
            "[{\"name\"",
            &format!("[{},{{\"name\"", {
                let one = ANSWER.strip_prefix("{\"model_stats\": [").unwrap();
                one.strip_suffix("]}").unwrap()
            }),
            1,
        );
        let cut = ANSWER[..ANSWER.len() / 2].to_owned();
        for (text, model, expected) in [
            (empty, None, "no model_stats; is it the right --format?"),
            (
                idle,
                None,
                "model digits: too few executions: batch 1 with 3, batch 2 with 5, batch 4 with 3; it must be 30",
            ),
            (
                twice.clone(),
                None,
                "2 models; --model must name one of: digits, digits",
            ),
            (
                twice,
                Some("digits"),
                "--model digits: versions 1, 1; it must be one",
            ),
            (
                ANSWER.to_owned(),
                Some("x"),
                "--model x: no such model; it must be one of: digits",
            ),
            (
                "<html>".to_owned(),
                None,
                "expected value at line 1 column 1; it must be the answer of",
            ),
            (cut, None, "EOF while parsing"),
        ] {
            let error = import(&text, &given(model)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{expected}\n{error}");
        }
    }
}
