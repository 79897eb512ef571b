//! The concurrency limit against servers of several kinds.

use super::*;
use proptest::prelude::*;

const MAX: u32 = 64;
/// The planned time, ms.
const PLANNED: u64 = 50;

/// Executions one after the other, each sent when another ends, as long as `ms` says by how many are in flight.
struct Servers<F> {
    ms: F,
    now: Mono,
    /// Time that each request has when it arrives.
    left_ms: u64,
    batches: bool,
}

impl<F: Fn(u32) -> u64> Servers<F> {
    fn new(ms: F) -> Servers<F> {
        Servers {
            ms,
            now: Mono(1_000_000_000),
            left_ms: 60_000,
            batches: false,
        }
    }

    /// Ends `count` executions with as many in flight as `limit` lets.
    fn play(&mut self, limit: &mut Limit, count: u32) {
        for _ in 0..count {
            let in_flight = limit.exploring(limit.planned);
            let took = Span::from_millis((self.ms)(in_flight));
            let sent = self.now;
            self.now = self.now + Span::from_nanos(took.as_nanos() / u64::from(in_flight.max(1)));
            let ended = Ended {
                in_flight,
                sent,
                took,
                gap: 0,
                left: (self.left_ms * 1024 / PLANNED) as u32,
                ratio: (took.as_millis() * 1024 / PLANNED) as u32,
                batches: self.batches,
                completed: true,
            };
            limit.observe(ended, MAX, self.now);
        }
    }
}

fn planned(slots: u32) -> Limit {
    let mut limit = Limit::default();
    assert!(limit.plan(slots, 1));
    limit
}

/// A server that batches up to eight: a request that comes while a batch executes waits for it.
fn batcher(in_flight: u32) -> u64 {
    let batches = in_flight.div_ceil(8).max(2);
    let each = in_flight.div_ceil(batches).min(8);
    u64::from(batches * (42 + 3 * each))
}

#[test]
fn limit_rises_to_two_batches() {
    let mut limit = planned(1);
    Servers::new(batcher).play(&mut limit, 3_000);
    assert!((13..=24).contains(&limit.found), "{limit:?}");
}

/// A server that executes 8 at once, and a part of a batch alone.
fn in_whole_batches(in_flight: u32) -> u64 {
    let each = |size: u32| u64::from(42 + 3 * size);
    let part = match in_flight % 8 {
        0 => 0,
        part => each(part),
    };
    u64::from(in_flight / 8) * each(8) + part
}

#[test]
fn plan_with_batches_tries_whole_ones_and_keeps_two() {
    let mut limit = Limit::default();
    assert!(limit.plan(8, 2));
    let mut servers = Servers::new(in_whole_batches);
    servers.batches = true;
    let mut tried = Vec::new();
    for _ in 0..20_000 {
        servers.play(&mut limit, 1);
        if limit.is_on_trial() {
            tried.push(limit.trial);
        }
        assert!(limit.found >= 16, "{limit:?}");
    }
    tried.dedup();
    assert!(tried.len() > 2, "{tried:?}");
    assert!(tried.iter().all(|trial| trial % 8 == 0), "{tried:?}");
}

/// At first predictions are wrong, and half of what is sent is late.
#[test]
fn what_is_late_before_anything_is_learnt_lowers_nothing() {
    let mut limit = Limit::default();
    assert!(limit.plan(8, 2));
    let mut now = Mono(1_000_000_000);
    for n in 0..400 {
        let in_flight = limit.exploring(8);
        let took = Span::from_millis(batcher(in_flight));
        let sent = now;
        now = now + Span::from_nanos(took.as_nanos() / u64::from(in_flight));
        let ended = Ended {
            in_flight,
            sent,
            took,
            gap: 0,
            left: (150 * 1024 / PLANNED) as u32,
            ratio: (took.as_millis() * 1024 / PLANNED) as u32,
            batches: true,
            completed: n >= 20 || n % 2 == 0,
        };
        limit.observe(ended, MAX, sent + took);
        assert!(limit.found >= 16 && limit.now(8) >= 16, "{n}: {limit:?}");
    }
}

