//! Upper bound on the number of on-time requests, for any servers and any requests. O((n + s) log n)
//! for n requests and s changes of capacity.
//!
//! The relaxation: all slots are one pool that works at the rate μ(t), in requests per second with the
//! batches that take the least time per request. Each request is one unit of work between its release and
//! its due time. It may be divided, interrupted and spread over slots at will, and a fraction of a request
//! counts as that fraction.
//!
//! Why it is an upper bound. Every schedule of the real servers is a schedule of the pool. A request on
//! time is executed within its window. Its part of a batch takes at least the minimum of l(b)/b over the
//! batch sizes b: a full batch's, unless the latency was measured otherwise. The slots running at t never
//! exceed those that μ(t) counts: an execution continues unchanged when its server shrinks, so a step's
//! rate counts until the longest batch's time after its end. Late requests take nothing from the pool.
//!
//! Why it is computed exactly. Cut requests and capacity into equal pieces. The maximum work within the
//! windows is a maximum matching of request pieces with time pieces, where each request fits one
//! interval of time. By Glover, "Maximum matching in a convex bipartite graph", Naval Research Logistics
//! Quarterly 14 (1967), the greedy algorithm is optimal: go through time and always take the piece whose
//! interval ends first. In the limit that is preemptive earliest-due-first, dropping overdue work.
//!
//! Minimum accuracies. Let θ be one of the minimum accuracies. Requests with minimum θ or more can use
//! only the variants that reach it, and the others at best all variants. The sum of the two bounds is a
//! bound for each θ; the result is the minimum over all θ.

use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use super::{Lanes, Servers, Window};

/// Maximum error of floating-point sums, in requests, over the largest replay.
const ROUNDING: f64 = 1e-4;

/// Step function of rates in requests/s, by start time.
type Rates = Vec<(Duration, f64)>;

/// Returns an upper bound on how many of `windows`, sorted by release, are on time.
#[must_use]
pub fn most_on_time(windows: &[Window], servers: &Servers) -> u64 {
    // Minimum accuracies that allow the same variants are equivalent: no more thresholds than variants.
    let mut accuracies: Vec<f64> = servers.variants.iter().map(|v| v.accuracy).collect();
    accuracies.sort_by(f64::total_cmp);
    let everything = pooled(servers.variants.iter());
    let mut min = work_done(windows.iter(), &everything);
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
        min = min.min(picky.saturating_add(others));
    }
    min
}

/// Combined rate μ(t) of the variants.
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

/// Rate of one variant: the maximum slots times the maximum speed of the steps that may have executions at
/// a time. A step counts until the longest batch's time after its end.
///
/// This is an upper bound: every execution at t was running or started when the latest of them started. At
/// that time there were no more executions than slots, and the step of that time is counted.
fn held_over(lanes: &Lanes) -> Rates {
    let mut changes: Vec<(Duration, bool, u32, u64)> = Vec::new();
    for (index, step) in lanes.steps.iter().enumerate().filter(|(_, s)| s.slots > 0) {
        // The bits of positive floats are ordered like the floats.
        let speed = step.best.rate_rps().to_bits();
        changes.push((step.from, true, step.slots, speed));
        if let Some(next) = lanes.steps.get(index + 1) {
            changes.push((next.from + step.longest, false, step.slots, speed));
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

/// Increments or decrements the count of `key`; removes it at 0.
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

/// Maximum work within the windows, in whole requests.
fn work_done<'a>(windows: impl Iterator<Item = &'a Window>, rates: &[(Duration, f64)]) -> u64 {
    let mut releases = windows.peekable();
    let mut changes = rates.iter().peekable();
    let mut waiting: BinaryHeap<Reverse<(Duration, u64)>> = BinaryHeap::new();
    // Remaining work of started requests, by number.
    let mut begun: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut whole, mut parts, mut number) = (0u64, 0.0f64, 0u64);
    let (mut now, mut rate) = (Duration::ZERO, 0.0);
    // Seconds of the capacity after `now` that are used already: less than the clock's nanosecond.
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
