//! Error of a file that a user wrote.

/// Maximum number of characters of a value that an error repeats.
pub const VALUE_MAX: usize = 80;

/// Error of a scenario or of a file that it names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct FileError {
    /// File with the error.
    pub file: String,
    /// Line in the file, from 1, if known.
    pub line: Option<u64>,
    /// Field, value, and the expected value.
    pub message: String,
}
