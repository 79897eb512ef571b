//! Any servers, any requests: an upper bound on how many can be on time. O((n + s) log n) for n requests
//! and s changes of capacity.
//!
//! The relaxation: all slots are one pool that does work at the rate μ(t), in requests per second with
//! full batches; each request is one unit of work that may be divided, interrupted and shared among
//! slots at will, between its release and its due time; and part of a request counts as that part.
//!
//! Why it is an upper bound. Every schedule of the real servers is one of the pool: a request on time is
//! executed within its window, its part of a batch takes at least the time it would in a full one (the
//! law's l(b)/b falls with b), and slots running at t never exceed what μ(t) counts. An execution
//! goes on as it began when its server shrinks, so a step's rate counts for as long after its end as a
//! full batch takes. What is late takes nothing from the pool.
//!
//! Why it is computed exactly. Cut requests and capacity into equal pieces: the most work that can be
//! done within the windows is a greatest matching of pieces of requests with pieces of time, where each
//! request fits one interval of time. Glover, "Maximum matching in a convex bipartite graph", Naval
//! Research Logistics Quarterly 14 (1967): going through time and always taking the piece whose interval
//! ends first gives it. In the limit that is preemptive earliest-due-first, dropping what is past due.
//!
//! Wishes for accuracy. With θ one of the accuracies wished for, requests that ask for θ or more can use
//! only the variants that give it, and the others at best all of them: the sum of the two bounds is a
//! bound, for each θ; the least is taken.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::{Lanes, Servers, Window};

/// What summing in floating point may lose, in requests, over the largest replay.
const ROUNDING: f64 = 1e-4;

/// A rate in requests/s, from a time on.
type Rates = Vec<(Duration, f64)>;

/// An upper bound on how many of `windows`, sorted by release, are on time.
#[must_use]
pub fn most_on_time(windows: &[Window], servers: &Servers) -> u64 {
    // Wishes that allow the same variants are the same wish: no more thresholds than variants.
    let mut accuracies: Vec<f64> = servers.variants.iter().map(|v| v.accuracy).collect();
    accuracies.sort_by(f64::total_cmp);
    let everything = pooled(servers.variants.iter());
    let mut least = work_done(windows.iter(), &everything);
    for pair in accuracies.windows(2) {
        let [below, accuracy] = pair else { continue };
        if below == accuracy {
            continue;
        }
        let is_picky = |window: &&Window| window.min_accuracy > *below;
        if !windows.iter().any(|window| is_picky(&window)) {
            break;
        }
        let able = servers.variants.iter().filter(|v| v.accuracy >= *accuracy);
        let picky = work_done(windows.iter().filter(is_picky), &pooled(able));
        let others = work_done(windows.iter().filter(|w| !is_picky(w)), &everything);
        least = least.min(picky.saturating_add(others));
    }
    least
}

/// μ(t) of those variants together.
fn pooled<'a>(variants: impl Iterator<Item = &'a Lanes>) -> Rates {
    let each: Vec<Rates> = variants.map(held_over).collect();
    let mut changes: Vec<(Duration, usize, f64)> = Vec::new();
    for (index, rates) in each.iter().enumerate() {
        changes.extend(rates.iter().map(|(from, rate)| (*from, index, *rate)));
    }
    changes.sort_by_key(|(from, index, _)| (*from, *index));
    let mut now = vec![0.0; each.len()];
    let mut sum: Rates = Vec::new();
    for (from, index, rate) in changes {
        if let Some(slot) = now.get_mut(index) {
            *slot = rate;
        }
        let total = now.iter().sum();
        match sum.last_mut() {
            Some(last) if last.0 == from => last.1 = total,
            _ => sum.push((from, total)),
        }
    }
    sum
}

