//! Fetches shared by services, in virtual time.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tokio::time::sleep;
use weir_api::Rps;

use super::*;
use crate::observe::{Arrivals, Observe, Scrape, ScrapeTargets, Scraper, Span};

const PROXY: &str = "http://proxy/stats";

/// A proxy whose counters are the milliseconds since the start when a fetch began, and whose answers take as long as
/// `delays` says, by the number of the fetch; after the last it never answers. `None` is a failure at once.
fn fetches(clock: Clock, delays: &[Option<u64>]) -> (Fetches, Arc<AtomicUsize>) {
    let (delays, count) = (delays.to_vec(), Arc::new(AtomicUsize::new(0)));
    let number = Arc::clone(&count);
    let read = move |_, mut fold: Fold| -> BoxFuture<'static, _> {
        let delay = delays.get(number.fetch_add(1, Ordering::Relaxed)).copied();
        let ms = clock.now().at.as_millis();
        Box::pin(async move {
            match delay {
                None => std::future::pending::<()>().await,
                Some(None) => return Err(ScrapeError::Status(503)),
                Some(Some(ms)) => sleep(Duration::from_millis(ms)).await,
            }
            for service in ["a", "b"] {
                let line = format!("weir_arrivals_total__service__{service} {ms}\n");
                fold.push(line.as_bytes())?;
            }
            fold.finish()
        })
    };
    (Fetches::with(clock, read), count)
}

fn scraper(fetches: &Fetches, stage: &str, age_max_ms: u64, timeout_ms: u64) -> Scraper {
    let targets = ScrapeTargets::Fixed(vec![PROXY.parse().unwrap()]);
    let [age_max, timeout] = [age_max_ms, timeout_ms].map(Duration::from_millis);
    Scraper::sharing(fetches, &[stage], targets, age_max, timeout)
}

/// Time of the answer in ms, and the count in it.
type Scraped = (u128, Result<f64, ScrapeError>);

async fn scrape(scraper: &Scraper) -> Scraped {
    let scrapes = scraper.scrape().await;
    let [Scrape { at, counts, .. }] = &*scrapes else {
        panic!("{scrapes:?}");
    };
    let arrivals = counts.as_ref().map(|counts| counts.arrivals);
    (at.as_millis(), arrivals.map_err(ScrapeError::clone))
}

