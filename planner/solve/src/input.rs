//! Checks of input values, and the error for a refused one: field, value and valid range.

use std::collections::HashSet;
use std::fmt::Display;

/// Maximum length of a value in an error message, in characters.
const SHOWN_MAX: usize = 80;

/// Error for an invalid input. Each formulation's limits are named constants in its module.
#[derive(Debug, Clone, PartialEq)]
pub struct InputError {
    /// Path of the field, such as `variants[2].accuracy_percent`.
    pub field: String,
    /// Value as given, shortened; or the whole error message, if the value has not even the right
    /// form.
    pub value: String,
    /// Description of a valid value; empty if `value` is a whole error message.
    pub right: String,
}

impl Display for InputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let InputError {
            field,
            value,
            right,
        } = self;
        if right.is_empty() {
            write!(f, "{field}: {value}")
        } else {
            write!(f, "{field}: {value} must be {right}")
        }
    }
}

impl std::error::Error for InputError {}

/// Refuses `value` unless `holds`.
pub(crate) fn rule(
    holds: bool,
    field: impl Display,
    value: impl Display,
    right: impl Display,
) -> Result<(), InputError> {
    if holds {
        return Ok(());
    }
    let value = value.to_string();
    let mut shown: String = value.chars().take(SHOWN_MAX).collect();
    if shown.len() < value.len() {
        shown.push('…');
    }
    Err(InputError {
        field: field.to_string(),
        value: shown,
        right: right.to_string(),
    })
}

/// Returns the value if it lies in the range, which NaN never does.
pub(crate) fn within<T: PartialOrd + Display>(
    field: impl Display,
    value: T,
    min: T,
    max: T,
    unit: &str,
) -> Result<T, InputError> {
    let right = format!("{min} to {max} {unit}");
    rule(
        value >= min && value <= max,
        field,
        &value,
        right.trim_end(),
    )?;
    Ok(value)
}

/// Returns the value if it is a finite number above zero and at most `max`.
pub(crate) fn positive(
    field: impl Display,
    value: f64,
    max: f64,
    unit: &str,
) -> Result<f64, InputError> {
    let right = format!("above 0 and at most {max} {unit}");
    rule(value > 0.0 && value <= max, field, value, right.trim_end())?;
    Ok(value)
}

/// Refuses names that are empty, too long or repeated. `path` makes the field path of an index.
pub(crate) fn distinct<'a>(
    names: impl IntoIterator<Item = &'a str>,
    path: impl Fn(usize) -> String,
) -> Result<(), InputError> {
    let mut seen = HashSet::new();
    for (index, name) in names.into_iter().enumerate() {
        let length = name.chars().count();
        let right = format!("a name of 1 to {NAME_MAX} characters");
        rule(
            (1..=NAME_MAX).contains(&length),
            path(index),
            format!("'{name}'"),
            right,
        )?;
        let right = "another name: this one stands twice";
        rule(seen.insert(name), path(index), format!("'{name}'"), right)?;
    }
    Ok(())
}

/// Maximum length of the name of a variant, stage or resource, in characters.
pub(crate) const NAME_MAX: usize = 128;