/// One variant's rate: the most slots times the greatest speed of the steps that may still have
/// executions at a time, which is for a full batch beyond each step's end.
///
/// Not more: whatever runs at t was running, or begun, when the latest of it began; so there are no
/// more executions than slots at that moment, and its step is among those counted.
fn held_over(lanes: &Lanes) -> Rates {
    let mut changes: Vec<(Duration, bool, u32, u64)> = Vec::new();
    for (index, step) in lanes.steps.iter().enumerate().filter(|(_, s)| s.slots > 0) {
        // The bits of positive numbers are in the numbers' order.
        let speed = (step.rate_rps() / f64::from(step.slots)).to_bits();
        changes.push((step.from, true, step.slots, speed));
        if let Some(next) = lanes.steps.get(index + 1) {
            changes.push((next.from + step.full, false, step.slots, speed));
        }
    }
    changes.sort_by_key(|(at, ..)| *at);
    let (mut slots, mut speeds) = (BTreeMap::new(), BTreeMap::new());
    let mut rates: Rates = Vec::new();
    for (at, begins, more, speed) in changes {
        count(&mut slots, more, begins);
        count(&mut speeds, speed, begins);
        let most = slots.last_key_value().map_or(0, |(slots, _)| *slots);
        let fastest = speeds.last_key_value().map_or(0, |(bits, _)| *bits);
        let rate = f64::from(most) * f64::from_bits(fastest);
        match rates.last_mut() {
            Some(last) if last.0 == at => last.1 = rate,
            _ => rates.push((at, rate)),
        }
    }
    rates
}

/// Counts one more or one less of `key`; what has none is not kept.
fn count<K: Ord>(counts: &mut BTreeMap<K, u32>, key: K, more: bool) {
    match counts.entry(key) {
        Entry::Vacant(entry) if more => {
            entry.insert(1);
        }
        Entry::Occupied(mut entry) if more => *entry.get_mut() += 1,
        Entry::Occupied(mut entry) if *entry.get() > 1 => *entry.get_mut() -= 1,
        Entry::Occupied(entry) => {
            entry.remove();
        }
        Entry::Vacant(_) => {}
    }
}

/// The most work that can be done within the windows, in whole requests.
fn work_done<'a>(windows: impl Iterator<Item = &'a Window>, rates: &[(Duration, f64)]) -> u64 {
    let mut releases = windows.peekable();
    let mut changes = rates.iter().peekable();
    let mut waiting: BinaryHeap<Reverse<(Duration, u64)>> = BinaryHeap::new();
    // What is left of the request being worked on and of those interrupted before, by number.
    let mut begun: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut whole, mut parts, mut number) = (0u64, 0.0f64, 0u64);
    let (mut now, mut rate) = (Duration::ZERO, 0.0);
    // Seconds of the capacity from `now` on that are used already: less than the clock's nanosecond.
    let mut used = 0.0;
    loop {
        while let Some((_, next)) = changes.next_if(|(from, _)| *from <= now) {
            rate = *next;
        }
        while let Some(window) = releases.next_if(|window| window.release <= now) {
            waiting.push(Reverse((window.due, number)));
            number += 1;
        }
        let until = [
            releases.peek().map(|window| window.release),
            changes.peek().map(|(from, _)| *from),
        ]
        .into_iter()
        .flatten()
        .min();
        let Some(Reverse((due, first))) = waiting.peek().copied() else {
            let Some(at) = until else { break };
            (now, used) = (at, 0.0);
            continue;
        };
        let left = begun.get(&first).copied().unwrap_or(1.0);
        if due <= now {
            parts += 1.0 - left;
            begun.remove(&first);
            waiting.pop();
            continue;
        }
        let end = until.unwrap_or(Duration::MAX).min(due);
        let possible = rate * ((end - now).as_secs_f64() - used).max(0.0);
        if possible >= left {
            let took_s = used + left / rate;
            let took = Duration::from_nanos((took_s * 1e9) as u64);
            used = (took_s - took.as_secs_f64()).max(0.0);
            now = (now + took).min(end);
            whole += 1;
            begun.remove(&first);
            waiting.pop();
        } else {
            if possible > 0.0 {
                begun.insert(first, left - possible);
            }
            (now, used) = (end, 0.0);
        }
    }
    whole + (parts + ROUNDING) as u64
}
