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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::forecast::{History, Measured};

    fn now(second: u64) -> Now {
        Now {
            at: Duration::from_secs(second),
            unix_ms: 1_000_000 + 1000 * second,
        }
    }

    fn planner() -> Planner {
        Planner::new(Arc::new(crate::spec::tests::service(8)))
    }

    /// A planner that has measured 40 requests/s for a minute.
    fn knowing() -> Planner {
        let one = Measured {
            gap: Duration::ZERO,
            span: Duration::from_secs(1),
            rate: 40.0,
        };
        let history = History::new([one; 60], Duration::ZERO).unwrap();
        let mut planner = planner();
        planner.restore(now(0), &history, Duration::ZERO);
        planner
    }

    /// Samples, and the time since their end.
    fn known(planner: &Planner, second: u64) -> Option<(Vec<Measured>, Duration)> {
        let (history, age) = planner.history(now(second))?;
        Some((history.samples().copied().collect(), age))
    }

    #[tokio::test]
    async fn planner_begins_with_what_the_one_before_it_knew() {
        let folder = tempfile::tempdir().unwrap();
        let file = StateFile::new(folder.path(), "demo");
        let (mut empty, first) = (planner(), knowing());
        let mut memory = Memory::restore(file.clone(), &mut empty, now(0));
        assert_eq!(known(&empty, 0), None);
        memory.keep(&empty, now(0));
        assert!(memory.writing.is_none(), "nothing is known");
        memory.keep(&first, now(4));
        assert!(memory.writing.is_none(), "not due");
        memory.keep(&first, now(5));
        let written = memory.writing.as_mut().unwrap().await;
        written.unwrap().unwrap();
        memory.writing = None;
        memory.end(&first, now(7)).await;
        let mut second = planner();
        Memory::restore(file, &mut second, now(9));
        assert_eq!(known(&second, 9), known(&first, 9));
        assert_eq!(known(&second, 9).unwrap().1, Duration::from_secs(9));
    }

    #[tokio::test]
    async fn failed_write_is_noted_and_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("missing");
        let file = StateFile::new(&missing, "demo");
        let who = file.path().display().to_string();
        let first = knowing();
        let mut memory = Memory::restore(file, &mut planner(), now(0));
        for (second, failures) in [(0, None), (5, Some(1)), (10, Some(2))] {
            memory.keep(&first, now(second));
            assert_eq!(memory.log.count(&who), failures, "{second} s");
            while !memory.writing.as_ref().unwrap().is_finished() {
                tokio::task::yield_now().await;
            }
        }
        std::fs::create_dir(&missing).unwrap();
        memory.keep(&first, now(15));
        while !memory.writing.as_ref().unwrap().is_finished() {
            tokio::task::yield_now().await;
        }
        memory.keep(&first, now(20));
        assert_eq!(memory.log.count(&who), None);
        memory.end(&first, now(21)).await;
    }
}
