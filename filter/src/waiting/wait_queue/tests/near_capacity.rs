//! Cost of classes near capacity and their protection above it, compared with plain EDF: a variant of four
//! slots, Poisson-like arrivals from a fixed seed, a fixed service time of 40 ms, and infeasible requests
//! dropped at dispatch.

use super::*;

const SLOTS: usize = 4;
const SERVICE_US: u64 = 40_000;
const STEP_US: u64 = 100;
const STEPS: u64 = 2_000_000;

#[derive(Debug, Clone, Copy)]
struct Traffic {
    /// Fraction of the capacity.
    load: f64,
    slo_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    Edf,
    WaitQueue,
    /// Order by share even without contention.
    AlwaysShare,
}

/// Returns the answers on time of each class, and the number of its requests.
fn run(rule: Rule, traffic: [Traffic; 2], shares: [f64; 2]) -> [(u64, u64); 2] {
    let two = classes(&[(shares[0], 0), (shares[1], 0)], 20);
    let mut queue = match rule {
        Rule::Edf => WaitQueue::default(),
        Rule::WaitQueue | Rule::AlwaysShare => WaitQueue::new(&two),
    };
    let mut busy: Vec<u64> = Vec::new();
    let mut counts = [(0, 0); 2];
    let mut seed = 7_u64;
    let mut chance = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed >> 11) as f64 / (1_u64 << 53) as f64
    };
    for step in 0..STEPS {
        let now = step * STEP_US;
        for (class, traffic) in traffic.iter().enumerate() {
            let rate = traffic.load * (SLOTS as u64 * STEP_US) as f64 / SERVICE_US as f64;
            if chance() < rate {
                counts[class].1 += 1;
                let of = ClassId(if rule == Rule::Edf { 0 } else { class as u8 });
                queue.push(
                    of,
                    place(now + traffic.slo_ms * 1000, step * 2 + class as u64),
                    class as u32,
                );
            }
        }
        busy.retain(|end| *end > now);
        if rule == Rule::AlwaysShare {
            queue.set_contended();
        }
        while busy.len() < SLOTS && !queue.is_empty() {
            if queue
                .pop_where(|_, place| now + SERVICE_US > place.deadline.0)
                .is_some()
            {
                continue;
            }
            if let Some((_, _, class)) = queue.pop() {
                counts[class as usize].0 += 1;
                busy.push(now + SERVICE_US);
            }
        }
    }
    counts
}

fn percent((on_time, requested): (u64, u64)) -> f64 {
    100.0 * on_time as f64 / requested as f64
}

fn total(counts: [(u64, u64); 2]) -> f64 {
    percent((counts[0].0 + counts[1].0, counts[0].1 + counts[1].1))
}

fn traffic(loads: [f64; 2], slo_ms: [u64; 2]) -> [Traffic; 2] {
    [0, 1].map(|i| Traffic {
        load: loads[i],
        slo_ms: slo_ms[i],
    })
}

/// At 0.95 of the capacity the answers on time equal those of plain EDF to within a few tenths of a
/// percent, and are never fewer than with constant sharing.
#[test]
fn shares_cost_little_near_capacity() {
    for (loads, slo_ms, shares) in [
        ([0.475, 0.475], [300, 300], [0.5, 0.5]),
        ([0.475, 0.475], [300, 2000], [0.5, 0.5]),
        ([0.8, 0.15], [300, 2000], [0.5, 0.5]),
        ([0.15, 0.8], [300, 2000], [0.1, 0.9]),
    ] {
        let traffic = traffic(loads, slo_ms);
        let [edf, queue, always] = [Rule::Edf, Rule::WaitQueue, Rule::AlwaysShare]
            .map(|rule| total(run(rule, traffic, shares)));
        assert!(
            edf - queue < 0.3,
            "{loads:?} {slo_ms:?}: {queue} % instead of {edf} %"
        );
        assert!(
            queue >= always,
            "{loads:?} {slo_ms:?}: {queue} % beside {always} %"
        );
    }
}

/// A class within its share loses nothing to another's flood, and no slot is wasted on it.
#[test]
fn flood_harms_only_its_own_class() {
    for (slo_ms, flood) in [
        ([300, 300], 1.1),
        ([300, 300], 2.6),
        ([300, 2000], 2.6),
        ([2000, 300], 2.6),
    ] {
        let traffic = traffic([0.4, flood], slo_ms);
        let shared = run(Rule::WaitQueue, traffic, [0.5, 0.5]);
        assert!(percent(shared[0]) > 99.0, "{slo_ms:?} {flood}: {shared:?}");
        let edf = run(Rule::Edf, traffic, [0.5, 0.5]);
        assert!(total(edf) - total(shared) < 0.1, "{edf:?} {shared:?}");
    }
}

/// Both ask for more than there is: each gets its share, for any deadlines.
#[test]
fn overloaded_classes_get_their_shares() {
    let counts = run(
        Rule::WaitQueue,
        traffic([1.5, 1.5], [300, 2000]),
        [0.3, 0.7],
    );
    let part = counts[0].0 as f64 / (counts[0].0 + counts[1].0) as f64;
    assert!((part - 0.3).abs() < 0.01, "{part}");
}
