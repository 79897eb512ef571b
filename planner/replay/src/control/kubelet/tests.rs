//! Changes of single servers, and their faults.

use std::time::Duration;

use super::*;
use crate::scenario::ResizeFault;
use crate::simulation::tests::{ms, server};

fn kubelet() -> Kubelet {
    let mut server = server("a", 10.0, 0.0);
    (server.resize_delay, server.readiness) = (ms(2), ms(5));
    Kubelet::new(&[server], &[Cores::ZERO])
}

#[test]
fn change_continues_until_replaced_by_another() {
    let mut kubelet = kubelet();
    let (two, three) = (Cores::whole(2), Cores::whole(3));
    // 2 ms for the resize, and 5 more to load.
    assert_eq!(kubelet.request(0, 0, two), Some(7_000_000));
    assert_eq!(kubelet.request(1_000_000, 0, two), Some(7_000_000));
    assert_eq!(kubelet.request(1_000_000, 0, three), Some(8_000_000));
    let started = kubelet.take_started();
    assert_eq!(started.len(), 2, "the same change was not begun twice");
    assert_eq!(kubelet.pending(0, started[0].ticket), None);
    let change = kubelet.pending(0, started[1].ticket).unwrap();
    assert_eq!(kubelet.confirmed(), [Cores::ZERO]);
    kubelet.confirm(change);
    assert_eq!(kubelet.confirmed(), [three]);
    assert_eq!(kubelet.request(9_000_000, 0, three), Some(9_000_000));
    // The model is loaded already.
    assert_eq!(kubelet.request(9_000_000, 0, two), Some(11_000_000));
}

#[test]
fn replicas_that_load_continue_until_fewer_suffice() {
    let mut kubelet = kubelet();
    let grow = |kubelet: &mut Kubelet, now, cores| {
        kubelet.request_loading(now, 0, Cores::whole(cores), Loading::Replicas)
    };
    assert_eq!(grow(&mut kubelet, 0, 2), Some(7_000_000));
    let change = kubelet.take_started()[0];
    kubelet.confirm(change);
    // A third replica loads too; the fourth waits for it.
    assert_eq!(grow(&mut kubelet, 10_000_000, 3), Some(17_000_000));
    assert_eq!(grow(&mut kubelet, 11_000_000, 4), Some(17_000_000));
    assert_eq!(grow(&mut kubelet, 12_000_000, 1), Some(14_000_000));
    assert_eq!(kubelet.take_started().len(), 2);
}

#[test]
fn replaced_server_serves_until_the_new_one_is_ready() {
    let mut kubelet = kubelet();
    let loading = Loading::Replacement {
        ready_after: kubelet.ready_after(0),
    };
    let two = Cores::whole(2);
    assert_eq!(kubelet.request_loading(0, 0, two, loading), Some(7_000_000));
    let change = kubelet.take_started()[0];
    assert_eq!(change.in_force_at, 2_000_000, "nothing is replaced");
    kubelet.confirm(change);
    let one = Cores::whole(1);
    assert_eq!(kubelet.request_loading(0, 0, one, loading), Some(7_000_000));
    assert!(kubelet.is_changing());
    assert_eq!(kubelet.take_started()[0].in_force_at, 7_000_000);
}

#[test]
fn changes_are_refused_and_deferred_during_faults() {
    let mut kubelet = kubelet();
    kubelet.faults.begin(ResizeFault::Refused, None, 10);
    assert_eq!(kubelet.request(9, 0, Cores::whole(1)), None);
    let end = crate::nanos(Duration::from_secs(1));
    kubelet.faults.begin(ResizeFault::Deferred, None, end);
    assert_eq!(kubelet.request(10, 0, Cores::whole(1)), Some(1_005_000_000));
}

#[test]
fn interrupted_change_leaves_the_cores() {
    let mut kubelet = kubelet();
    let change = Resize {
        variant: 0,
        target: Target::one(Cores::whole(2)),
        ready: Allocation::NONE,
        limited: false,
    };
    let at = kubelet.resize(0, &change).unwrap().at;
    assert_eq!(at, 7_000_000);
    assert!(kubelet.resized(&change).is_ok());
    kubelet.interrupt(1_999_999, Some(1));
    assert!(kubelet.resized(&change).is_ok(), "of another variant");
    kubelet.interrupt(2_000_000, None);
    assert!(
        kubelet.resized(&change).is_ok(),
        "its cores are in force, and it loads"
    );
    kubelet.interrupt(1_999_999, None);
    assert_eq!(kubelet.resized(&change), Err(interrupted()));
    assert_eq!(kubelet.actual(0), one(Cores::ZERO));
}
