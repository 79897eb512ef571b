//! Runs of a solver that cannot be stopped: HiGHS looks at its time limit between steps, and one step of a large model
//! may take seconds. Each run has a thread of its own, and the caller goes on when the time is over.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::Duration;

/// Maximum number of runs at once that nobody waits for any more.
const OVERDUE_MAX: usize = 2;

/// Number of runs that nobody waits for any more.
pub(crate) struct Overdue(AtomicUsize);

impl Overdue {
    /// No run is overdue.
    pub(crate) const fn none() -> Overdue {
        Overdue(AtomicUsize::new(0))
    }

    /// Returns the result of `run` if it ends within `limit`; otherwise the run goes on alone, and its result is lost.
    ///
    /// # Errors
    /// The run has not ended in time or has panicked, or [`OVERDUE_MAX`] runs are overdue.
    pub(crate) fn run<T: Send + 'static>(
        &'static self,
        limit: Duration,
        run: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        if self.0.load(Ordering::SeqCst) >= OVERDUE_MAX {
            return Err(format!(
                "{OVERDUE_MAX} earlier runs of the solver have not ended yet"
            ));
        }
        let (sender, receiver) = sync_channel(0);
        let solving = move || {
            let result = catch_unwind(AssertUnwindSafe(run)).ok();
            // Nothing receives once the caller has counted the run as overdue.
            if sender.send(result).is_err() {
                self.0.fetch_sub(1, Ordering::SeqCst);
            }
        };
        thread::Builder::new()
            .spawn(solving)
            .map_err(|error| format!("no thread for the solver: {error}"))?;
        match receiver.recv_timeout(limit) {
            Ok(Some(result)) => Ok(result),
            Ok(None) | Err(RecvTimeoutError::Disconnected) => Err("the solver broke".to_owned()),
            Err(RecvTimeoutError::Timeout) => {
                self.0.fetch_add(1, Ordering::SeqCst);
                Err(format!("the solver did not end within {limit:?}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    #[test]
    fn caller_gets_the_result_or_an_error() {
        static RUNS: Overdue = Overdue::none();
        assert_eq!(RUNS.run(MINUTE, || 7), Ok(7));
        let broken = RUNS.run(MINUTE, || panic!("on purpose"));
        assert_eq!(broken, Err::<(), _>("the solver broke".to_owned()));
    }

    #[test]
    fn caller_goes_on_when_the_time_is_over_and_few_runs_are_overdue() {
        static RUNS: Overdue = Overdue::none();
        let mut ends = Vec::new();
        for _ in 0..OVERDUE_MAX {
            let (end, ended) = channel::<()>();
            let late = RUNS.run(Duration::from_millis(1), move || ended.recv().is_ok());
            assert_eq!(late, Err("the solver did not end within 1ms".to_owned()));
            ends.push(end);
        }
        let refused = RUNS.run(MINUTE, || 7);
        let why = "2 earlier runs of the solver have not ended yet";
        assert_eq!(refused, Err(why.to_owned()));

        drop(ends);
        while RUNS.0.load(Ordering::SeqCst) > 0 {
            thread::yield_now();
        }
        assert_eq!(RUNS.run(MINUTE, || 7), Ok(7));
    }
}
