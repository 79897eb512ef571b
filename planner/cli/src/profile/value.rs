//! Values of arguments, each parsed with what would be right.

use std::time::Duration;

use weir_planner::solve::latency_model::Parallelism;
use weir_planner::spec::RawDuration;
use weir_profile::fitted::TAIL_MAX;
use weir_profile::measurement::Percentile;

/// Maximum time between two readings.
const FOR_MAX: Duration = Duration::from_secs(24 * 3600);

/// Minimum latency objective.
const OBJECTIVE_MIN: Duration = Duration::from_millis(1);

/// Reads a time between two readings.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let right = format!(
        "it must be a duration such as 60s, 1s to {} h",
        FOR_MAX.as_secs() / 3600
    );
    let raw: Result<RawDuration, _> = serde_json::from_value(text.into());
    let found = raw.ok().map(|raw| raw.0);
    let found = found.filter(|time| (Duration::from_secs(1)..=FOR_MAX).contains(time));
    found.ok_or(right)
}

/// Reads a latency objective.
pub(super) fn objective(text: &str) -> Result<Duration, String> {
    let raw: Result<RawDuration, _> = serde_json::from_value(text.into());
    let found = raw.ok().map(|raw| raw.0);
    let found = found.filter(|time| (OBJECTIVE_MIN..=FOR_MAX).contains(time));
    found.ok_or_else(|| "it must be a duration such as 500ms, 1ms or more".to_owned())
}

/// Reads the number of batches at once.
pub(super) fn parallelism(text: &str) -> Result<Parallelism, String> {
    let number = || text.parse().ok().map(Parallelism::Fixed);
    let found = (text == "per-core")
        .then_some(Parallelism::PerCore)
        .or_else(number);
    found.ok_or_else(|| "it must be per-core, or a number from 1 on".to_owned())
}

/// Reads one of the percentiles.
pub(super) fn percentile(text: &str) -> Result<Percentile, String> {
    let mut all = Percentile::ALL.into_iter();
    let found = all.find(|one| one.percent().to_string() == text);
    found.ok_or_else(|| "it must be 80, 95 or 99".to_owned())
}

/// Reads a ratio of a percentile to the mean.
pub(super) fn tail(text: &str) -> Result<f64, String> {
    let found = text
        .parse()
        .ok()
        .filter(|tail| (1.0..=TAIL_MAX).contains(tail));
    found.ok_or_else(|| format!("it must be 1 to {TAIL_MAX}"))
}

/// Reads two texts with `=` between.
pub(super) fn pair(text: &str) -> Result<(String, String), String> {
    let found = text
        .split_once('=')
        .filter(|(a, b)| !a.is_empty() && !b.is_empty());
    let found = found.map(|(a, b)| (a.to_owned(), b.to_owned()));
    found.ok_or_else(|| "it must be two texts with = between".to_owned())
}
