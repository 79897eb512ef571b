//! Memory of one control loop beyond its process: restored at its begin, written from time to time beside the cycles, and
//! once more at its end. A slow or full disk never delays a cycle.

mod content;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use self::content::{Content, Requests, Texts, Written};
use crate::clock::Now;
use crate::control_loop::Planner;
use crate::error_log::ErrorLog;
use crate::registry::ServiceHandle;
use crate::service::Service;
use crate::state::{LEARNT_INTERVAL, Past, STATE_INTERVAL, StateFile};
use crate::telemetry::status::Status;

/// Fallback while the load cannot be written.
const FALLBACK: &str = "a planner that starts anew will not know the load";
/// Fallback while the requests cannot be written.
const REQUESTS_FALLBACK: &str = "the requests of a planner that starts anew begin anew";

/// Fallback while the service times cannot be written.
const TIMES_FALLBACK: &str = "a planner that starts anew will measure service times anew";

/// Files of a control loop's service, and the write under way.
#[derive(Debug)]
pub(crate) struct Memory {
    file: StateFile,
    service: Arc<Service>,
    /// Status with the requests of the service.
    status: Arc<Status>,
    written: Option<Duration>,
    learnt_written: Option<Duration>,
    writing: Option<JoinHandle<Written>>,
    log: ErrorLog,
}

impl Memory {
    /// Lets a new planner and the status of its service continue from the files. Without a valid one they begin without
    /// what would be in it, and the log says why.
    pub(crate) fn restore(
        file: StateFile,
        planner: &mut Planner,
        handle: &ServiceHandle,
        now: Now,
    ) -> Memory {
        let path = file.path().display();
        let history = match file.read(now) {
            Ok(Some((history, age))) => {
                let samples = history.samples().count();
                tracing::info!("{path}: begins with {samples} rates, the last {age:?} ago");
                Some((history, age))
            }
            Ok(None) => {
                tracing::info!("{path}: no history of the last hour; begins without one");
                None
            }
            Err(error) => {
                tracing::error!("{path}: {error}; begins without a history");
                None
            }
        };
        let path = file.learnt_path();
        let path = path.display();
        let learnt = match file.read_learnt(now) {
            Ok(learnt) => learnt,
            Err(error) => {
                tracing::error!("{path}: {error}; forecasters learn anew");
                None
            }
        };
        let past = Past { history, learnt };
        match planner.restore(now, &past) {
            Ok(()) if past.learnt.is_some() => {
                tracing::info!("{path}: forecasters begin with what was learned");
            }
            Ok(()) => {}
            Err(error) => tracing::error!("{path}: {error}; forecasters learn anew"),
        }
        restore_times(&file, planner, now);
        restore_requests(&file, handle, now);
        Memory {
            file,
            service: Arc::clone(&handle.service),
            status: Arc::clone(&handle.status),
            written: None,
            learnt_written: None,
            writing: None,
            log: ErrorLog::default(),
        }
    }

    /// Begins to write if [`STATE_INTERVAL`] has passed since the last write, which has ended.
    pub(crate) fn keep(&mut self, planner: &Planner, now: Now) {
        let is_due = |written: Option<Duration>, interval: Duration| {
            written.is_none_or(|written| now.at.saturating_sub(written) >= interval)
        };
        let is_busy = self
            .writing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if is_busy || !is_due(self.written, STATE_INTERVAL) {
            return;
        }
        if let Some(Some(result)) = self
            .writing
            .take()
            .map(futures_util::FutureExt::now_or_never)
        {
            self.note(result.unwrap_or_default());
        }
        self.written = Some(now.at);
        let learns = is_due(self.learnt_written, LEARNT_INTERVAL);
        if learns {
            self.learnt_written = Some(now.at);
        }
        let file = self.file.clone();
        let content = self.content(planner, learns, now);
        self.writing =
            content.map(|content| tokio::task::spawn_blocking(move || content.write(&file)));
    }

    /// Writes what is known at the end.
    pub(crate) async fn end(mut self, planner: &Planner, now: Now) {
        if let Some(before) = self.writing.take() {
            // Two writes at once would mix.
            let _ = before.await;
        }
        if let Some(content) = self.content(planner, true, now) {
            let written = content.write(&self.file);
            self.note(written);
        }
    }

    /// Content of all files, that of what was learned if it `learns`; `None` if nothing is known.
    fn content(&mut self, planner: &Planner, learns: bool, now: Now) -> Option<Content> {
        let requests = self.status.request_windows();
        let requests = (!requests.is_empty()).then(|| Requests {
            windows: requests,
            service: Arc::clone(&self.service),
            now,
        });
        let texts = self.texts(planner, learns, now);
        let times = self.times(planner, now);
        let is_known = texts.is_some() || times.is_some() || requests.is_some();
        is_known.then_some(Content {
            texts,
            times,
            requests,
        })
    }

    /// Texts of the history, and if it `learns` of what was learned.
    fn texts(&mut self, planner: &Planner, learns: bool, now: Now) -> Option<Texts> {
        let (history, age) = planner.history(now)?;
        let learnt = planner.forecast_learnt(now).filter(|_| learns);
        let learnt = learnt.map(|(learnt, age)| self.file.learnt_text(learnt, age, now));
        let history = self.file.text(history, age, now);
        match history.and_then(|history| Ok((history, learnt.transpose()?))) {
            Ok((history, learnt)) => Some(Texts { history, learnt }),
            Err(error) => {
                self.note(Written {
                    texts: Some(Err(error)),
                    ..Written::default()
                });
                None
            }
        }
    }

    /// Text of the measured service times.
    fn times(&mut self, planner: &Planner, now: Now) -> Option<String> {
        let text = self.file.times_text(planner.known_times(now.at)?, now);
        text.map_err(|error| {
            self.note(Written {
                times: Some(Err(error)),
                ..Written::default()
            });
        })
        .ok()
    }

    fn note(&mut self, written: Written) {
        let file = &self.file;
        for (path, result, fallback) in [
            (file.path().to_owned(), written.texts, FALLBACK),
            (file.times_path(), written.times, TIMES_FALLBACK),
            (file.requests_path(), written.requests, REQUESTS_FALLBACK),
        ] {
            let who = path.display().to_string();
            match result {
                Some(Ok(())) => self.log.went_well(&who),
                Some(Err(error)) => self.log.failed(&who, &error, fallback),
                None => {}
            }
        }
    }
}

/// Lets a planner continue from the file of the service times.
fn restore_times(file: &StateFile, planner: &mut Planner, now: Now) {
    let path = file.times_path();
    let path = path.display();
    match file.read_times(now) {
        Ok(Some((times, age))) => {
            planner.restore_times(now.at, &times, age);
            tracing::info!("{path}: service times go on from those of {age:?} ago");
        }
        Ok(None) => {}
        Err(error) => tracing::error!("{path}: {error}; service times are measured anew"),
    }
}

/// Lets the status of a service continue from the file of its requests, unless it has requests already.
fn restore_requests(file: &StateFile, handle: &ServiceHandle, now: Now) {
    let path = file.requests_path();
    let path = path.display();
    match file.read_requests(&handle.service, now) {
        Ok(Some((windows, age))) => {
            if handle.status.restore_requests(windows) {
                tracing::info!("{path}: requests go on from those of {age:?} ago");
            }
        }
        Ok(None) => {}
        Err(error) => tracing::error!("{path}: {error}; requests begin anew"),
    }
}

#[cfg(test)]
mod tests;
