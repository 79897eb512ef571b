//! Models fitted to measurements: the latency model by cross-validation among all kinds, the tail, and the line of
//! throughput over cores. Pure.

use std::collections::BTreeMap;

use weir_planner::spec::RawRange;
use weir_solve::latency_model::fit::{self, Candidate, Fit, Form, choose};
use weir_solve::latency_model::{
    Cell, LatencyModel, Line, NOISE_PERCENT_MAX, Parallelism, Point as Rate,
};

use crate::ProfileError;
use crate::measurement::{Measurement, Percentile, range};

/// Weight below which a point is reported as an outlier.
const OUTLIER: f64 = 0.5;
/// Mean error of cross-validation, in percent, above which a fit is reported as poor.
const POOR_PERCENT: f64 = 15.0;
/// Maximum `tail` that a profile may have.
pub const TAIL_MAX: f64 = 100.0;

/// Latency models of every kind, and the one that a profile takes.
#[derive(Debug, Clone, PartialEq)]
pub struct LatencyFit {
    /// Every kind that the points determine, or the reason why they do not.
    pub candidates: Vec<(Form, Result<Candidate, String>)>,
    /// The kind that predicts left-out points best among those that the planner takes.
    pub chosen: Candidate,
    /// The same as Sponge's coefficients.
    pub model: LatencyModel,
    /// Facts that reduce its value, for people.
    pub notes: Vec<String>,
}

/// Models of measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Measurements, those of equal cores and batch joined.
    pub measurements: Vec<Measurement>,
    /// Latency; `None` if only throughput was measured.
    pub latency: Option<LatencyFit>,
    /// Batches executed at once.
    pub parallelism: Parallelism,
    /// Percentile over the mean.
    pub tail: f64,
    /// Throughput by cores, of the smallest batch; `None` if it was not measured.
    pub capacity: Option<Fit<Line>>,
    /// Cores and batches that were measured.
    pub range: RawRange,
    /// Facts that reduce the value of the models, for people.
    pub notes: Vec<String>,
}

/// Facts that measurements do not have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Assumed {
    /// Batches executed at once.
    pub parallelism: Parallelism,
    /// Percentile that `tail` is of.
    pub percentile: Percentile,
    /// `tail` itself, where it is known.
    pub tail: Option<f64>,
}

/// Fits models of every kind to cells and chooses one.
///
/// # Errors
/// No cells, or invalid ones.
pub fn latency(cells: &[Cell]) -> Result<LatencyFit, ProfileError> {
    let candidate = |form: Form| {
        (
            form,
            form.candidate(cells).map_err(|error| error.to_string()),
        )
    };
    let candidates: Vec<_> = Form::ALL.into_iter().map(candidate).collect();
    let fitted = || candidates.iter().filter_map(|(_, one)| one.as_ref().ok());
    let planned = fitted().filter(|one| one.latency.as_sponge().is_some());
    let chosen = choose(planned).and_then(|one| Some((one.clone(), one.latency.as_sponge()?)));
    let Some((chosen, model)) = chosen else {
        let why = candidates.first().and_then(|(_, one)| one.as_ref().err());
        let why = why.map_or("", String::as_str);
        return Err(ProfileError(format!("the fit: {why}")));
    };
    let mut notes = Vec::new();
    for (cell, weight) in cells.iter().zip(&chosen.weights) {
        if *weight < OUTLIER {
            notes.push(format!(
                "batch {} on {} cores, {:.4} ms, fits the other points badly: it counts with {:.0} % in the fit",
                cell.batch,
                cell.cores,
                cell.latency_ms,
                100.0 * weight
            ));
        }
    }
    if let Some((_, Err(why))) = candidates.iter().find(|(form, _)| *form == Form::Table)
        && cells.len() > 1
    {
        notes.push(format!("the points contradict each other: {why}"));
    }
    match &chosen.left_out {
        None => notes.push(format!(
            "too few points to leave one out ({}), so the error beyond them is unknown",
            cells.len()
        )),
        Some(left_out) if left_out.mean_percent > POOR_PERCENT => notes.push(format!(
            "a poor fit: left-out points are predicted within {:.1} % on average, {:.1} % at most; measure more points",
            left_out.mean_percent, left_out.max_percent
        )),
        Some(left_out) => {
            let better = fitted().filter_map(|one| Some((one, one.left_out.as_ref()?.mean_percent)));
            let better = better.min_by(|a, b| a.1.total_cmp(&b.1));
            if let Some((other, percent)) = better.filter(|(_, p)| 2.0 * p < left_out.mean_percent)
            {
                notes.push(format!(
                    "model {} predicts left-out points within {percent:.1} % on average, but the planner has only Sponge's",
                    other.form.name()
                ));
            }
        }
    }
    Ok(LatencyFit {
        candidates,
        chosen,
        model,
        notes,
    })
}

