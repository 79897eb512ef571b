//! File of the requests of all windows, beside that of the history. It lives as long as the longest window. One that would
//! be too large is written without histograms: the share on time and the error budget need none.

use std::time::Duration;

use super::{Format, STATE_BYTES_MAX, StateError, StateFile};
use crate::clock::Now;
use crate::service::Service;
use crate::telemetry::requests::{RequestWindows, WINDOWS, WindowRecord};

/// Age beyond which nothing of the file is taken: the longest window.
pub const REQUESTS_AGE_MAX: Duration = {
    let [.., (longest, _)] = WINDOWS;
    longest
};
/// Version of the files that are written and read.
pub const REQUESTS_VERSION: u32 = 1;
const REQUESTS: Format = Format {
    name: "weir-requests",
    version: REQUESTS_VERSION,
    none: "no requests by window",
};

impl StateFile {
    /// Path of the file of the requests.
    pub fn requests_path(&self) -> std::path::PathBuf {
        self.path
            .with_file_name(format!("{}.requests.json", self.service))
    }

    /// Reads the requests of a service, and how long ago they were written; `None` if there are none, or all are too old.
    ///
    /// # Errors
    /// Fails if they cannot be read, are not of this service by this version before `now`, contradict themselves, or have
    /// answers of a variant that the service no longer has.
    pub fn read_requests(
        &self,
        service: &Service,
        now: Now,
    ) -> Result<Option<(RequestWindows, Duration)>, StateError> {
        match super::read_bounded(&self.requests_path())? {
            Some(bytes) => self.parse_requests(&bytes, service, now),
            None => Ok(None),
        }
    }

    pub(super) fn parse_requests(
        &self,
        bytes: &[u8],
        service: &Service,
        now: Now,
    ) -> Result<Option<(RequestWindows, Duration)>, StateError> {
        let (record, age): (WindowRecord, _) = self.content(&REQUESTS, bytes, now)?;
        if age >= REQUESTS_AGE_MAX {
            return Ok(None);
        }
        let windows = RequestWindows::restored(&record, (now.at, age), service)?;
        Ok(Some((windows, age)))
    }

    /// Writes the requests: readers see the earlier content or the new one.
    ///
    /// # Errors
    /// Fails if the folder or the file cannot be written.
    pub fn write_requests(&self, text: &str) -> Result<(), StateError> {
        super::write_whole(&self.requests_path(), text)
    }

    /// Returns the text of a record that was made at `now`.
    ///
    /// # Errors
    /// Fails if it is too large even without histograms.
    pub fn requests_text(&self, record: WindowRecord, now: Now) -> Result<String, StateError> {
        let is_small = |text: &String| text.len() as u64 <= STATE_BYTES_MAX;
        let text = self.content_text(&REQUESTS, &record, Duration::ZERO, now)?;
        if is_small(&text) {
            return Ok(text);
        }
        let record = record.without_histograms();
        let text = self.content_text(&REQUESTS, &record, Duration::ZERO, now)?;
        is_small(&text).then_some(text).ok_or(StateError::TooLarge)
    }
}
