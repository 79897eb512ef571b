//! Batches: company is waited for, but nobody is made late by it.

use super::*;

fn batcher(rest: &str) -> Engine {
    let batched = variant("a", 1.0, 8, 100.0).replace("\"slots\"", "\"batch\":4,\"slots\"");
    engine(&[batched], rest)
}

#[test]
fn a_full_batch_leaves_together() {
    let mut engine = batcher("");
    for stream in 1..=3 {
        assert_eq!(ask(&mut engine, stream, 1000, at(0)), Verdict::Park);
    }
    let fourth = ask(&mut engine, 4, 1000, at(5));
    let mut left = forwarded(&release(&mut engine, at(5)));
    if matches!(fourth, Verdict::Forward(_)) {
        left.push(4);
    }
    left.sort_unstable();
    assert_eq!(left, [1, 2, 3, 4]);
}

#[test]
fn one_that_can_wait_no_longer_goes_with_whoever_is_there() {
    let mut engine = batcher("");
    ask(&mut engine, 1, 500, at(0));
    ask(&mut engine, 2, 900, at(0));
    assert_eq!(release(&mut engine, at(390)), []);
    let wake = engine.next_wake(at(390).mono).unwrap();
    assert!(wake <= at(400).mono, "{wake:?}");
    let mut left = forwarded(&release(&mut engine, at(396)));
    left.sort_unstable();
    assert_eq!(left, [1, 2]);
}

/// A timer that is late by less than the prediction is sure of makes nobody late.
#[test]
fn the_longer_it_takes_the_earlier_it_leaves() {
    for (service_ms, due_ms) in [(16.0, 1979), (160.0, 1830), (800.0, 1150)] {
        let batched =
            variant("a", 1.0, 8, service_ms).replace("\"slots\"", "\"batch\":4,\"slots\"");
        let mut engine = engine(&[batched], "");
        ask(&mut engine, 1, 2000, at(0));
        assert_eq!(release(&mut engine, at(due_ms - 1)), [], "{service_ms}");
        assert_eq!(forwarded(&release(&mut engine, at(due_ms))), [1]);
    }
}

#[test]
fn patience_may_be_bounded() {
    let mut engine = batcher(r#","queue":{"batch_wait_ms":20}"#);
    ask(&mut engine, 1, 5000, at(0));
    assert_eq!(release(&mut engine, at(19)), []);
    assert_eq!(forwarded(&release(&mut engine, at(20))), [1]);
}

#[test]
fn one_late_member_is_refused_alone() {
    let mut engine = batcher("");
    ask(&mut engine, 1, 120, at(0));
    ask(&mut engine, 2, 900, at(0));
    // Nobody looked while the first could still have gone.
    let told = release(&mut engine, at(60));
    assert_eq!(told.len(), 1);
    assert_eq!(
        (told[0].0, reason(&told[0].1)),
        (1, Some(Reason::Infeasible))
    );
    ask(&mut engine, 3, 900, at(60));
    ask(&mut engine, 4, 900, at(60));
    let fifth = ask(&mut engine, 5, 900, at(60));
    let left = forwarded(&release(&mut engine, at(60))).len();
    assert_eq!(left + usize::from(matches!(fifth, Verdict::Forward(_))), 4);
}
