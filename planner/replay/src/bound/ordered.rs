//! Identical slots, one service time, requests due in release order: the maximum number on time.
//! Exact, O(n).
//!
//! The algorithm: take the requests in order, start each on the slot that is free first, and reject it
//! if it would end too late. Kise, Ibaraki and Mine, "A solvable case of the one-machine scheduling
//! problem with ready and due times", Operations Research 26 (1978), cover the case of one slot, also
//! with different service times. With equal ones any number of slots is possible:
//!
//! Proof. Some optimal schedule starts its requests in order: if j > i starts before i, swap them. Request
//! i is present by then (it is released before j), and j ends by i's due time (which is before its own).
//! With m slots the k-th start s(k) of that schedule is then no earlier than s(k−m) + p. Let S(k) be our
//! k-th start, and o the optimum's k-th request. By induction our k-th accepted request is no later in
//! the order than o, and S(k) ≤ s(k). Suppose we accepted only k−1 before o: then o could start at
//! max(release(o), S(k−m) + p) ≤ max(release(o), s(k−m) + p) ≤ s(k), on time, and we accept it. So we
//! accept at least as many.

use std::collections::VecDeque;
use std::time::Duration;

use super::Window;

/// Maximum number of `windows` (by release, and thereby by due time) that end on time on `slots` slots, if
/// each takes `service`.
#[must_use]
pub fn most_on_time(windows: &[Window], slots: u32, service: Duration) -> u64 {
    debug_assert!(
        windows.is_sorted_by(|a, b| a.release <= b.release && a.due <= b.due),
        "releases and dues are in the same order"
    );
    // Times at which the used slots become free. Starts are in order and take equal time, so ends are too.
    let mut ends: VecDeque<Duration> = VecDeque::new();
    let mut on_time = 0;
    for window in windows {
        let full = ends.len() >= slots as usize;
        let free = if full { ends.front().copied() } else { None };
        let end = window.release.max(free.unwrap_or_default()) + service;
        if slots == 0 || end > window.due {
            continue;
        }
        if full {
            ends.pop_front();
        }
        ends.push_back(end);
        on_time += 1;
    }
    on_time
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the result for windows (release, due), in ms, that take 10 ms each.
    fn check(slots: u32, windows: &[(u64, u64)], on_time: u64) {
        let windows: Vec<Window> = windows
            .iter()
            .map(|(release_ms, due_ms)| Window {
                release: Duration::from_millis(*release_ms),
                due: Duration::from_millis(*due_ms),
                min_accuracy: 0.0,
            })
            .collect();
        let got = most_on_time(&windows, slots, Duration::from_millis(10));
        assert_eq!(got, on_time, "{slots} slots: {windows:?}");
    }

    #[test]
    fn request_starts_on_first_free_slot_or_is_rejected() {
        check(0, &[(0, 100)], 0);
        check(1, &[(0, 9)], 0);
        check(1, &[(0, 10), (0, 19), (0, 20)], 2);
        check(2, &[(0, 10), (0, 10), (0, 10), (5, 20), (11, 21)], 4);
        check(3, &[(0, 15), (0, 15), (0, 15), (4, 15), (20, 30)], 4);
    }
}