/// From 7 on twice as many would be in time only if the servers did more. Small steps find two batches too, and what is
/// tried costs nothing.
#[test]
fn what_is_tried_is_in_time_even_if_the_servers_do_no_more() {
    let left_ms = 150;
    let (mut limit, mut servers) = (planned(1), Servers::new(batcher));
    servers.left_ms = left_ms;
    let mut largest = 0;
    for _ in 0..3_000 {
        servers.play(&mut limit, 1);
        let takes_ms = batcher(limit.found) * u64::from(limit.trial) / u64::from(limit.found);
        if limit.is_on_trial() && limit.found > 3 {
            assert!(takes_ms <= left_ms + 10, "{limit:?}");
            largest = largest.max(limit.trial);
        }
    }
    assert!((14..=17).contains(&limit.found), "{limit:?}");
    assert!(largest > limit.found, "{largest}");
}

/// A step beyond two batches is tried first: half of it gains.
#[test]
fn step_that_gains_nothing_is_halved() {
    let mut limit = planned(11);
    Servers::new(|n: u32| if n <= 16 { 100 } else { 250 }).play(&mut limit, 400);
    assert!((14..=16).contains(&limit.found), "{limit:?}");
}

#[test]
fn limit_stays_at_the_lanes() {
    for lanes in [1, 2, 4, 16] {
        let mut limit = planned(lanes);
        let ms = |n: u32| 45 * u64::from(n).max(u64::from(lanes)) / u64::from(lanes);
        Servers::new(ms).play(&mut limit, 3_000);
        assert_eq!(limit.found, lanes, "{limit:?}");
    }
}

#[test]
fn limit_falls_to_the_planned_lanes_and_no_further() {
    let mut limit = planned(4);
    limit.found = 16;
    Servers::new(|n: u32| 45 * u64::from(n.max(4)) / 4).play(&mut limit, 20_000);
    assert!((4..=6).contains(&limit.found), "{limit:?}");
    let mut limit = planned(16);
    Servers::new(|n: u32| 45 * u64::from(n.max(4)) / 4).play(&mut limit, 20_000);
    assert_eq!(limit.found, 16);
}

/// As many slots as the servers never answer in time: the limit is what they do, and nothing is tried for long.
#[test]
fn limit_falls_below_the_planned_slots_while_answers_are_late() {
    let mut limit = planned(16);
    let mut now = Mono(1_000_000_000);
    let (deadline, mut in_time) = (135, 0);
    for n in 0..3_000 {
        let in_flight = limit.exploring(16);
        let ms = 45 * u64::from(in_flight) - 10 * (n % 3);
        let completed = ms <= deadline;
        let took = Span::from_millis(ms.min(deadline));
        let sent = now;
        now = now + Span::from_nanos(Span::from_millis(ms).as_nanos() / u64::from(in_flight));
        let ended = Ended {
            in_flight,
            sent,
            took,
            gap: 0,
            left: 1 << 20,
            ratio: (took.as_millis() * 1024 / PLANNED) as u32,
            batches: false,
            completed,
        };
        limit.observe(ended, MAX, sent + took);
        in_time += u64::from(completed && n >= 1_000);
    }
    assert!((1..=3).contains(&limit.found), "{limit:?}");
    assert!(in_time >= 1_800, "{in_time}");
}

/// A single lane idles while an answer and the next request travel. Sending ahead covers that, and keeps the order.
#[test]
fn way_to_the_server_is_no_gain() {
    let mut limit = planned(1);
    let mut now = Mono(1_000_000_000);
    for _ in 0..3_000 {
        let in_flight = limit.exploring(1);
        let took = Span::from_millis(10 + 45 * u64::from(in_flight));
        let sent = now;
        now = now + Span::from_nanos(took.as_nanos() / u64::from(in_flight));
        let ratio = |span: Span| (span.as_millis() * 1024 / PLANNED) as u32;
        let gap = ratio(Span::from_millis(10));
        let ended = Ended {
            in_flight,
            sent,
            took,
            gap,
            left: 1 << 20,
            ratio: ratio(took),
            batches: false,
            completed: true,
        };
        limit.observe(ended, MAX, now);
    }
    assert_eq!(limit.found, 1);
}

