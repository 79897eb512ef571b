//! Validation of single values, and the form of a refusal.

use std::fmt::Display;
use std::ops::RangeInclusive;

use weir_api::plan::{CLUSTER_MAX, NAME_MAX, is_name};

use super::ConfigError;

/// Maximum length of a number that is repeated as it stands; a longer one is shown with an exponent.
const DIGITS_MAX: usize = 24;

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

pub(crate) fn url(path: impl Display, text: &str) -> Result<reqwest::Url, ConfigError> {
    let url = reqwest::Url::parse(text).ok();
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
    let mut value = value.to_string();
    if value.len() > DIGITS_MAX
        && let Ok(number) = value.parse::<f64>()
    {
        value = format!("{number:e}");
    }
    let value: String = value.chars().take(CLUSTER_MAX + 1).collect();
    let (path, right) = (path.to_string(), right.to_owned());
    ConfigError::Value { path, value, right }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_number_is_shown_with_exponent() {
        for (value, shown) in [
            (1e308, "gammaMs: 1e308; it must be 0 to 1 ms"),
            (-2.5, "gammaMs: -2.5; it must be 0 to 1 ms"),
        ] {
            let refused = within("gammaMs", value, 0.0..=1.0, "ms").unwrap_err();
            assert_eq!(refused.to_string(), shown);
        }
    }
}
