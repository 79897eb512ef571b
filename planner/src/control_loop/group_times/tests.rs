//! Groups that plans tell apart, by what all proxies measured.

use std::sync::Arc;

use super::*;
use crate::observe::{Counts, ScrapeError, reported};

/// One proxy's sums of variant `a` since its start: executions and ratio of each group.
fn scrape(from: &str, groups: &[(&str, f64, f64)]) -> Scrape {
    let each = groups.iter();
    let each = each.map(|(group, count, ratio)| {
        let sums = reported(Moments::with(*count, *ratio, ratio / 10.0));
        ((*group).to_owned(), sums)
    });
    let groups = [("a".to_owned(), each.collect())].into();
    Scrape {
        from: from.into(),
        at: Duration::ZERO,
        counts: Ok(Counts {
            groups: Arc::new(groups),
            ..Counts::default()
        }),
    }
}

fn lost(from: &str) -> Scrape {
    Scrape {
        counts: Err(ScrapeError::Status(503)),
        ..scrape(from, &[])
    }
}

fn see(times: &mut GroupTimes, second: u64, scrapes: &[Scrape]) -> Vec<(String, f64)> {
    let at = Duration::from_secs(second);
    times.see(at, scrapes, ["a"].into_iter());
    let published = times.variants[0].published.iter();
    published.map(|it| (it.group.clone(), it.mean)).collect()
}

fn list(groups: &[(&str, f64)]) -> Vec<(String, f64)> {
    let each = groups.iter();
    each.map(|(group, mean)| ((*group).to_owned(), *mean))
        .collect()
}

const LONG: &str = "class-long";
const SHORT: &str = "class-short";

#[test]
fn groups_are_distinct_by_few_executions_at_each_of_many_proxies() {
    let mut times = GroupTimes::new(1);
    let proxies = |count: f64| -> Vec<Scrape> {
        let one = |index: u32| {
            scrape(
                &format!("p{index}"),
                &[(SHORT, count, 0.5), (LONG, count, 2.0)],
            )
        };
        (0..10).map(one).collect()
    };
    assert_eq!(see(&mut times, 0, &proxies(0.0)), []);
    assert_eq!(see(&mut times, 1, &proxies(1.0)), [], "ten of each");
    let expected = list(&[(LONG, 2.0), (SHORT, 0.5)]);
    assert_eq!(see(&mut times, 2, &proxies(4.0)), expected);
    let all_lost: Vec<_> = (0..10).map(|index| lost(&format!("p{index}"))).collect();
    for second in 3..100 {
        assert_eq!(
            see(&mut times, second, &all_lost),
            expected,
            "unknown is not zero"
        );
    }
}

/// A hundred executions of each group, with these ratios, in one second.
#[track_caller]
fn check(groups: &[(&str, f64)], expected: &[(&str, f64)]) {
    let mut times = GroupTimes::new(1);
    let all = |count: f64| -> Vec<_> {
        let each = groups.iter();
        each.map(|(group, ratio)| (*group, count, *ratio)).collect()
    };
    see(&mut times, 0, &[scrape("p", &all(0.0))]);
    let found = see(&mut times, 1, &[scrape("p", &all(100.0))]);
    assert_eq!(found, list(expected), "{groups:?}");
}

#[test]
fn what_explains_more_is_published() {
    let sizes = [("size-0", 0.5), ("size-1024", 1.0), ("size-4096", 1.5)];
    check(&sizes, &sizes);
    let classes = [(LONG, 2.0), (SHORT, 0.5)];
    check(&classes, &classes);
    check(&[&classes[..], &sizes].concat(), &classes);
    let near = [(LONG, 1.1), (SHORT, 0.9)];
    check(&[&near[..], &sizes].concat(), &sizes);
    check(&[(LONG, 1.0), (SHORT, 1.02)], &[]);
    check(&[(LONG, 2.0)], &[]);
    check(&[("other", 2.0), (SHORT, 1.0)], &[]);
}

#[test]
fn plans_change_rarely_and_only_if_times_have_moved() {
    let mut times = GroupTimes::new(1);
    let (mut count, mut sums) = (0.0, 0.0);
    let mut changes = Vec::new();
    let mut before = Vec::new();
    see(&mut times, 0, &[scrape("p", &[])]);
    for second in 1..=60 {
        // From second 30 on the long ones take three times as long.
        let ratio = if second < 30 { 2.0 } else { 6.0 };
        (count, sums) = (count + 50.0, sums + 50.0 * ratio);
        let long = (LONG, count, sums / count);
        let found = see(
            &mut times,
            second,
            &[scrape("p", &[long, (SHORT, count, 0.5)])],
        );
        if found != before {
            changes.push(second);
            before = found;
        }
    }
    assert!(
        changes.windows(2).all(|two| two[1] - two[0] >= 10),
        "{changes:?}"
    );
    assert!((2..=5).contains(&changes.len()), "{changes:?}");
    let mean = before.iter().find(|(name, _)| name == LONG).unwrap().1;
    assert!((5.0..7.0).contains(&mean), "{mean}");
}

#[test]
fn groups_without_executions_are_forgotten_in_minutes() {
    let mut times = GroupTimes::new(1);
    see(&mut times, 0, &[scrape("p", &[])]);
    let sums = [scrape("p", &[(SHORT, 30.0, 0.5), (LONG, 30.0, 2.0)])];
    assert_eq!(see(&mut times, 1, &sums).len(), 2);
    assert_eq!(see(&mut times, 60, &sums).len(), 2);
    for second in 61..400 {
        see(&mut times, second, &sums);
    }
    assert_eq!(see(&mut times, 400, &sums), []);
}
