//! Content of a service's files, which is written beside the cycles. The text of the requests is made there too: it is
//! long.

use std::sync::Arc;

use crate::clock::Now;
use crate::service::Service;
use crate::state::{StateError, StateFile};
use crate::telemetry::requests::RequestWindows;

/// Content of the files.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) texts: Option<Texts>,
    /// Text of the measured service times.
    pub(super) times: Option<String>,
    pub(super) requests: Option<Requests>,
}

/// Texts of the history, and of what was learned.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) history: String,
    pub(super) learnt: Option<String>,
}

/// Requests by window, as of `now`.
#[derive(Debug)]
pub(super) struct Requests {
    pub(super) windows: RequestWindows,
    pub(super) service: Arc<Service>,
    pub(super) now: Now,
}

/// Results of the writes; `None` for what was not written.
#[derive(Debug, Default)]
pub(super) struct Written {
    pub(super) texts: Option<Result<(), StateError>>,
    pub(super) times: Option<Result<(), StateError>>,
    pub(super) requests: Option<Result<(), StateError>>,
}

impl Content {
    /// Writes the files.
    pub(super) fn write(&self, file: &StateFile) -> Written {
        Written {
            texts: self.texts.as_ref().map(|texts| texts.write(file)),
            times: self.times.as_ref().map(|times| file.write_times(times)),
            requests: self.requests.as_ref().map(|requests| requests.write(file)),
        }
    }
}

impl Texts {
    fn write(&self, file: &StateFile) -> Result<(), StateError> {
        file.write(&self.history)?;
        self.learnt
            .as_ref()
            .map_or(Ok(()), |learnt| file.write_learnt(learnt))
    }
}

impl Requests {
    fn write(&self, file: &StateFile) -> Result<(), StateError> {
        let record = self.windows.record(self.now.at, &self.service);
        record.map_or(Ok(()), |record| {
            file.write_requests(&file.requests_text(record, self.now)?)
        })
    }
}
