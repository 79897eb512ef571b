//! Errors of scenarios and input files: file, line, field, value, and the expected value.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_planner::service::ConfigError;
use weir_planner::spec::{line_of, split_position};

use super::renamed;
use crate::file_error::{FileError, VALUE_MAX};

/// Error within the scenario or within a file that it names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ScenarioError {
    /// Error at a path of the scenario, on a line if the parser reported it.
    InScenario {
        path: String,
        line: Option<u64>,
        message: String,
    },
    /// Error in a file that the scenario names at a path.
    InFile { path: String, error: FileError },
}

impl ScenarioError {
    /// The value at `path` is not `right`.
    pub(super) fn value(
        path: impl Display,
        value: impl Display,
        right: impl Display,
    ) -> ScenarioError {
        let value: String = value.to_string().chars().take(VALUE_MAX).collect();
        ScenarioError::about(path, format!("{value}; it must be {right}"))
    }

    /// Any other complaint about `path`.
    pub(super) fn about(path: impl Display, complaint: impl Display) -> ScenarioError {
        let path = path.to_string();
        let message = format!("{path}: {complaint}");
        ScenarioError::InScenario {
            path,
            line: None,
            message,
        }
    }

    /// Error of a file that is named at `path`: within the file if it has a line, otherwise of the path, such as a file
    /// that does not exist.
    pub(super) fn in_file(path: impl Display, error: FileError) -> ScenarioError {
        match error.line {
            Some(_) => ScenarioError::InFile {
                path: path.to_string(),
                error,
            },
            None => ScenarioError::about(path, error),
        }
    }

    /// The same error, of the text of a file.
    pub(super) fn of_text(self, file: String, text: &str) -> FileError {
        match self {
            ScenarioError::InScenario {
                path,
                line,
                message,
            } => FileError {
                file,
                line: line.or_else(|| line_of(text, &path)),
                message,
            },
            ScenarioError::InFile { error, .. } => error,
        }
    }

    /// The same error in a scenario that is a part of another one, at `prefix`.
    pub(super) fn below(self, prefix: &str) -> ScenarioError {
        match self {
            ScenarioError::InScenario { path, message, .. } => {
                let complaint = message.strip_prefix(&path);
                let complaint = complaint.unwrap_or(&message).to_owned();
                let path = joined(prefix, &path);
                ScenarioError::InScenario {
                    message: format!("{path}{complaint}"),
                    path,
                    line: None,
                }
            }
            ScenarioError::InFile { path, error } => ScenarioError::InFile {
                path: joined(prefix, &path),
                error,
            },
        }
    }

    /// Converts a parser's error, which may end with a position. With an empty `prefix` that is a position in
    /// the scenario; otherwise it is one in a copied part, and of no use.
    pub(super) fn form(prefix: &str, path: &str, complaint: &str) -> ScenarioError {
        let (complaint, line) = split_position(complaint);
        let path = joined(prefix, path);
        let renamed = renamed::new_name(&path, complaint);
        let complaint = renamed.as_deref().unwrap_or(complaint);
        ScenarioError::InScenario {
            line: line.filter(|_| prefix.is_empty()),
            message: format!("{path}: {complaint}"),
            path,
        }
    }

    /// Converts the planner's error about its part of the scenario, at `prefix`.
    pub(super) fn config(prefix: &str, error: &ConfigError) -> ScenarioError {
        match error {
            ConfigError::Value { path, value, right } => {
                ScenarioError::value(joined(prefix, path), value, right)
            }
            ConfigError::Form { path, message } => ScenarioError::form(prefix, path, message),
            ConfigError::TooLarge(_) => ScenarioError::about(joined(prefix, "service file"), error),
        }
    }
}

fn joined(prefix: &str, path: &str) -> String {
    match (prefix, path) {
        ("", path) => path.to_owned(),
        (prefix, "(top level)" | "service file" | "") => prefix.to_owned(),
        (prefix, path) => format!("{prefix}.{path}"),
    }
}

/// Checks that the value lies in the range (which NaN never does).
pub(super) fn within<T: PartialOrd + Display>(
    path: impl Display,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<T, ScenarioError> {
    if range.contains(&value) {
        return Ok(value);
    }
    let right = format!("{} to {} {unit}", range.start(), range.end());
    Err(ScenarioError::value(path, value, right.trim_end()))
}

/// Checks that fractional seconds lie in the range, and converts them.
pub(super) fn seconds(
    path: impl Display,
    value: f64,
    range: RangeInclusive<f64>,
) -> Result<Duration, ScenarioError> {
    within(path, value, range, "s").map(Duration::from_secs_f64)
}

/// Checks that fractional milliseconds are 0 to `most`, and converts them.
pub(super) fn millis(path: impl Display, value: f64, most: f64) -> Result<Duration, ScenarioError> {
    within(path, value, 0.0..=most, "ms").map(|ms| Duration::from_secs_f64(ms / 1e3))
}
