//! Order of the records: a log is ordered by the ends of requests, records by their arrivals. A request's line comes
//! at most the window after its arrival, so that what arrived a window before the latest arrival is complete.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::entry::Entry;

/// Maximum number of requests in a window.
const ENTRIES_MAX: usize = 2_000_000;

/// Requests that wait for those that arrived before them.
#[derive(Debug)]
pub(super) struct Window {
    length_us: i64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Latest arrival of all.
    latest_us: i64,
    /// Arrival of the last request that was taken out.
    out_us: i64,
    is_closed: bool,
}

/// Request with its line; ordered by arrival, then by line.
#[derive(Debug)]
struct Waiting {
    line: u64,
    entry: Entry,
}

impl Waiting {
    fn key(&self) -> (i64, u64) {
        (self.entry.arrival_us, self.line)
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl Window {
    pub(super) fn new(length_us: i64) -> Window {
        Window {
            length_us,
            waiting: BinaryHeap::new(),
            latest_us: i64::MIN,
            out_us: i64::MIN,
            is_closed: false,
        }
    }

    /// Takes in the request of a line.
    ///
    /// # Errors
    /// The window is too short for it, or has too many requests.
    pub(super) fn push(&mut self, line: u64, entry: Entry) -> Result<(), String> {
        if entry.arrival_us < self.out_us {
            let behind_us = self.latest_us - entry.arrival_us;
            return Err(format!(
                "line {line}: its request arrived {:.1} s before another whose line is above; --window must be \
                 longer than that (it is {:.1} s): the longest time from an arrival to its line",
                behind_us as f64 / 1e6,
                self.length_us as f64 / 1e6
            ));
        }
        if self.waiting.len() >= ENTRIES_MAX {
            return Err(format!(
                "line {line}: more than {ENTRIES_MAX} requests in a window; --window must be shorter"
            ));
        }
        self.latest_us = self.latest_us.max(entry.arrival_us);
        self.waiting.push(Reverse(Waiting { line, entry }));
        Ok(())
    }

    /// Takes out the next request, if all that arrived before it are known.
    pub(super) fn pop(&mut self) -> Option<(u64, Entry)> {
        let Reverse(first) = self.waiting.peek()?;
        let complete = first.entry.arrival_us < self.latest_us.saturating_sub(self.length_us);
        if !complete && !self.is_closed {
            return None;
        }
        let Reverse(first) = self.waiting.pop()?;
        self.out_us = first.entry.arrival_us;
        Some((first.line, first.entry))
    }

    /// Ends the log: all requests are known.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(arrival_us: i64) -> Entry {
        let line = format!(r#"{{"start_time": "{arrival_us}"}}"#);
        Entry {
            arrival_us,
            ..Entry::parse(line.as_bytes()).unwrap()
        }
    }

    fn taken(window: &mut Window) -> Vec<(u64, i64)> {
        let next = || window.pop().map(|(line, entry)| (line, entry.arrival_us));
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn requests_leave_by_arrival_once_the_window_has_passed() {
        let mut window = Window::new(100);
        for (line, arrival_us, expected) in [
            (1, 1050, vec![]),
            (2, 1000, vec![]),
            (3, 1100, vec![]),
            (4, 1151, vec![(2, 1000), (1, 1050)]),
            (5, 1100, vec![]),
        ] {
            window.push(line, entry(arrival_us)).unwrap();
            assert_eq!(taken(&mut window), expected, "{line}");
        }
        window.close();
        assert_eq!(taken(&mut window), [(3, 1100), (5, 1100), (4, 1151)]);
    }

    #[test]
    fn line_that_is_too_late_names_the_window() {
        let mut window = Window::new(1_000_000);
        for (line, arrival_us) in [(1, 10_000_000), (2, 12_000_000)] {
            window.push(line, entry(arrival_us)).unwrap();
        }
        assert_eq!(taken(&mut window), [(1, 10_000_000)]);
        let refused = window.push(3, entry(9_500_000)).unwrap_err();
        for part in ["line 3:", "2.5 s before", "--window", "1.0 s"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
