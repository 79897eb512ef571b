//! Resolution of profile references: each is replaced by the latency model and the capacity that it
//! contains, or by those fitted to its measurements. Pure; the caller passes the function that reads.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::raw::{
    RawCapacity, RawCpu, RawDuration, RawLatency, RawMeasured, RawProfile, RawRange, RawReference,
    RawVariant, ServiceSpec, from_yaml,
};
use super::renamed::renamed;
use super::{ServiceFile, line_of, split_position};
use crate::service::ConfigError;
use crate::service::rule::{refusal, rule};
use crate::solve::InputError;
use crate::solve::latency_model::{Cell, Point, fit};

/// Maximum size of a profile, in bytes.
pub const PROFILE_BYTES_MAX: usize = 64 * 1024;
/// Minimum R² of a fit. Measurements that fit worse do not come from such a server.
pub const R_SQUARED_MIN: f64 = 0.8;
/// Path of a whole profile in errors.
const WHOLE: &str = "profile";

impl ServiceSpec {
    /// Returns the variants' profile references, with their paths.
    pub fn references(&self) -> Vec<(String, &RawReference)> {
        let own = self.variants.iter().flatten().enumerate();
        let own = own.map(|(index, variant)| (format!("variants[{index}]"), variant));
        let stages = self.stages.iter().flatten().enumerate();
        let of_stages = stages.flat_map(|(stage, raw)| {
            let variants = raw.variants.iter().enumerate();
            variants.map(move |(index, variant)| {
                (format!("stages[{stage}].variants[{index}]"), variant)
            })
        });
        let each = own.chain(of_stages);
        each.filter_map(|(at, variant)| Some((format!("{at}.profile"), variant.profile.as_ref()?)))
            .collect()
    }

    /// Replaces each reference by the profile that `read` returns for it.
    ///
    /// # Errors
    /// Fails if `read` does, if the text is no valid profile, or if the measurements fit no model.
    pub fn resolve(
        &mut self,
        read: impl Fn(&str, &RawReference) -> Result<String, ConfigError>,
    ) -> Result<(), ConfigError> {
        let budget = self.sizes();
        let sizes = (budget.step, budget.cores);
        let own = self.variants.iter_mut().flatten().enumerate();
        for (index, variant) in own {
            resolve(&format!("variants[{index}]"), variant, sizes, &read)?;
        }
        for (stage, raw) in self.stages.iter_mut().flatten().enumerate() {
            for (index, variant) in raw.variants.iter_mut().enumerate() {
                let at = format!("stages[{stage}].variants[{index}]");
                resolve(&at, variant, sizes, &read)?;
            }
        }
        Ok(())
    }

    /// Parses a service file, and the profiles and the model beside it.
    ///
    /// # Errors
    /// See [`ServiceFile::from_yaml`]; also fails if a profile or the model cannot be read or is not valid.
    pub fn from_file(path: &Path, text: &str) -> Result<ServiceSpec, ConfigError> {
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut spec = ServiceFile::parse(text)?;
        spec.resolve(|at, reference| {
            let right = "left out: it is for a resource of Kubernetes, a file has profile.file";
            let map = reference.config_map.as_deref();
            rule(
                map.is_none(),
                format!("{at}.configMap"),
                map.unwrap_or_default(),
                right,
            )?;
            let right = "the path of a profile, relative to the service file";
            let at = format!("{at}.file");
            let file = reference.file.as_deref();
            let file = file.ok_or_else(|| refusal(&at, "missing", right))?;
            let mut text = String::new();
            let most = PROFILE_BYTES_MAX as u64 + 1;
            let opened = File::open(folder.join(file));
            let read = opened.and_then(|opened| opened.take(most).read_to_string(&mut text));
            read.map_err(|error| refusal(&at, format!("{file} ({error})"), right))?;
            Ok(text)
        })?;
        spec.demand.read_model(folder)?;
        Ok(spec)
    }
}

