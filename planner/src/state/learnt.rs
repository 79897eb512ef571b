//! File of what the forecasters have learned, beside that of the history. It lives longer: a season's pattern is of use
//! when the latest hour is forgotten.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Head, StateError, StateFile};
use crate::clock::Now;
use crate::forecast::Learnt;

/// Interval between two writes of the file.
pub const LEARNT_INTERVAL: Duration = Duration::from_secs(60);
/// Age beyond which nothing of the file is taken: the longest season.
pub const LEARNT_AGE_MAX: Duration = Duration::from_secs(weir_forecast::model::SEASON_MAX_S);
/// Version of the files that are written and read.
pub const LEARNT_VERSION: u32 = 1;
/// Name of the format.
const FORMAT: &str = "weir-learnt";

/// Content of a file.
#[derive(Serialize, Deserialize)]
struct Content {
    format: String,
    version: u32,
    service: String,
    /// Unix time in ms at which it was learned.
    end_unix_ms: u64,
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
            Some(bytes) => self.parse_learnt(&bytes, now),
            None => Ok(None),
        }
    }

    pub(super) fn parse_learnt(
        &self,
        bytes: &[u8],
        now: Now,
    ) -> Result<Option<(Learnt, Duration)>, StateError> {
        let head: Head = serde_json::from_slice(bytes).map_err(StateError::LearntForm)?;
        if head.format != FORMAT || head.version != LEARNT_VERSION {
            return Err(StateError::LearntVersion(head.version));
        }
        let content: Content = serde_json::from_slice(bytes).map_err(StateError::LearntForm)?;
        if content.service != self.service {
            return Err(StateError::Service(content.service));
        }
        let ms = Duration::from_millis;
        let ahead = ms(content.end_unix_ms.saturating_sub(now.unix_ms));
        if !ahead.is_zero() {
            return Err(StateError::Future(ahead));
        }
        let age = ms(now.unix_ms.saturating_sub(content.end_unix_ms));
        Ok((age < LEARNT_AGE_MAX).then_some((content.learnt, age)))
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
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let content = Content {
            format: FORMAT.to_owned(),
            version: LEARNT_VERSION,
            service: self.service.clone(),
            end_unix_ms: now.unix_ms.saturating_sub(age_ms),
            learnt,
        };
        serde_json::to_string(&content).map_err(StateError::LearntForm)
    }
}
