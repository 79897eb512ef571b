//! File of the measured service times, beside that of the history. It is short-lived, as they are.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Format, StateError, StateFile};
use crate::clock::Now;
use crate::control_loop::KnownTimes;

/// Age beyond which nothing of the file is taken: ratios to the profile are forgotten then.
pub const TIMES_AGE_MAX: Duration = Duration::from_secs(300);
/// Version of the files that are written and read.
pub const TIMES_VERSION: u32 = 1;
const TIMES: Format = Format {
    name: "weir-times",
    version: TIMES_VERSION,
    none: "no measured service times",
};

/// Measured service times, as a file has them.
#[derive(Serialize, Deserialize)]
struct Part {
    times: KnownTimes,
}

impl StateFile {
    /// Path of the file of the measured service times.
    pub fn times_path(&self) -> std::path::PathBuf {
        self.path
            .with_file_name(format!("{}.times.json", self.service))
    }

    /// Reads the measured service times, and how long ago they were written; `None` if there are none, or all are too
    /// old.
    ///
    /// # Errors
    /// Fails if they cannot be read, cannot have been measured, or are not of this service by this version before
    /// `now`.
    pub fn read_times(&self, now: Now) -> Result<Option<(KnownTimes, Duration)>, StateError> {
        match super::read_bounded(&self.times_path())? {
            Some(bytes) => self.parse_times(&bytes, now),
            None => Ok(None),
        }
    }

    pub(super) fn parse_times(
        &self,
        bytes: &[u8],
        now: Now,
    ) -> Result<Option<(KnownTimes, Duration)>, StateError> {
        let (part, age): (Part, _) = self.content(&TIMES, bytes, now)?;
        part.times.check()?;
        Ok((age < TIMES_AGE_MAX).then_some((part.times, age)))
    }

    /// Writes the measured service times: readers see the earlier content or the new one.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be written.
    pub fn write_times(&self, text: &str) -> Result<(), StateError> {
        super::write_whole(&self.times_path(), text)
    }

    /// Returns the text of the service times that are known at `now`.
    ///
    /// # Errors
    /// Fails if a value has no text, which would be a bug.
    pub fn times_text(&self, times: KnownTimes, now: Now) -> Result<String, StateError> {
        self.content_text(&TIMES, Part { times }, Duration::ZERO, now)
    }
}