/// What kind of server it is does not change, so that trials become rare.
#[test]
fn trials_that_change_nothing_become_rare() {
    let mut limit = planned(1);
    let mut servers = Servers::new(|n| 45 * u64::from(n));
    let mut on_trial = [0, 0];
    for half in &mut on_trial {
        for _ in 0..10_000 {
            servers.play(&mut limit, 1);
            *half += u32::from(limit.is_on_trial());
        }
    }
    assert!(
        on_trial[1] * 2 < on_trial[0] && on_trial[1] < 100,
        "{on_trial:?}"
    );
}

#[test]
fn limit_falls_while_everything_is_cut_off_and_nothing_ends() {
    let mut limit = planned(16);
    let cut_off = |limit: &mut Limit, ms: u64| {
        let ended = Ended {
            in_flight: 16,
            sent: Mono(ms * 1_000_000),
            took: Span::from_millis(135),
            gap: 0,
            left: 1 << 20,
            ratio: 2765,
            batches: false,
            completed: false,
        };
        limit.observe(ended, MAX, Mono((ms + 135) * 1_000_000));
    };
    // A batch that is late as a whole lowers nothing.
    (0..16).for_each(|_| cut_off(&mut limit, 0));
    assert_eq!(limit.found, 16);
    (0..200).for_each(|n| cut_off(&mut limit, 1_000 + 10 * n));
    assert!(limit.found < 8, "{limit:?}");
}

#[test]
fn limit_follows_the_planned_slots() {
    let mut limit = planned(1);
    Servers::new(batcher).play(&mut limit, 3_000);
    let found = limit.found;
    assert_eq!(limit.now(2), found * 2, "until the next write");
    assert!(limit.plan(2, 1));
    assert_eq!((limit.now(2), limit.phase), (found * 2, Phase::Rest));
    assert!(!limit.plan(2, 1));
    assert!(!limit.plan(0, 1), "no plan gives any slot");
    let mut batches = Limit::default();
    assert!(batches.plan(8, 2));
    assert_eq!(
        batches.now(8),
        16,
        "one batch executes, and the next one waits"
    );
}

proptest! {
    #[test]
    fn any_state_and_any_execution_leave_a_limit(
        (planned, found, trial, base, lost) in any::<(u32, u32, u32, u32, u32)>(),
        (samples, cut_off, slow, sum) in any::<(u16, u16, u16, u64)>(),
        (phase, since, ended_at, next_trial) in (0..3_u8, any::<u64>(), any::<u64>(), any::<u64>()),
        (fruitless, halvings, falls, late) in any::<(u8, u8, bool, bool)>(),
        (in_flight, sent, took, ratio, completed) in any::<(u32, u64, u64, u32, bool)>(),
        (left, left_before) in any::<(u32, u32)>(),
        now: u64, max: u32,
    ) {
        let mut limit = Limit {
            planned, found: found.max(1), trial, base, lost, samples, cut_off, slow, sum,
            phase: [Phase::Rest, Phase::Base, Phase::Trial][usize::from(phase)],
            since: Mono(since), ended_at: Mono(ended_at), next_trial: Mono(next_trial),
            fruitless, halvings, falls, late, left: left_before,
        };
        let (sent, took) = (Mono(sent), Span::from_nanos(took));
        limit.observe(Ended { in_flight, sent, took, gap: ratio / 2, left, ratio, batches: false, completed }, max, Mono(now));
        prop_assert!(limit.found >= 1);
        let _ = (limit.now(planned), limit.exploring(planned), limit.now(7));
    }
}
