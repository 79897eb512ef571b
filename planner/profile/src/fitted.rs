//! Models fitted to measurements: the latency model by cross-validation among all kinds, the tail, and the line of
//! throughput over cores. Pure.

use std::collections::BTreeMap;

use weir_planner::spec::RawRange;
use weir_solve::latency_model::fit::{self, Candidate, Form, choose};
use weir_solve::latency_model::{
    Cell, LatencyModel, Line, NOISE_PERCENT_MAX, Parallelism, Point as Rate,
};

use crate::ProfileError;
use crate::measurement::{Measurement, Percentile, range};

/// Weight below which a point is reported as an outlier.
const OUTLIER: f64 = 0.5;
/// Mean error of cross-validation, in percent, above which a fit is reported as poor.
const POOR_PERCENT: f64 = 15.0;
/// Median error of the fit, in percent, above which the points contradict each other: no model is near half of them.
const CONTRADICTORY_PERCENT: f64 = 50.0;
/// Largest distance of a throughput to the mean, in percent, at which one that falls with the cores counts as constant.
const FLAT_PERCENT: f64 = 10.0;
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

/// Line of throughput over cores, with its errors.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityFit {
    /// The line: through the origin with one number of cores, constant where throughput falls within the noise.
    pub line: Line,
    /// Part of the throughputs' variance that the line explains; `None` with no more points than coefficients, which any
    /// line meets.
    pub r_squared: Option<f64>,
    /// Predicted over measured throughput of each point, in percent above or below.
    pub residuals_percent: Vec<f64>,
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
    pub capacity: Option<CapacityFit>,
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
    latency_of(cells, &Form::ALL)
}

/// Fits models of every kind and chooses one among `forms`, if the cells determine any of them.
///
/// # Errors
/// As [`latency`].
pub fn latency_of(cells: &[Cell], forms: &[Form]) -> Result<LatencyFit, ProfileError> {
    let candidate = |form: Form| {
        (
            form,
            form.candidate(cells).map_err(|error| error.to_string()),
        )
    };
    let candidates: Vec<_> = Form::ALL.into_iter().map(candidate).collect();
    let fitted = || candidates.iter().filter_map(|(_, one)| one.as_ref().ok());
    let planned = fitted().filter(|one| one.latency.as_sponge().is_some());
    let (first, others): (Vec<&Candidate>, Vec<&Candidate>) =
        planned.partition(|one| forms.contains(&one.form));
    let planned = if first.is_empty() { others } else { first };
    let chosen =
        choose(planned.into_iter()).and_then(|one| Some((one.clone(), one.latency.as_sponge()?)));
    let Some((chosen, model)) = chosen else {
        let why = candidates.first().and_then(|(_, one)| one.as_ref().err());
        let why = why.map_or("", String::as_str);
        return Err(ProfileError(format!("the fit: {why}")));
    };
    let mut notes = Vec::new();
    for (cell, weight) in cells.iter().zip(&chosen.weights) {
        if *weight < OUTLIER {
            notes.push(format!(
                "an execution of batch {} on {} cores, {:.4} ms, fits the other points badly: it counts with {:.0} % in the fit",
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

impl LatencyFit {
    /// Refuses points that no model is near to: a number fitted to them would be a guess.
    ///
    /// # Errors
    /// A median error above [`CONTRADICTORY_PERCENT`].
    pub fn consistent(self) -> Result<LatencyFit, ProfileError> {
        let errors = self.chosen.residuals_percent.iter().map(|one| one.abs());
        let mut errors: Vec<f64> = errors.collect();
        errors.sort_by(f64::total_cmp);
        let median = errors.get(errors.len() / 2).copied().unwrap_or_default();
        if median <= CONTRADICTORY_PERCENT {
            return Ok(self);
        }
        Err(ProfileError(format!(
            "the points contradict each other: the best latency model misses half of the {} points by {median:.0} % or \
             more; it must be {CONTRADICTORY_PERCENT} % or less: measure again, or leave the wrong points out",
            errors.len()
        )))
    }
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
            false => Some(latency(&cells)?.consistent()?),
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
fn capacity(all: &[Measurement]) -> Result<Option<CapacityFit>, ProfileError> {
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
    (!rates.is_empty()).then(|| line(&rates)).transpose()
}

/// Fits the line of throughput over cores: through the origin with one number of cores, and constant where it falls within
/// the noise of measurements.
///
/// # Errors
/// Throughput that falls by more, or invalid rates.
pub(crate) fn line(rates: &[Rate]) -> Result<CapacityFit, ProfileError> {
    let fitted = |line: Line, r_squared: Option<f64>| {
        let predicted = |one: &Rate| line.slope_rps * one.cores + line.intercept_rps;
        let errors = rates.iter().map(|one| predicted(one) / one.rps - 1.0);
        CapacityFit {
            line,
            r_squared,
            residuals_percent: errors.map(|error| 100.0 * error).collect(),
        }
    };
    if let [only] = rates {
        let through_origin = Line {
            slope_rps: only.rps / only.cores,
            intercept_rps: 0.0,
        };
        return Ok(fitted(through_origin, None));
    }
    let count = rates.len() as f64;
    let mean = |of: fn(&Rate) -> f64| rates.iter().map(of).sum::<f64>() / count;
    let (cores, rps) = (mean(|one| one.cores), mean(|one| one.rps));
    let together = rates
        .iter()
        .map(|one| (one.cores - cores) * (one.rps - rps));
    if together.sum::<f64>() >= 0.0 {
        let refused = |error| ProfileError(format!("the capacity: {error}"));
        let fit = fit::line(rates).map_err(refused)?;
        return Ok(fitted(
            fit.model,
            (rates.len() > 2).then_some(fit.r_squared),
        ));
    }
    let errors = || rates.iter().map(|one| one.rps - rps);
    if errors().any(|error| error.abs() > FLAT_PERCENT / 100.0 * rps) {
        let by_cores = |a: &&Rate, b: &&Rate| a.cores.total_cmp(&b.cores);
        let ends = rates.iter().min_by(by_cores);
        let ends = ends.zip(rates.iter().max_by(by_cores));
        let falls = ends.map_or_else(String::new, |(a, b)| {
            format!(
                ", {:.1} requests/s on {} cores and {:.1} on {}",
                a.rps, a.cores, b.rps, b.cores
            )
        });
        return Err(ProfileError(format!(
            "the capacity: it falls with the cores{falls}; it must be within {FLAT_PERCENT} % of its mean, or grow: measure \
             again, or leave out the cores that slow the server"
        )));
    }
    let constant = Line {
        slope_rps: 0.0,
        intercept_rps: rps,
    };
    Ok(fitted(constant, Some(0.0)))
}

#[cfg(test)]
pub(crate) mod tests;
