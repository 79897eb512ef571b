//! Triton's statistics extension: for each batch that was executed, number and time of its executions.
//!
//! All counters are cumulative since the server started, or since it loaded the model. With an earlier reading the
//! increase counts; a counter that fell was reset, and both readings are refused.

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
    /// Inferences, each of a batch on its own, without answers of the cache.
    #[serde(default)]
    inference_count: u64,
    /// Executions of the model, each of a batch.
    #[serde(default)]
    execution_count: u64,
    #[serde(default)]
    batch_stats: Vec<BatchStats>,
    inference_stats: InferenceStats,
}

#[derive(Deserialize)]
struct InferenceStats {
    queue: Duration,
    #[serde(default)]
    fail: Duration,
    #[serde(default)]
    cache_hit: Duration,
}

#[derive(Deserialize)]
struct BatchStats {
    batch_size: u32,
    compute_input: Duration,
    compute_infer: Duration,
    compute_output: Duration,
}

/// Number of events, and their time together.
#[derive(Default, Deserialize)]
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

    /// Increase since an earlier reading; `name` is for messages.
    fn since(&self, before: &Duration, name: &str) -> Result<Duration, ProfileError> {
        Ok(Duration {
            count: increase(&format!("{name}.count"), self.count, before.count)?,
            ns: increase(&format!("{name}.ns"), self.ns, before.ns)?,
        })
    }
}

impl BatchStats {
    fn since(&self, before: Option<&BatchStats>) -> Result<BatchStats, ProfileError> {
        let none = Duration::default();
        let of = |name: &str, now: &Duration, before: Option<&Duration>| {
            let name = format!("batch_stats of batch {}: {name}", self.batch_size);
            now.since(before.unwrap_or(&none), &name)
        };
        let (input, infer) = (&self.compute_input, &self.compute_infer);
        let output = &self.compute_output;
        Ok(BatchStats {
            batch_size: self.batch_size,
            compute_input: of("compute_input", input, before.map(|one| &one.compute_input))?,
            compute_infer: of("compute_infer", infer, before.map(|one| &one.compute_infer))?,
            compute_output: of(
                "compute_output",
                output,
                before.map(|one| &one.compute_output),
            )?,
        })
    }
}

impl ModelStats {
    /// Returns what was counted since an earlier reading.
    fn since(&self, before: &ModelStats) -> Result<ModelStats, ProfileError> {
        let batch = |all: &ModelStats, size: u32| {
            let mut sizes = all.batch_stats.iter();
            sizes.position(|one| one.batch_size == size)
        };
        for old in &before.batch_stats {
            if batch(self, old.batch_size).is_none() {
                let counter = format!("batch_stats of batch {}", old.batch_size);
                increase(&counter, 0, old.compute_infer.count.max(1))?;
            }
        }
        let (now, old) = (&self.inference_stats, &before.inference_stats);
        let batches = self.batch_stats.iter().map(|one| {
            let old = batch(before, one.batch_size);
            one.since(old.and_then(|at| before.batch_stats.get(at)))
        });
        Ok(ModelStats {
            name: self.name.clone(),
            version: self.version.clone(),
            inference_count: increase(
                "inference_count",
                self.inference_count,
                before.inference_count,
            )?,
            execution_count: increase(
                "execution_count",
                self.execution_count,
                before.execution_count,
            )?,
            inference_stats: InferenceStats {
                queue: now.queue.since(&old.queue, "inference_stats.queue")?,
                fail: now.fail.since(&old.fail, "inference_stats.fail")?,
                cache_hit: now
                    .cache_hit
                    .since(&old.cache_hit, "inference_stats.cache_hit")?,
            },
            batch_stats: batches.collect::<Result<_, _>>()?,
        })
    }

    /// Facts for people that the measurements do not show.
    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.execution_count > 0 {
            let (inferences, executions) = (self.inference_count, self.execution_count);
            let mean = inferences as f64 / executions as f64;
            notes.push(format!(
                "{inferences} inferences in {executions} executions: {mean:.2} in a batch"
            ));
        }
        let stats = &self.inference_stats;
        if stats.cache_hit.count > 0 {
            notes.push(format!(
                "{} answers came from the response cache; their times are left out",
                stats.cache_hit.count
            ));
        }
        if stats.fail.count > 0 {
            notes.push(format!("{} requests failed", stats.fail.count));
        }
        notes.push(format!(
            "times are from the start of an execution to its end; a request waited {:.2} ms before it",
            stats.queue.mean_ms()
        ));
        notes
    }
}

/// Increase of a counter between two readings.
fn increase(counter: &str, now: u64, before: u64) -> Result<u64, ProfileError> {
    now.checked_sub(before).ok_or_else(|| {
        ProfileError(format!(
            "{counter} fell from {before} to {now}; the later reading must be of the same run of the server and its \
             model: read both again, the earlier one first"
        ))
    })
}

fn models(text: &str) -> Result<Vec<(String, ModelStats)>, ProfileError> {
    let answer: Answer = serde_json::from_str(text).map_err(|error| {
        let right = "it must be the answer of /v2/models/NAME/stats";
        ProfileError(format!("{error}; {right}"))
    })?;
    let models = answer.model_stats.into_iter();
    Ok(models.map(|one| (one.name.clone(), one)).collect())
}

/// Returns what was counted of a model since the earlier reading.
fn since(name: &str, now: &ModelStats, earlier: &str) -> Result<ModelStats, ProfileError> {
    let before =
        models(earlier).map_err(|error| ProfileError(format!("the earlier reading: {error}")))?;
    let mut same = before
        .iter()
        .filter(|(of, one)| of == name && one.version == now.version);
    let Some((_, before)) = same.next() else {
        return Err(ProfileError(format!(
            "model {name}, version '{}': not in the earlier reading; it must be of the same server and model",
            now.version
        )));
    };
    now.since(before)
        .map_err(|error| ProfileError(format!("model {name}: {error}")))
}

pub(super) fn import(
    text: &str,
    earlier: Option<&str>,
    given: &Given,
) -> Result<Imported, ProfileError> {
    let models = models(text)?;
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
    let increase = earlier
        .map(|earlier| since(name, model, earlier))
        .transpose()?;
    let model = increase.as_ref().unwrap_or(model);
    let (mut measurements, mut notes) = (Vec::new(), Vec::new());
    let mut left_out = Vec::new();
    for batch in &model.batch_stats {
        let executions = batch.compute_infer.count;
        if executions == 0 {
            continue;
        }
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
    notes.extend(model.notes());
    Ok(Imported {
        measurements,
        parallelism: None,
        notes,
    })
}

#[cfg(test)]
mod tests;
