//! Memory of one control loop beyond its process: restored at its begin, written from time to time beside the cycles, and
//! once more at its end. A slow or full disk never delays a cycle.

use std::time::Duration;

use tokio::task::JoinHandle;

use crate::clock::Now;
use crate::control_loop::Planner;
use crate::error_log::ErrorLog;
use crate::state::{LEARNT_INTERVAL, Past, STATE_INTERVAL, StateError, StateFile};

/// Fallback while the file cannot be written.
const FALLBACK: &str = "a planner that starts anew will not know the load";

/// Files of a control loop's service, and the write under way.
#[derive(Debug)]
pub(crate) struct Memory {
    file: StateFile,
    written: Option<Duration>,
    learnt_written: Option<Duration>,
    writing: Option<JoinHandle<Result<(), StateError>>>,
    log: ErrorLog,
}

/// Texts of the files.
#[derive(Debug)]
struct Texts {
    history: String,
    learnt: Option<String>,
}

impl Texts {
    fn write(&self, file: &StateFile) -> Result<(), StateError> {
        file.write(&self.history)?;
        self.learnt
            .as_ref()
            .map_or(Ok(()), |learnt| file.write_learnt(learnt))
    }
}

impl Memory {
    /// Lets a new planner continue from the files. Without a valid one it begins without what would be in it, and the
    /// log says why.
    pub(crate) fn restore(file: StateFile, planner: &mut Planner, now: Now) -> Memory {
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
        Memory {
            file,
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
            self.note(result.unwrap_or(Ok(())));
        }
        self.written = Some(now.at);
        let learns = is_due(self.learnt_written, LEARNT_INTERVAL);
        if learns {
            self.learnt_written = Some(now.at);
        }
        let file = self.file.clone();
        let texts = self.texts(planner, learns, now);
        self.writing = texts.map(|texts| tokio::task::spawn_blocking(move || texts.write(&file)));
    }

    /// Writes what is known at the end.
    pub(crate) async fn end(mut self, planner: &Planner, now: Now) {
        if let Some(before) = self.writing.take() {
            // Two writes at once would mix.
            let _ = before.await;
        }
        if let Some(texts) = self.texts(planner, true, now) {
            let result = texts.write(&self.file);
            self.note(result);
        }
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

    use weir_forecast::learnt::{LearntChoice, LearntMember};

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
        let past = Past {
            history: Some((history, Duration::ZERO)),
            learnt: None,
        };
        planner.restore(now(0), &past).unwrap();
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

    /// A planner whose forecasters follow a season of two minutes.
    fn seasonal(season: &str) -> Planner {
        let mut text = crate::spec::tests::small();
        let keys = format!("mode: active\ndemand: {{forecaster: auto, season: {season}}}");
        text = text.replacen("mode: active", &keys, 1);
        Planner::new(Arc::new(crate::service::Service::from_yaml(&text).unwrap()))
    }

    #[tokio::test]
    async fn forecasters_begin_with_what_they_learned_unless_it_does_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let one = |second: u64| Measured {
            gap: Duration::ZERO,
            span: Duration::from_secs(1),
            rate: if second % 120 < 60 { 20.0 } else { 60.0 },
        };
        let history = History::new((0..1200).map(one), Duration::ZERO).unwrap();
        let past = Past {
            history: Some((history, Duration::ZERO)),
            learnt: None,
        };
        let mut first = seasonal("2m");
        first.restore(now(0), &past).unwrap();
        let file = StateFile::new(folder.path(), "demo");
        let memory = Memory::restore(file.clone(), &mut first, now(0));
        memory.end(&first, now(0)).await;
        let learnt = |planner: &Planner, second: u64| {
            let (learnt, age) = planner.forecast_learnt(now(second)).unwrap();
            (learnt.members, learnt.choice, age)
        };
        let known = learnt(&first, 0);
        assert!(known.1.horizons > 100.0, "{known:?}");
        let mut second = seasonal("2m");
        Memory::restore(file.clone(), &mut second, now(7));
        let restored = learnt(&second, 7);
        assert_eq!(restored.2, Duration::from_secs(7));
        // Text has almost all digits.
        let shown = |members: &Vec<LearntMember>, choice: &LearntChoice| {
            format!("{members:.6?} {choice:.6?}")
        };
        assert_eq!(shown(&restored.0, &restored.1), shown(&known.0, &known.1));
        // Where the history is forgotten, the season is not.
        let (past, _) = file.read_learnt(now(2 * 3600)).unwrap().unwrap();
        assert_eq!(
            shown(&past.members, &past.choice),
            shown(&known.0, &known.1)
        );
        assert_eq!(file.read(now(2 * 3600)).unwrap(), None);
        // The history is taken over also where the rest does not fit, or is broken.
        for text in [
            None,
            Some("{}"),
            Some("{\"format\":\"weir-learnt\",\"version\":1}"),
        ] {
            if let Some(text) = text {
                std::fs::write(file.learnt_path(), text).unwrap();
            }
            let mut other = seasonal("3m");
            Memory::restore(file.clone(), &mut other, now(7));
            let (members, _, _) = learnt(&other, 7);
            assert_ne!(shown(&members, &known.1), shown(&known.0, &known.1));
            assert!(super::tests::known(&other, 7).is_some(), "{text:?}");
        }
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