impl Fitted {
    /// Fits all models to measurements.
    ///
    /// # Errors
    /// No measurements, those of equal cores and batch that contradict each other, or throughput that falls with the
    /// cores.
    pub fn new(measurements: &[Measurement], assumed: Assumed) -> Result<Fitted, ProfileError> {
        let measurements = joined(measurements)?;
        let each = measurements.iter().map(|one| (one.cores, one.batch));
        let range = range(each).ok_or_else(|| ProfileError("no measurement".to_owned()))?;
        let mut notes = Vec::new();
        let cell = |one: &Measurement| {
            Some(Cell {
                batch: one.batch,
                cores: assumed.parallelism.cores_each(one.cores),
                latency_ms: one.mean_ms?,
            })
        };
        let cells: Vec<Cell> = measurements.iter().filter_map(cell).collect();
        let latency = match cells.is_empty() {
            true => None,
            false => Some(latency(&cells)?),
        };
        if latency.is_none() {
            notes.push(
                "no latency was measured: the planner takes this profile when it has a `latency`"
                    .to_owned(),
            );
        }
        notes.extend(latency.iter().flat_map(|one| one.notes.iter().cloned()));
        let tail = tail(&measurements, assumed);
        if tail.is_none() && latency.is_some() {
            notes.push(format!(
                "the {}th percentile is unknown, so tail is 1: --tail may give it",
                assumed.percentile.percent()
            ));
        }
        if range.cores.min == range.cores.max {
            notes.push(format!(
                "measured on {} cores alone: a variant with others needs extrapolate: true",
                range.cores.min
            ));
        }
        Ok(Fitted {
            latency,
            parallelism: assumed.parallelism,
            tail: tail.unwrap_or(1.0),
            capacity: capacity(&measurements)?,
            range,
            notes,
            measurements,
        })
    }
}

/// Joins measurements of equal cores and batch by the medians of their values.
fn joined(all: &[Measurement]) -> Result<Vec<Measurement>, ProfileError> {
    let mut groups: BTreeMap<(u64, u32), Vec<&Measurement>> = BTreeMap::new();
    for one in all {
        groups
            .entry((one.cores.to_bits(), one.batch))
            .or_default()
            .push(one);
    }
    let join = |group: Vec<&Measurement>| {
        let [first, _, ..] = group.as_slice() else {
            return Ok(group.first().map(|one| **one).unwrap_or_default());
        };
        for (name, unit, of) in [
            (
                "mean_ms",
                "ms",
                (|one| one.mean_ms) as fn(&Measurement) -> Option<f64>,
            ),
            ("rps", "requests/s", |one| one.rps),
        ] {
            let values = || group.iter().filter_map(|one| of(one));
            let (min, max) = (
                values().fold(f64::INFINITY, f64::min),
                values().fold(0.0, f64::max),
            );
            if max > min * (1.0 + NOISE_PERCENT_MAX / 100.0) {
                let (batch, cores) = (first.batch, first.cores);
                return Err(ProfileError(format!(
                    "batch {batch} on {cores} cores, {name}: {min} and {max} {unit} contradict each other; they must \
                     be within {NOISE_PERCENT_MAX} %: leave the wrong one out"
                )));
            }
        }
        let middle = |of: fn(&Measurement) -> Option<f64>| {
            let mut values: Vec<f64> = group.iter().filter_map(|one| of(one)).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        };
        let executions = group.iter().filter_map(|one| one.executions);
        Ok(Measurement {
            mean_ms: middle(|one| one.mean_ms),
            half_width_percent: middle(|one| one.half_width_percent),
            p80_ms: middle(|one| one.p80_ms),
            p95_ms: middle(|one| one.p95_ms),
            p99_ms: middle(|one| one.p99_ms),
            rps: middle(|one| one.rps),
            executions: executions.reduce(|a, b| a + b),
            ..**first
        })
    };
    groups.into_values().map(join).collect()
}

/// Measurements of the smallest batch: larger ones may have waited for each other.
fn smallest(all: &[Measurement]) -> impl Iterator<Item = &Measurement> {
    let batch = all.iter().map(|one| one.batch).min();
    all.iter().filter(move |one| Some(one.batch) == batch)
}

/// Percentile over the mean: the median ratio of the measurements that have both.
fn tail(all: &[Measurement], assumed: Assumed) -> Option<f64> {
    if assumed.tail.is_some() {
        return assumed.tail;
    }
    let ratio = |one: &Measurement| Some(one.at(assumed.percentile)? / one.mean_ms?);
    let mut ratios: Vec<f64> = smallest(all).filter_map(ratio).collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2)?;
    Some(middle.clamp(1.0, TAIL_MAX))
}

/// Fits the line of throughput over cores; through the origin with one number of cores.
fn capacity(all: &[Measurement]) -> Result<Option<Fit<Line>>, ProfileError> {
    let batch = all
        .iter()
        .filter(|one| one.rps.is_some())
        .map(|one| one.batch)
        .min();
    let of_batch = all.iter().filter(|one| Some(one.batch) == batch);
    let rates = of_batch.filter_map(|one| {
        Some(Rate {
            cores: one.cores,
            rps: one.rps?,
        })
    });
    let rates: Vec<Rate> = rates.collect();
    match rates.as_slice() {
        [] => Ok(None),
        [only] => Ok(Some(Fit {
            model: Line {
                slope_rps: only.rps / only.cores,
                intercept_rps: 0.0,
            },
            r_squared: 1.0,
            rmse: 0.0,
        })),
        rates => {
            let refused = |error| ProfileError(format!("the capacity: {error}"));
            fit::line(rates).map(Some).map_err(refused)
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