async fn pass(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn services_share_a_fetch_and_none_takes_an_answer_twice() {
    let (fetches, count) = fetches(Clock::start(), &[Some(10); 9]);
    let [a, b] = ["a", "b"].map(|stage| scraper(&fetches, stage, 100, 50));
    assert_eq!(
        tokio::join!(scrape(&a), scrape(&b)),
        ((10, Ok(0.0)), (10, Ok(0.0)))
    );
    pass(40).await;
    // Each has had the latest answer.
    assert_eq!(scrape(&a).await, (60, Ok(50.0)));
    pass(100).await;
    assert_eq!(scrape(&b).await, (60, Ok(50.0)), "100 ms old");
    assert_eq!(count.load(Ordering::Relaxed), 2);
    let c = scraper(&fetches, "a", 100, 50);
    pass(1).await;
    assert_eq!(scrape(&c).await, (171, Ok(161.0)), "101 ms old");
}

#[tokio::test(start_paused = true)]
async fn service_that_came_after_a_fetch_began_has_its_own() {
    let (fetches, count) = fetches(Clock::start(), &[Some(10); 9]);
    let a = scraper(&fetches, "a", 1000, 50);
    assert_eq!(scrape(&a).await, (10, Ok(0.0)));
    let b = scraper(&fetches, "b", 1000, 50);
    assert_eq!(scrape(&b).await, (20, Ok(10.0)));
    // That one read both.
    assert_eq!(scrape(&a).await, (20, Ok(10.0)));
    assert_eq!(count.load(Ordering::Relaxed), 2);
    drop(b);
    let other = scraper(&fetches, "b", 1000, 50);
    assert_eq!(scrape(&other).await, (20, Ok(10.0)));
}

#[tokio::test(start_paused = true)]
async fn timeout_is_each_services_own() {
    let clock = Clock::start();
    let (fetches, count) = fetches(clock, &[Some(30), Some(200)]);
    let [quick, slow] = [("a", 20), ("b", 40)].map(|(stage, ms)| scraper(&fetches, stage, 100, ms));
    let expired = |ms| Err(ScrapeError::Timeout(Duration::from_millis(ms)));
    let both = tokio::join!(scrape(&quick), scrape(&slow));
    assert_eq!(both, ((20, expired(20)), (30, Ok(0.0))));
    assert_eq!(scrape(&quick).await, (30, Ok(0.0)), "answered meanwhile");
    // A fetch that nobody waits for any more is ended; a later one does not join it.
    assert_eq!(scrape(&slow).await, (70, expired(40)));
    assert_eq!(scrape(&slow).await, (110, expired(40)), "never answers");
    assert_eq!(count.load(Ordering::Relaxed), 3);
}

#[tokio::test(start_paused = true)]
async fn silent_fetch_is_joined_for_an_interval_only() {
    let (fetches, count) = fetches(Clock::start(), &[]);
    let waiting = scraper(&fetches, "a", 100, 10_000);
    let waits = tokio::spawn(async move { scrape(&waiting).await });
    pass(100).await;
    let next = scraper(&fetches, "a", 100, 30);
    assert!(scrape(&next).await.1.is_err());
    assert_eq!(
        count.load(Ordering::Relaxed),
        1,
        "joined, 100 ms after it began"
    );
    assert!(scrape(&next).await.1.is_err());
    assert_eq!(count.load(Ordering::Relaxed), 2, "130 ms after it began");
    waits.abort();
}

#[tokio::test(start_paused = true)]
async fn failure_is_not_kept() {
    let (fetches, count) = fetches(Clock::start(), &[None, Some(5), None, Some(5)]);
    let [a, b] = ["a", "b"].map(|stage| scraper(&fetches, stage, 100, 50));
    assert_eq!(scrape(&a).await, (0, Err(ScrapeError::Status(503))));
    assert_eq!(scrape(&b).await, (5, Ok(0.0)));
    assert_eq!(scrape(&b).await, (5, Err(ScrapeError::Status(503))));
    // The latest answer is fresh for a service that has not had it.
    assert_eq!(scrape(&a).await, (5, Ok(0.0)));
    assert_eq!(scrape(&a).await, (10, Ok(5.0)));
    assert_eq!(count.load(Ordering::Relaxed), 4);
}

/// Scrapes a proxy once a second, with these answers; returns the errors, and how often each came.
async fn errors(answers: &[(u32, &str)]) -> Vec<(Option<ScrapeError>, u32)> {
    let all = answers
        .iter()
        .flat_map(|(times, text)| vec![(*text).to_owned(); *times as usize]);
    let (texts, number) = (Vec::from_iter(all), AtomicUsize::new(0));
    let count = texts.len();
    let read = move |_, mut fold: Fold| -> BoxFuture<'static, _> {
        let text = texts[number.fetch_add(1, Ordering::Relaxed)].clone();
        Box::pin(async move {
            fold.push(text.as_bytes())?;
            fold.finish()
        })
    };
    let scraper = scraper(&Fetches::with(Clock::start(), read), "a", 0, 50);
    let mut errors: Vec<(Option<ScrapeError>, u32)> = Vec::new();
    for _ in 0..count {
        let error = scrape(&scraper).await.1.err();
        match errors.last_mut() {
            Some((last, times)) if *last == error => *times += 1,
            _ => errors.push((error, 1)),
        }
        pass(1000).await;
    }
    errors
}