fn resolve(
    at: &str,
    variant: &mut RawVariant,
    sizes: (RawCpu, RawCpu),
    read: &impl Fn(&str, &RawReference) -> Result<String, ConfigError>,
) -> Result<(), ConfigError> {
    let Some(reference) = variant.profile.as_mut().filter(|one| !one.read) else {
        return Ok(());
    };
    for (key, given) in [
        ("latency", variant.latency.is_some()),
        ("capacity", variant.capacity.is_some()),
    ] {
        let right = "left out: it is the profile's";
        rule(!given, format!("{at}.{key}"), "given", right)?;
    }
    let extrapolate = reference.extrapolate;
    let (of_variant, at) = (at, format!("{at}.profile"));
    let text = read(&at, reference)?;
    reference.read = true;
    let found = profile(&text).and_then(|profile| Ok((models_of(&profile)?, profile)));
    let found = found.map_err(|error| in_profile(&at, &reference.label(), &text, error));
    let ((latency, capacity), profile) = found?;
    reference.batch = profile.batch;
    if let Some(range) = profile.range.filter(|_| !extrapolate) {
        within_range(of_variant, variant, sizes, &range)?;
    }
    variant.latency = Some(latency);
    variant.capacity = capacity;
    variant.accuracy = variant.accuracy.or(profile.accuracy);
    if let Some(readiness) = profile.readiness {
        variant.readiness = readiness;
    }
    if let Some(delay) = profile
        .batch_delay
        .filter(|_| variant.batch_delay == RawDuration::default())
    {
        variant.batch_delay = delay;
    }
    Ok(())
}

/// Refuses cores or a batch that the profile was not measured on. Zero cores need no profile; `sizes` are the smallest
/// others and the budget.
fn within_range(
    at: &str,
    variant: &RawVariant,
    (step, budget): (RawCpu, RawCpu),
    range: &RawRange,
) -> Result<(), ConfigError> {
    let RawRange { cores, batch } = range;
    let more = format!("unless {at}.profile.extrapolate is true");
    let right = format!(
        "{} to {}, the cores that the profile was measured on, {more}",
        cores.min, cores.max
    );
    let sizes = variant.sizes();
    for (key, value) in [
        ("min", sizes.min.0.max(step.0)),
        ("initial", sizes.initial.0.max(step.0)),
        ("max", sizes.max.unwrap_or(budget).0),
    ] {
        let fits = (cores.min..=cores.max).contains(&value.as_f64());
        rule(fits, format!("{at}.cores.{key}"), value, &right)?;
    }
    let right = format!(
        "{} to {}, the batches that the profile was measured with, {more}",
        batch.min, batch.max
    );
    let largest = variant.batch_max();
    let fits = (batch.min..=batch.max).contains(&largest);
    rule(fits, format!("{at}.batch"), largest, &right)
}

/// The error of a profile at the path of its reference; the message names file, line and field.
fn in_profile(at: &str, label: &str, text: &str, error: ConfigError) -> ConfigError {
    let (path, message) = match error {
        ConfigError::Form { path, message } => (path, message),
        ConfigError::Value { path, value, right } => (path, format!("{value}; it must be {right}")),
        ConfigError::TooLarge(_) => return error,
    };
    let (message, line) = split_position(&message);
    // Of several paths the first counts.
    let first = path.split(", ").next().unwrap_or_default();
    let line = line.or_else(|| line_of(text, first));
    let line = line.map_or_else(String::new, |line| format!(", line {line}"));
    // A path that the parser cannot name is `?`.
    let path = match path.trim_end_matches(['.', '?']) {
        WHOLE | "" => String::new(),
        path => format!("{path}: "),
    };
    ConfigError::Form {
        path: at.to_owned(),
        message: format!("{label}{line}: {path}{message}"),
    }
}

/// Checks the form and the fits of a profile alone, without the ranges of a variant's values.
///
/// # Errors
/// The first thing that is wrong, with the path in the profile.
pub fn check_profile(text: &str) -> Result<(), ConfigError> {
    profile(text)
        .and_then(|profile| models_of(&profile))
        .map(drop)
}

