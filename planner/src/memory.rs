//! Memory of one control loop beyond its process: restored at its begin, written from time to time beside the cycles, and
//! once more at its end. A slow or full disk never delays a cycle.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::clock::Now;
use crate::control_loop::Planner;
use crate::error_log::ErrorLog;
use crate::state::{STATE_INTERVAL, StateError, StateFile};

/// Fallback while the file cannot be written.
const FALLBACK: &str = "a planner that starts anew will not know the load";

/// File of a control loop's service, and the write under way.
#[derive(Debug)]
pub(crate) struct Memory {
    file: StateFile,
    written: Option<Duration>,
    writing: Option<JoinHandle<Result<(), StateError>>>,
    log: ErrorLog,
}

impl Memory {
    /// Lets a new planner continue from the file. Without a valid one it begins without a history, and the log says why.
    pub(crate) fn restore(file: StateFile, planner: &mut Planner, now: Now) -> Memory {
        let path = file.path().display();
        match file.read(now) {
            Ok(Some(past)) => {
                let samples = past.history.samples().count();
                let age = past.age;
                tracing::info!("{path}: begins with {samples} rates, the last {age:?} ago");
                planner.restore(now, &past.history, age);
            }
            Ok(None) => tracing::info!("{path}: no history of the last hour; begins without one"),
            Err(error) => tracing::error!("{path}: {error}; begins without a history"),
        }
        Memory {
            file,
            written: None,
            writing: None,
            log: ErrorLog::default(),
        }
    }

    /// Begins to write if [`STATE_INTERVAL`] has passed since the last write, which has ended.
    pub(crate) fn keep(&mut self, planner: &Planner, now: Now) {
        let is_due = |written: Duration| now.at.saturating_sub(written) >= STATE_INTERVAL;
        let is_busy = self
            .writing
            .as_ref()
            .is_some_and(|task| !task.is_finished());
        if is_busy || !self.written.is_none_or(is_due) {
            return;
        }
        if let Some(Some(result)) = self
            .writing
            .take()
            .map(futures_util::FutureExt::now_or_never)
        {
            self.note(result.unwrap_or(Ok(())));
        }
        self.written = Some(now.at);
        let file = self.file.clone();
        let text = self.text(planner, now);
        self.writing = text.map(|text| tokio::task::spawn_blocking(move || file.write(&text)));
    }

    /// Writes what is known at the end.
    pub(crate) async fn end(mut self, planner: &Planner, now: Now) {
        if let Some(before) = self.writing.take() {
            // Two writes at once would mix.
            let _ = before.await;
        }
        if let Some(text) = self.text(planner, now) {
            let result = self.file.write(&text);
            self.note(result);
        }
    }

    fn text(&mut self, planner: &Planner, now: Now) -> Option<String> {
        let (history, age) = planner.history(now)?;
        match self.file.text(history, age, now) {
            Ok(text) => Some(text),
            Err(error) => {
                self.note(Err(error));
                None
            }
        }
    }

    fn note(&mut self, result: Result<(), StateError>) {
        let who = self.file.path().display().to_string();
        match result {
            Ok(()) => self.log.went_well(&who),
            Err(error) => self.log.failed(&who, &error, FALLBACK),
        }
    }
}