#[tokio::test(start_paused = true)]
async fn proxy_without_metrics_for_a_minute_is_without_weir() {
    let (weir, none, cut) = ("weir_slots{} 0\n", "envoy_a{} 1\n", "envoy_a{} 1");
    let none_left = Some(ScrapeError::NoneLeft);
    let (cut_short, without_weir) = (Some(ScrapeError::CutShort), Some(ScrapeError::WithoutWeir));
    assert_eq!(
        errors(&[(3, weir), (60, none), (1, weir), (1, none)]).await,
        [
            (None, 3),
            (none_left.clone(), 60),
            (None, 1),
            (none_left.clone(), 1)
        ],
        "a gap of a minute"
    );
    assert_eq!(
        errors(&[(3, weir), (20, none), (20, cut), (90, none), (1, weir)]).await,
        [
            (None, 3),
            (none_left.clone(), 20),
            (cut_short, 20),
            (none_left, 20),
            (without_weir.clone(), 70),
            (None, 1),
        ]
    );
    // One that has just started has none, for that long.
    assert_eq!(
        errors(&[(62, none), (1, weir)]).await,
        [
            (Some(ScrapeError::NoneYet), 60),
            (without_weir, 2),
            (None, 1)
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn rate_of_proxy_that_never_had_metrics_is_unknown_and_others_count() {
    let clock = Clock::start();
    let read = move |url: url::Url, mut fold: Fold| -> BoxFuture<'static, _> {
        let total = 7000 + 10 * clock.now().at.as_secs();
        let text = match url.host_str() {
            Some("bare") => "envoy_a{} 1\n".to_owned(),
            _ => format!("weir_arrivals_total__service__a{{}} {total}\n"),
        };
        Box::pin(async move {
            fold.push(text.as_bytes())?;
            fold.finish()
        })
    };
    let fetches = Fetches::with(clock, read);
    let scraper = |hosts: &[&str]| {
        let url = |host: &&str| format!("http://{host}/stats").parse().unwrap();
        let targets = ScrapeTargets::Fixed(hosts.iter().map(url).collect());
        let timeout = Duration::from_millis(50);
        Scraper::sharing(&fetches, &["a"], targets, Duration::ZERO, timeout)
    };
    let (alone, both) = (scraper(&["bare"]), scraper(&["bare", "full"]));
    let (mut of_alone, mut of_both) = (Arrivals::new(), Arrivals::new());
    for second in 0..70 {
        let at = clock.now().at;
        let seen = of_alone.observe(at, &alone.scrape().await, Span::Sample);
        assert_eq!((seen.measured, seen.answered), (None, 0), "{second}");
        let seen = of_both.observe(at, &both.scrape().await, Span::Sample);
        // What the other had counted before is no rate, and nothing else is known then.
        let expected = (second > 0).then_some(Rps(10.0));
        assert_eq!((seen.measured, seen.answered), (expected, 1), "{second}");
        let bare = if second < 60 { (1, 0) } else { (0, 1) };
        assert_eq!((seen.lost, seen.without_weir), bare, "{second}");
        pass(1000).await;
    }
}

#[tokio::test]
async fn panic_is_a_failure() {
    let read = |_, _| -> BoxFuture<'static, _> { Box::pin(async { panic!("a bug") }) };
    let fetches = Fetches::with(Clock::start(), read);
    let scraper = scraper(&fetches, "a", 100, 10_000);
    let (_, result) = scrape(&scraper).await;
    assert_eq!(
        result,
        Err(ScrapeError::Unreachable("its task ended".to_owned()))
    );
}

/// Interval, offset and timeout of a service, in ms.
type Times = (u64, u64, u64);

/// Runs services for ten seconds before a proxy; returns each one's scrapes, with the time at which each began, and the
/// number of fetches.
async fn run(services: &[Times], delays: &[Option<u64>]) -> (Vec<Vec<(u128, Scraped)>>, usize) {
    let clock = Clock::start();
    let (fetches, count) = fetches(clock, delays);
    let one = |times: &Times| {
        let ((interval, offset, timeout), fetches) = (*times, fetches.clone());
        tokio::spawn(async move {
            let scraper = scraper(&fetches, "a", interval, timeout);
            pass(offset).await;
            let mut ticks = tokio::time::interval(Duration::from_millis(interval));
            ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
            let mut scrapes = Vec::new();
            while clock.now().at < Duration::from_secs(10) {
                ticks.tick().await;
                let began = clock.now().at.as_millis();
                scrapes.push((began, scrape(&scraper).await));
            }
            scrapes
        })
    };
    let running: Vec<_> = services.iter().map(one).collect();
    let mut all = Vec::new();
    for service in running {
        all.push(service.await.unwrap());
    }
    (all, count.load(Ordering::Relaxed))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn answers_are_fresh_and_new_whoever_fetched_them(
        services in prop::collection::vec((100..1000_u64, 0..1000_u64, 10..99_u64), 1..8),
        delays in prop::collection::vec(
            prop_oneof![4 => (0..60_u64).prop_map(Some), 1 => (60..300_u64).prop_map(Some), 1 => Just(None)],
            1..60,
        ),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        let delays: Vec<_> = delays.iter().copied().cycle().take(2000).collect();
        let (all, count) = runtime.block_on(run(&services, &delays));
        let scrapes = all.iter().map(Vec::len).sum::<usize>();
        prop_assert!(count <= scrapes, "{count} fetches for {scrapes} scrapes");
        for ((interval, _, timeout), scrapes) in services.iter().zip(all) {
            let mut before = None;
            for (began, (at, result)) in scrapes {
                let ended = began + u128::from(*timeout);
                // A timer of tokio may be a millisecond late.
                prop_assert!(at + u128::from(*interval) >= began && at <= ended + 1, "{began}: {at}");
                match result {
                    Ok(count) => {
                        prop_assert!(before < Some(at), "{at} after {before:?}");
                        prop_assert!(count <= at as f64);
                        before = Some(at);
                    }
                    Err(ScrapeError::Timeout(time)) => prop_assert_eq!(time.as_millis(), u128::from(*timeout)),
                    Err(error) => prop_assert_eq!(error, ScrapeError::Status(503)),
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn services_of_one_interval_share_one_fetch_an_interval() {
    let services: Vec<Times> = (0..50).map(|index| (250, index * 37 % 250, 100)).collect();
    let (all, count) = run(&services, &[Some(3); 2000]).await;
    assert!((40..=43).contains(&count), "{count} fetches in ten seconds");
    for scrapes in all {
        let times = scrapes.iter().map(|(_, (at, result))| {
            assert!(result.is_ok(), "{result:?}");
            *at
        });
        let times: Vec<u128> = times.collect();
        for (one, next) in times.iter().zip(times.iter().skip(1)).skip(1) {
            assert!((240..=260).contains(&(next - one)), "{one} {next}");
        }
    }
}