fn profile(text: &str) -> Result<RawProfile, ConfigError> {
    let right = format!("at most {PROFILE_BYTES_MAX} bytes");
    let fits = text.len() <= PROFILE_BYTES_MAX;
    rule(fits, WHOLE, format!("{} bytes", text.len()), &right)?;
    let profile: RawProfile = from_yaml(text, WHOLE).map_err(renamed)?;
    if let Some(RawRange { cores, batch }) = &profile.range {
        let right = "numbers with min at most max";
        let value = format!("{} to {}", cores.min, cores.max);
        rule(cores.min <= cores.max, "range.cores", value, right)?;
        let value = format!("{} to {}", batch.min, batch.max);
        rule(batch.min <= batch.max, "range.batch", value, right)?;
    }
    Ok(profile)
}

fn models_of(raw: &RawProfile) -> Result<(RawLatency, Option<RawCapacity>), ConfigError> {
    let measured = raw.measured.as_ref();
    let latencies = measured.filter(|measured| !measured.latencies.is_empty());
    let right = "exactly one of the two: latency (a model) or measured.latencies; weir profile --resume ends an interrupted \
                 measurement";
    let latency = match (raw.latency, latencies) {
        (Some(model), None) => model,
        (None, Some(measured)) => fit_latency(measured)?,
        (None, None) => {
            return Err(refusal(
                "latency, measured.latencies",
                "both missing",
                right,
            ));
        }
        (Some(_), Some(_)) => {
            return Err(refusal("latency, measured.latencies", "both given", right));
        }
    };
    let rates = measured.filter(|measured| !measured.rates.is_empty());
    let right = "at most one of the two: capacity (a line) or measured.rates";
    let capacity = match (raw.capacity, rates) {
        (capacity, None) => capacity,
        (None, Some(measured)) => Some(fit_capacity(measured)?),
        (Some(_), Some(_)) => return Err(refusal("capacity, measured.rates", "both given", right)),
    };
    Ok((latency, capacity))
}

/// Fits Sponge's latency model (Eq. 2) by least squares.
fn fit_latency(measured: &RawMeasured) -> Result<RawLatency, ConfigError> {
    let cells = measured.latencies.iter().map(|cell| Cell {
        batch: cell.batch,
        cores: cell.cores,
        latency_ms: cell.ms,
    });
    let cells: Vec<Cell> = cells.collect();
    let found = fit::sponge(&cells).map_err(|error| fit_error("measured.latencies", &error))?;
    check_fit("measured.latencies", found.r_squared)?;
    Ok(RawLatency::new(
        &found.model,
        measured.parallelism,
        measured.tail,
    ))
}

/// Fits InfAdapter's capacity line by least squares.
fn fit_capacity(measured: &RawMeasured) -> Result<RawCapacity, ConfigError> {
    let points = measured.rates.iter().map(|rate| Point {
        cores: rate.cores,
        rps: rate.rps,
    });
    let points: Vec<Point> = points.collect();
    let found = fit::line(&points).map_err(|error| fit_error("measured.rates", &error))?;
    check_fit("measured.rates", found.r_squared)?;
    Ok(RawCapacity {
        utilisation: measured.utilisation,
        ..RawCapacity::new(&found.model)
    })
}

fn check_fit(path: &str, r_squared: f64) -> Result<(), ConfigError> {
    let right = format!("{R_SQUARED_MIN} or more: these measurements follow no such model");
    rule(
        r_squared >= R_SQUARED_MIN,
        path,
        format!("R² {r_squared:.3}"),
        &right,
    )
}

/// Converts an error of the fit; `path` is that of the measurements.
fn fit_error(path: &str, error: &InputError) -> ConfigError {
    let field = error.field.replacen("points", path, 1);
    refusal(
        field.replace("latency_ms", "ms"),
        &error.value,
        &error.right,
    )
}

#[cfg(test)]
mod tests;
