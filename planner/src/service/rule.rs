//! Validation of single values, and the form of a refusal.

use std::fmt::Display;
use std::ops::RangeInclusive;

use weir_api::plan::{CLUSTER_MAX, NAME_MAX, is_name};

use super::ConfigError;

/// Longest number that is shown with all its digits.
const DIGITS_MAX: usize = 20;

/// Returns the value if it lies in the range (NaN never does). `unit` ends the sentence about the allowed
/// values.
pub(crate) fn within<T: PartialOrd + Display>(
    path: impl Display,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<T, ConfigError> {
    let right = format!("{} to {} {unit}", range.start(), range.end());
    rule(range.contains(&value), path, &value, right.trim_end())?;
    Ok(value)
}

pub(crate) fn valid_name(path: impl Display, name: &str) -> Result<String, ConfigError> {
    let right = format!("1 to {NAME_MAX} of a-z, 0-9 and single dashes inside");
    rule(is_name(name), path, name, &right)?;
    Ok(name.to_owned())
}

pub(crate) fn url(path: impl Display, text: &str) -> Result<url::Url, ConfigError> {
    let url = url::Url::parse(text).ok();
    let http = url.filter(|url| url.scheme() == "http" && url.has_host());
    http.ok_or_else(|| refusal(path, text, "an http:// address"))
}

pub(crate) fn rule(
    holds: bool,
    path: impl Display,
    value: impl Display,
    right: &str,
) -> Result<(), ConfigError> {
    if holds {
        Ok(())
    } else {
        Err(refusal(path, value, right))
    }
}

pub(crate) fn refusal(path: impl Display, value: impl Display, right: &str) -> ConfigError {
    let value = shortened(&value.to_string());
    let (path, right) = (path.to_string(), right.to_owned());
    ConfigError::Value { path, value, right }
}

/// Returns a value as a message shows it: a long number in scientific notation, a long text cut.
fn shortened(value: &str) -> String {
    let is_number = |value: &str| {
        value
            .chars()
            .all(|c| c.is_ascii_digit() || "-.".contains(c))
    };
    match value.parse::<f64>() {
        Ok(number) if value.len() > DIGITS_MAX && is_number(value) => format!("{number:e}"),
        _ => value.chars().take(CLUSTER_MAX + 1).collect(),
    }
}
