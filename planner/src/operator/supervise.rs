//! Supervision of a controller's task: one that panics or ends by itself is started anew after a growing pause. One
//! that does so again and again ends the process, because a planner that does not plan must not look alive.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep};

/// Pause before a controller that ended unexpectedly is started anew; doubled with each further end.
pub const RESTART_AFTER: Duration = Duration::from_secs(1);
/// Maximum of that pause.
pub const RESTART_AFTER_MAX: Duration = Duration::from_secs(60);
/// Number of unexpected ends within [`RESTARTS_WINDOW`] after which a controller is started anew; one more ends the
/// process.
pub const RESTARTS_MAX: usize = 5;
/// Window of [`RESTARTS_MAX`].
pub const RESTARTS_WINDOW: Duration = Duration::from_secs(600);

/// Unexpected end of a controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnexpectedEnd {
    /// Reason, for people.
    pub(super) why: String,
    /// Number of unexpected ends within [`RESTARTS_WINDOW`], this one included.
    pub(super) count: usize,
    /// Pause before it is started anew.
    pub(super) pause: Duration,
}

/// Times of the unexpected ends of one controller. Pure.
#[derive(Debug, Default)]
struct Ends(VecDeque<Instant>);

impl Ends {
    /// Records an end. Returns the number of ends in the window and the pause; `None` if there were too many.
    fn record(&mut self, now: Instant) -> Option<(usize, Duration)> {
        self.0
            .retain(|at| now.duration_since(*at) < RESTARTS_WINDOW);
        self.0.push_back(now);
        let count = self.0.len();
        let doublings = u32::try_from(count).unwrap_or(u32::MAX).saturating_sub(1);
        let pause = RESTART_AFTER.saturating_mul(2_u32.saturating_pow(doublings));
        (count <= RESTARTS_MAX).then_some((count, pause.min(RESTART_AFTER_MAX)))
    }
}

/// Runs the tasks that `start` creates, one after the other, until `stop` is set and the task has ended. Calls `report`
/// with each unexpected end.
///
/// # Errors
/// Fails with the reason of the latest end if there were more than [`RESTARTS_MAX`] of them.
pub(super) async fn supervise<T, R>(
    mut start: impl FnMut() -> T,
    mut stop: watch::Receiver<bool>,
    mut report: impl FnMut(UnexpectedEnd) -> R,
) -> Result<(), String>
where
    T: Future<Output = ()> + Send + 'static,
    R: Future<Output = ()>,
{
    let mut ends = Ends::default();
    loop {
        // The task ends with the set.
        let mut tasks = JoinSet::new();
        tasks.spawn(start());
        let ended = tasks.join_next().await;
        if *stop.borrow() {
            return Ok(());
        }
        let why = match ended {
            Some(Err(error)) => reason(error),
            Some(Ok(())) | None => "it ended by itself".to_owned(),
        };
        let Some((count, pause)) = ends.record(Instant::now()) else {
            return Err(why);
        };
        let end = UnexpectedEnd { why, count, pause };
        let restart = async {
            tokio::join!(report(end), sleep(pause));
        };
        tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => return Ok(()),
            () = restart => {}
        }
    }
}

/// Returns the message of a panic.
fn reason(error: JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else {
        return "it was cancelled".to_owned();
    };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("it panicked: {}", text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn ends_are_counted_within_window_and_pauses_double() {
        let (mut ends, mut now) = (Ends::default(), Instant::now());
        for count in 1..=RESTARTS_MAX {
            let (counted, pause) = ends.record(now).unwrap();
            assert_eq!(
                (counted, pause.as_secs()),
                (count, 1 << (count - 1)),
                "{count}"
            );
        }
        assert_eq!(ends.record(now), None);
        now += RESTARTS_WINDOW;
        assert_eq!(ends.record(now), Some((1, RESTART_AFTER)));
    }

    /// Supervises a task that panics the first `panics` times and then runs until `stop` is set. Returns the
    /// unexpected ends, the number of starts and the result.
    async fn supervised(panics: usize) -> (Vec<UnexpectedEnd>, usize, Result<(), String>) {
        let (stop, stopped) = watch::channel(false);
        let starts = Arc::new(AtomicUsize::new(0));
        let (counted, ends) = (Arc::clone(&starts), std::sync::Mutex::new(Vec::new()));
        let start = || {
            let (stop, nth) = (stop.clone(), counted.fetch_add(1, Ordering::Relaxed));
            async move {
                assert!(nth >= panics, "broken {nth}");
                stop.send_replace(true);
            }
        };
        let result = supervise(start, stopped, |end| {
            ends.lock().unwrap().push(end);
            std::future::ready(())
        });
        let result = result.await;
        (
            ends.into_inner().unwrap(),
            starts.load(Ordering::Relaxed),
            result,
        )
    }

    #[tokio::test(start_paused = true)]
    async fn task_that_panics_is_started_anew() {
        let began = Instant::now();
        let (ends, starts, result) = supervised(2).await;
        assert_eq!((starts, result), (3, Ok(())));
        let second = UnexpectedEnd {
            why: "it panicked: broken 1".to_owned(),
            count: 2,
            pause: RESTART_AFTER * 2,
        };
        assert_eq!(ends[1], second);
        assert_eq!(began.elapsed(), RESTART_AFTER * 3);
    }

    #[tokio::test(start_paused = true)]
    async fn task_that_ends_by_itself_is_started_anew_unless_it_is_stopped_in_the_pause() {
        let ((stop, stopped), mut starts) = (watch::channel(false), 0);
        let start = || {
            starts += 1;
            std::future::ready(())
        };
        let began = Instant::now();
        let result = supervise(start, stopped, async |end: UnexpectedEnd| {
            assert_eq!(end.why, "it ended by itself");
            if end.count == 2 {
                stop.send_replace(true);
            }
        });
        assert_eq!(result.await, Ok(()));
        assert_eq!((starts, began.elapsed()), (2, RESTART_AFTER));
    }

    #[tokio::test(start_paused = true)]
    async fn task_that_panics_again_and_again_is_given_up() {
        let (ends, starts, result) = supervised(usize::MAX).await;
        assert_eq!((ends.len(), starts), (RESTARTS_MAX, RESTARTS_MAX + 1));
        assert_eq!(result, Err("it panicked: broken 5".to_owned()));
    }
}
