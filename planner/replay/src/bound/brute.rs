//! Brute-force search over all schedules of a few requests on small servers, in whole units of time: the
//! reference for the bounds. Written to be obviously correct, not fast.

use std::collections::HashMap;
use std::time::Duration;

use super::{Lanes, Servers, Window};

/// Unit of time.
pub(super) const UNIT: Duration = Duration::from_millis(10);

/// Converts a time to units.
fn units(time: Duration) -> u64 {
    assert_eq!(
        time.as_nanos() % UNIT.as_nanos(),
        0,
        "{time:?} in whole units"
    );
    (time.as_nanos() / UNIT.as_nanos()) as u64
}

/// Time, remaining requests (one bit each), and the sorted end times of the executions on each variant.
type State = (u64, u32, Vec<Vec<u64>>);

/// Brute-force search.
pub(super) struct BruteForce<'a> {
    pub(super) windows: &'a [Window],
    pub(super) servers: &'a Servers,
    /// Whether a slot must stay until its execution has ended.
    pub(super) paid: bool,
    /// Execution times in units, by variant, step and batch size; if empty they are linear in the batch.
    pub(super) times: Vec<Vec<Vec<u64>>>,
    known: HashMap<State, u64>,
}

impl<'a> BruteForce<'a> {
    pub(super) fn new(windows: &'a [Window], servers: &'a Servers, paid: bool) -> BruteForce<'a> {
        let known = HashMap::new();
        BruteForce {
            windows,
            servers,
            paid,
            times: Vec::new(),
            known,
        }
    }

    /// Maximum number of requests on time. Releases and steps are on whole units, so some optimal schedule
    /// starts on them too: each start can be moved forward to a release, an end or a step.
    pub(super) fn most_on_time(&mut self) -> u64 {
        let all = (1u32 << self.windows.len()) - 1;
        self.from(0, all, vec![Vec::new(); self.servers.variants.len()])
    }

    fn from(&mut self, now: u64, left: u32, mut running: Vec<Vec<u64>>) -> u64 {
        let alive = |index: usize| left & (1 << index) != 0 && now < units(self.windows[index].due);
        let alive: Vec<usize> = (0..self.windows.len()).filter(|i| alive(*i)).collect();
        if alive.is_empty() {
            return 0;
        }
        for ends in &mut running {
            ends.retain(|end| *end > now);
            ends.sort_unstable();
        }
        let state = (now, left, running.clone());
        if let Some(best) = self.known.get(&state) {
            return *best;
        }
        let mut best = self.from(now + 1, left, running.clone());
        for variant in 0..self.servers.variants.len() {
            for batch in 1..left + 1 {
                if batch & left != batch {
                    continue;
                }
                let Some(end) = self.start(now, batch, variant, &running[variant]) else {
                    continue;
                };
                let mut running = running.clone();
                running[variant].push(end);
                let on_time = u64::from(batch.count_ones());
                best = best.max(on_time + self.from(now, left & !batch, running));
            }
        }
        self.known.insert(state, best);
        best
    }

    /// End of that batch if it starts now; `None` if it cannot start, or would be late.
    fn start(&self, now: u64, batch: u32, variant: usize, running: &[u64]) -> Option<u64> {
        let lanes: &Lanes = &self.servers.variants[variant];
        let index = |unit: u64| lanes.steps.iter().rposition(|s| units(s.from) <= unit);
        let at = |unit: u64| index(unit).map(|index| &lanes.steps[index]);
        let step = at(now)?;
        let (size, hop) = (batch.count_ones(), units(lanes.hop));
        if size > step.batch || running.len() >= step.slots as usize {
            return None;
        }
        let more = (step.longest - step.shortest) / (step.batch - 1).max(1);
        let linear = || units(step.shortest + more * (size - 1));
        let measured = self.times.get(variant).and_then(|steps| {
            let step = &steps[index(now)?];
            Some(step[size as usize - 1])
        });
        let end = now + measured.unwrap_or_else(linear);
        let mut members = (0..self.windows.len()).filter(|index| batch & (1 << index) != 0);
        let fits = members.all(|index| {
            let window = &self.windows[index];
            units(window.release) + hop <= now
                && end + hop <= units(window.due)
                && lanes.accuracy >= window.min_accuracy
        });
        let stays = |unit: u64| {
            let others = running.iter().filter(|end| **end > unit).count();
            at(unit).is_some_and(|step| others < step.slots as usize)
        };
        (fits && (!self.paid || (now..end).all(stays))).then_some(end)
    }
}
