//! Files in which the planner of a service keeps the rates that it measured of late, what its forecasters have learned
//! ([`StateFile::read_learnt`]), the service times that it measured ([`StateFile::read_times`]), and the requests of late by
//! outcome ([`StateFile::read_requests`]), so that the next one begins with them. A file is written whole or not at all.
//! One that is truncated, foreign or from the future is an error, and nothing of it is taken.

mod learnt;
mod requests;
mod times;

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock::Now;
use crate::control_loop::KnownTimesError;
use crate::forecast::{HISTORY_MAX, History, HistoryError, Measured};
use crate::telemetry::requests::RecordError;

pub use crate::forecast::Past;

pub use learnt::{LEARNT_AGE_MAX, LEARNT_INTERVAL, LEARNT_VERSION};
pub use requests::{REQUESTS_AGE_MAX, REQUESTS_VERSION};
pub use times::{TIMES_AGE_MAX, TIMES_VERSION};

/// Interval between two writes.
pub const STATE_INTERVAL: Duration = Duration::from_secs(5);
/// Maximum size of a file, in bytes: more than the longest history has.
pub const STATE_BYTES_MAX: u64 = 1024 * 1024;
/// Version of the files that are written and read.
const STATE_VERSION: u32 = 1;

/// Reason why a file cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum StateError {
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("more than {STATE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("it is {0}, or not all of it: {1}")]
    Form(&'static str, serde_json::Error),
    #[error("version {0}, not {1}: it is from another version of weir")]
    Version(u32, u32),
    #[error("it is of service {0}")]
    Service(String),
    #[error("it ends {0:?} from now: the clock was set back")]
    Future(Duration),
    #[error("{0}")]
    History(#[from] HistoryError),
    #[error("{0}")]
    Times(#[from] KnownTimesError),
    #[error("{0}")]
    Requests(#[from] RecordError),
}

/// File of one service.
#[derive(Debug, Clone)]
pub struct StateFile {
    path: PathBuf,
    service: String,
}

/// Format of a file.
struct Format {
    name: &'static str,
    version: u32,
    /// Error of a file that is none.
    none: &'static str,
}

const HISTORY: Format = Format {
    name: "weir-history",
    version: STATE_VERSION,
    none: "no history",
};

/// Begin of every version.
#[derive(Deserialize)]
struct Head {
    format: String,
    version: u32,
}

/// Content of a file.
#[derive(Serialize, Deserialize)]
struct Content<T> {
    format: String,
    version: u32,
    service: String,
    /// Unix time in ms of its last measurement.
    end_unix_ms: u64,
    #[serde(flatten)]
    part: T,
}

/// History as a file has it.
#[derive(Serialize, Deserialize)]
struct Samples {
    /// Nanoseconds of the first sample's begin within the hour, by the planner's clock.
    begin_ns: u64,
    /// Gap before it and length in ns, and rate in requests/s, of each sample.
    samples: Vec<(u64, u64, f64)>,
}

impl StateFile {
    /// Returns the file of a service in a folder. A service's name is a file name, too.
    pub fn new(folder: &Path, service: &str) -> StateFile {
        StateFile {
            path: folder.join(format!("{service}.history.json")),
            service: service.to_owned(),
        }
    }

    /// Path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the file; `None` if there is none, or nothing in it is remembered any more.
    ///
    /// # Errors
    /// Fails if it cannot be read, or is no history of this service by this version that ended before `now`.
    pub fn read(&self, now: Now) -> Result<Option<(History, Duration)>, StateError> {
        match read_bounded(&self.path)? {
            Some(bytes) => self.parse(&bytes, now),
            None => Ok(None),
        }
    }

    fn parse(&self, bytes: &[u8], now: Now) -> Result<Option<(History, Duration)>, StateError> {
        let (part, age): (Samples, _) = self.content(&HISTORY, bytes, now)?;
        let samples = part.samples.into_iter().map(|(gap, span, rate)| Measured {
            gap: Duration::from_nanos(gap),
            span: Duration::from_nanos(span),
            rate,
        });
        let history = History::new(samples, Duration::from_nanos(part.begin_ns))?;
        Ok((age < HISTORY_MAX).then_some((history, age)))
    }

    /// Content of a file of that format, and its age.
    ///
    /// # Errors
    /// Fails if it is not of that format and version, of this service and before `now`.
    fn content<T: DeserializeOwned>(
        &self,
        format: &Format,
        bytes: &[u8],
        now: Now,
    ) -> Result<(T, Duration), StateError> {
        let form = |error| StateError::Form(format.none, error);
        let head: Head = serde_json::from_slice(bytes).map_err(form)?;
        if head.format != format.name || head.version != format.version {
            return Err(StateError::Version(head.version, format.version));
        }
        let content: Content<T> = serde_json::from_slice(bytes).map_err(form)?;
        if content.service != self.service {
            return Err(StateError::Service(content.service));
        }
        let ms = Duration::from_millis;
        let ahead = ms(content.end_unix_ms.saturating_sub(now.unix_ms));
        if !ahead.is_zero() {
            return Err(StateError::Future(ahead));
        }
        let age = ms(now.unix_ms.saturating_sub(content.end_unix_ms));
        Ok((content.part, age))
    }

    /// Text of a file of that format whose content is `age` before `now`.
    fn content_text<T: Serialize>(
        &self,
        format: &Format,
        part: T,
        age: Duration,
        now: Now,
    ) -> Result<String, StateError> {
        let age_ms = u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        let content = Content {
            format: format.name.to_owned(),
            version: format.version,
            service: self.service.clone(),
            end_unix_ms: now.unix_ms.saturating_sub(age_ms),
            part,
        };
        serde_json::to_string(&content).map_err(|error| StateError::Form(format.none, error))
    }

    /// Writes the file: readers see the earlier content or the new one.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be written.
    pub fn write(&self, text: &str) -> Result<(), StateError> {
        write_whole(&self.path, text)
    }

    /// Returns the text of a history whose end is `age` before `now`.
    ///
    /// # Errors
    /// Fails if a value has no text, which would be a bug.
    pub fn text(&self, history: &History, age: Duration, now: Now) -> Result<String, StateError> {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let one = |one: &Measured| (ns(one.gap), ns(one.span), one.rate);
        let samples = Samples {
            begin_ns: ns(history.phase()),
            samples: history.samples().map(one).collect(),
        };
        self.content_text(&HISTORY, samples, age, now)
    }
}

/// Reads a file of at most [`STATE_BYTES_MAX`]; `None` if there is none.
fn read_bounded(path: &Path) -> Result<Option<Vec<u8>>, StateError> {
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let mut bytes = Vec::new();
    file.take(STATE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > STATE_BYTES_MAX {
        true => Err(StateError::TooLarge),
        false => Ok(Some(bytes)),
    }
}

/// Writes a file: readers see the earlier content or the new one.
fn write_whole(path: &Path, text: &str) -> Result<(), StateError> {
    let beside = path.with_extension("json.new");
    let mut file = std::fs::File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(std::fs::rename(&beside, path)?)
}

#[cfg(test)]
mod tests;
