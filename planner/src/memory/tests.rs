//! Memory over a restart: what is restored, written, and noted where that fails.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_forecast::learnt::{LearntChoice, LearntMember};

use super::*;
use crate::clock::Clock;
use crate::forecast::{History, Measured};
use crate::observe::{RequestIncrease, RequestSample, VariantIncrease};

fn now(second: u64) -> Now {
    Now {
        at: Duration::from_secs(second),
        unix_ms: 1_000_000 + 1000 * second,
    }
}

fn handle() -> ServiceHandle {
    ServiceHandle::new(crate::spec::tests::service(8), Clock::start()).unwrap()
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
    let mut memory = Memory::restore(file.clone(), &mut empty, &handle(), now(0));
    assert_eq!(known(&empty, 0), None);
    memory.keep(&empty, now(0));
    assert!(memory.writing.is_none(), "nothing is known");
    memory.keep(&first, now(4));
    assert!(memory.writing.is_none(), "not due");
    memory.keep(&first, now(5));
    let written = memory.writing.as_mut().unwrap().await.unwrap();
    assert!(matches!(written.texts, Some(Ok(()))), "{written:?}");
    assert!(written.requests.is_none(), "{written:?}");
    memory.writing = None;
    memory.end(&first, now(7)).await;
    let mut second = planner();
    Memory::restore(file, &mut second, &handle(), now(9));
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
    let memory = Memory::restore(file.clone(), &mut first, &handle(), now(0));
    memory.end(&first, now(0)).await;
    let learnt = |planner: &Planner, second: u64| {
        let (learnt, age) = planner.forecast_learnt(now(second)).unwrap();
        (learnt.members, learnt.choice, age)
    };
    let before = learnt(&first, 0);
    assert!(before.1.horizons > 100.0, "{before:?}");
    let mut second = seasonal("2m");
    Memory::restore(file.clone(), &mut second, &handle(), now(7));
    let restored = learnt(&second, 7);
    assert_eq!(restored.2, Duration::from_secs(7));
    // Text has almost all digits.
    let shown =
        |members: &Vec<LearntMember>, choice: &LearntChoice| format!("{members:.6?} {choice:.6?}");
    assert_eq!(shown(&restored.0, &restored.1), shown(&before.0, &before.1));
    // Where the history is forgotten, the season is not.
    let (past, _) = file.read_learnt(now(2 * 3600)).unwrap().unwrap();
    assert_eq!(
        shown(&past.members, &past.choice),
        shown(&before.0, &before.1)
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
        Memory::restore(file.clone(), &mut other, &handle(), now(7));
        let (members, _, _) = learnt(&other, 7);
        assert_ne!(shown(&members, &before.1), shown(&before.0, &before.1));
        assert!(known(&other, 7).is_some(), "{text:?}");
    }
}

#[tokio::test]
async fn failed_write_is_noted_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let file = StateFile::new(&missing, "demo");
    let who = file.path().display().to_string();
    let first = knowing();
    let mut memory = Memory::restore(file, &mut planner(), &handle(), now(0));
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

/// A sample of one proxy with that many arrivals, all on time by a.
fn sample(arrivals: u32) -> RequestSample {
    let a = VariantIncrease {
        on_time: arrivals.into(),
        ..VariantIncrease::default()
    };
    let increase = RequestIncrease {
        arrivals: arrivals.into(),
        variants: [("a".to_owned(), a)].into(),
        ..RequestIncrease::default()
    };
    RequestSample {
        answered: true,
        proxies: [("x".into(), increase.into())].into(),
        ..RequestSample::default()
    }
}

/// Arrivals and covered seconds of the 5 minutes.
fn requests(handle: &ServiceHandle, second: u64) -> (u64, f64) {
    let at = now(second).at;
    let status = (handle.status).request_status(at, &handle.service, &BTreeMap::new());
    let window = &status.windows[0];
    (window.counts.arrivals, window.covered_s)
}

#[tokio::test]
async fn requests_go_on_unless_the_status_has_some() {
    let folder = tempfile::tempdir().unwrap();
    let file = StateFile::new(folder.path(), "demo");
    let first = handle();
    for second in 0..=10 {
        first.status.add_requests(now(second).at, sample(3));
    }
    assert_eq!(requests(&first, 10), (33, 10.0));
    // Nothing is known of the load.
    let memory = Memory::restore(file.clone(), &mut planner(), &first, now(10));
    memory.end(&planner(), now(11)).await;
    assert!(!file.path().exists());
    let second = handle();
    Memory::restore(file.clone(), &mut planner(), &second, now(60));
    assert_eq!(requests(&second, 60), (33, 10.0));
    // The time in which no planner ran is no time without requests.
    second.status.add_requests(now(61).at, sample(0));
    second.status.add_requests(now(62).at, sample(4));
    assert_eq!(requests(&second, 62), (37, 11.0));
    Memory::restore(file.clone(), &mut planner(), &second, now(63));
    assert_eq!(requests(&second, 63), (37, 11.0), "not twice");
    // A planner of other variants begins anew.
    let mut service = crate::spec::tests::service(8);
    service.variants[0].name = "c".to_owned();
    let other = ServiceHandle::new(service, Clock::start()).unwrap();
    Memory::restore(file.clone(), &mut planner(), &other, now(63));
    assert_eq!(requests(&other, 63), (0, 0.0));
}

#[tokio::test]
async fn requests_that_cannot_be_written_are_noted_by_their_own_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = StateFile::new(folder.path(), "demo");
    std::fs::create_dir(file.requests_path()).unwrap();
    let who = |path: &std::path::Path| path.display().to_string();
    let (load, requests) = (who(file.path()), who(&file.requests_path()));
    let handle = handle();
    handle.status.add_requests(now(1).at, sample(3));
    let mut memory = Memory::restore(file, &mut planner(), &handle, now(1));
    for (second, failures) in [(1, None), (6, Some(1))] {
        memory.keep(&knowing(), now(second));
        assert_eq!(memory.log.count(&requests), failures, "{second} s");
        assert_eq!(memory.log.count(&load), None, "{second} s");
        while !memory.writing.as_ref().unwrap().is_finished() {
            tokio::task::yield_now().await;
        }
    }
}
