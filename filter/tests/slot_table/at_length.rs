//! The long check.

use std::time::Duration;

use super::{BRIEF, Bound, Budget, LONG, Proxy, check_all};

/// Larger budgets; then all events at once, on random walks. `cargo xtask check-slot-table`.
#[test]
#[ignore = "takes minutes and gigabytes: cargo xtask check-slot-table"]
fn keeps_its_promises_at_length() {
    let base = Budget {
        arrivals: 3,
        urgencies: 3,
        ..Budget::default()
    };
    let [mut slow, mut lost, mut orphans] = [base; 3];
    slow.slow = 2;
    (lost.lost, lost.early) = (1, 1);
    orphans.abandons = 2;
    let two = Budget {
        arrivals: 2,
        urgencies: 2,
        ..base
    };
    let [mut deaths, mut long, mut corrupted, mut worst] = [two; 4];
    deaths.deaths = 2;
    long.deaths = 1;
    (corrupted.corruptions, corrupted.lost) = (1, 1);
    (worst.corruptions, worst.deaths, worst.arrivals) = (1, 1, 1);
    let all = Budget {
        arrivals: 40,
        urgencies: 4,
        abandons: 10,
        deaths: 5,
        lost: 10,
        slow: 20,
        early: 20,
        corruptions: 2,
    };
    let span = Duration::from_secs(30);
    check_all(vec![
        ("busy", Proxy::new([1, 1, 1], BRIEF, base), Bound::All),
        ("slow", Proxy::new([3, 0, 0], BRIEF, slow), Bound::All),
        ("contended", Proxy::new([3, 0, 0], BRIEF, lost), Bound::All),
        (
            "clients leave",
            Proxy::new([2, 1, 0], BRIEF, orphans),
            Bound::All,
        ),
        ("deaths", Proxy::new([2, 1, 0], BRIEF, deaths), Bound::All),
        (
            "a death amid long work",
            Proxy::new([2, 1, 0], LONG, long),
            Bound::All,
        ),
        (
            "spoilt",
            Proxy::new([1, 1, 1], BRIEF, corrupted),
            Bound::All,
        ),
        (
            "spoilt and a death",
            Proxy::new([2, 1, 0], BRIEF, worst),
            Bound::All,
        ),
        (
            "in twos, contended",
            Proxy::new([2, 0, 0], BRIEF, lost).in_twos(),
            Bound::All,
        ),
        (
            "sent ahead, busy",
            Proxy::new([1, 1, 1], BRIEF, two).ahead(),
            Bound::All,
        ),
        (
            "in twos, deaths",
            Proxy::new([2, 1, 0], BRIEF, deaths).in_twos(),
            Bound::All,
        ),
        (
            "all, brief",
            Proxy::new([1, 1, 1], BRIEF, all),
            Bound::Walks { seed: 1, span },
        ),
        (
            "all, long",
            Proxy::new([1, 1, 1], LONG, all),
            Bound::Walks { seed: 2, span },
        ),
    ]);
}
