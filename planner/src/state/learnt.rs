//! File of what the forecasters have learned, beside that of the history. It lives longer: a season's pattern is of use
//! when the latest hour is forgotten.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Format, StateError, StateFile};
use crate::clock::Now;
use crate::forecast::Learnt;

/// Interval between two writes of the file.
pub const LEARNT_INTERVAL: Duration = Duration::from_secs(60);
/// Age beyond which nothing of the file is taken: the longest season.
pub const LEARNT_AGE_MAX: Duration = Duration::from_secs(weir_forecast::model::SEASON_MAX_S);
/// Version of the files that are written and read.
pub const LEARNT_VERSION: u32 = 1;
const LEARNT: Format = Format {
    name: "weir-learnt",
    version: LEARNT_VERSION,
    none: "not what forecasters have learned",
};

/// Learned numbers, as a file has them.
#[derive(Serialize, Deserialize)]
struct Part {
    learnt: Learnt,
}

impl StateFile {
    /// Path of the file of what was learned.
    pub fn learnt_path(&self) -> std::path::PathBuf {
        self.path
            .with_file_name(format!("{}.learnt.json", self.service))
    }

    /// Reads what was learned, and how long ago; `None` if there is nothing, or it is too old.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is not of this service by this version before `now`.
    pub fn read_learnt(&self, now: Now) -> Result<Option<(Learnt, Duration)>, StateError> {
        match super::read_bounded(&self.learnt_path())? {
            Some(bytes) => {
                let (part, age): (Part, _) = self.content(&LEARNT, &bytes, now)?;
                Ok((age < LEARNT_AGE_MAX).then_some((part.learnt, age)))
            }
            None => Ok(None),
        }
    }

    /// Writes what was learned: readers see the earlier content or the new one.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be written.
    pub fn write_learnt(&self, text: &str) -> Result<(), StateError> {
        super::write_whole(&self.learnt_path(), text)
    }

    /// Returns the text of what was learned `age` before `now`.
    ///
    /// # Errors
    /// Fails if a value has no text, which would be a bug.
    pub fn learnt_text(
        &self,
        learnt: Learnt,
        age: Duration,
        now: Now,
    ) -> Result<String, StateError> {
        self.content_text(&LEARNT, Part { learnt }, age, now)
    }
}
