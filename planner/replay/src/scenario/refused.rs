//! How a bad scenario or input is refused: file, line, field, value, and what would be right.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use weir_planner::service::ConfigError;

/// Most characters of a value that a refusal repeats.
pub const VALUE_MAX: usize = 80;

/// Why a scenario, or a file that it names, is not played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct Refused {
    /// The file that is wrong.
    pub file: String,
    /// Where in it, from 1, where that can be told.
    pub line: Option<u64>,
    /// Field, value, and what would be right.
    pub message: String,
}

/// Something wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wrong {
    /// At a path within the scenario, on a line where the reader has told it.
    Here {
        path: String,
        line: Option<u64>,
        message: String,
    },
    /// In a file that it names.
    There(Refused),
}

impl From<Refused> for Wrong {
    fn from(refused: Refused) -> Wrong {
        Wrong::There(refused)
    }
}

impl Wrong {
    /// The value at `path` is not `right`.
    pub(super) fn value(path: impl Display, value: impl Display, right: impl Display) -> Wrong {
        let value: String = value.to_string().chars().take(VALUE_MAX).collect();
        Wrong::about(path, format!("{value}; it must be {right}"))
    }

    /// Any other complaint about `path`.
    pub(super) fn about(path: impl Display, complaint: impl Display) -> Wrong {
        let path = path.to_string();
        let message = format!("{path}: {complaint}");
        Wrong::Here {
            path,
            line: None,
            message,
        }
    }

    /// A reader's complaint, which ends with a place where the reader knows one: the file's own for the
    /// scenario (`prefix` empty), one within what was copied out of it for a part.
    pub(super) fn form(prefix: &str, path: &str, complaint: &str) -> Wrong {
        let place = complaint.rsplit_once(" at line ");
        let line = place.and_then(|(_, place)| {
            let (line, column) = place.split_once(" column ")?;
            column.parse::<u64>().ok()?;
            line.trim_end_matches(',').parse().ok()
        });
        let complaint = match (place, line) {
            (Some((complaint, _)), Some(_)) => complaint,
            _ => complaint,
        };
        let path = joined(prefix, path);
        Wrong::Here {
            line: line.filter(|_| prefix.is_empty()),
            message: format!("{path}: {complaint}"),
            path,
        }
    }

    /// The planner's complaint about its part, which stands at `prefix` in the scenario.
    pub(super) fn config(prefix: &str, error: &ConfigError) -> Wrong {
        match error {
            ConfigError::Value { path, value, right } => {
                Wrong::value(joined(prefix, path), value, right)
            }
            ConfigError::Form { path, message } => Wrong::form(prefix, path, message),
            ConfigError::TooLarge(_) => Wrong::about(prefix, error),
        }
    }
}

fn joined(prefix: &str, path: &str) -> String {
    match (prefix, path) {
        ("", path) => path.to_owned(),
        (prefix, "(top level)" | "service file") => prefix.to_owned(),
        (prefix, path) => format!("{prefix}.{path}"),
    }
}

/// The value, if it lies in the range (which NaN never does).
pub(super) fn within<T: PartialOrd + Display>(
    path: impl Display,
    value: T,
    range: RangeInclusive<T>,
    unit: &str,
) -> Result<T, Wrong> {
    if range.contains(&value) {
        return Ok(value);
    }
    let right = format!("{} to {} {unit}", range.start(), range.end());
    Err(Wrong::value(path, value, right.trim_end()))
}

/// Seconds with a fraction as a duration, if they lie in the range.
pub(super) fn seconds(
    path: impl Display,
    value: f64,
    range: RangeInclusive<f64>,
) -> Result<Duration, Wrong> {
    within(path, value, range, "s").map(Duration::from_secs_f64)
}

/// Milliseconds with a fraction as a duration, if they are 0 to `most`.
pub(super) fn millis(path: impl Display, value: f64, most: f64) -> Result<Duration, Wrong> {
    within(path, value, 0.0..=most, "ms").map(|ms| Duration::from_secs_f64(ms / 1e3))
}
