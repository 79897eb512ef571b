//! Core-time of requests on a machine with measured latency: a list of lower bounds on latency and cost, over
//! the batch sizes and the numbers of cores.
//!
//! Whole cores: one entry for each number, exact. Fractions: on an interval [u, v] of cores without a
//! measurement inside, l(b, x) is linear in x and never rises, so x·l(b, x) is concave. An execution on such
//! cores takes at least l(b, v) and costs at least the lower of u·l(b, u) and v·l(b, v). Intervals between
//! measurements are divided, so that this loses little. Beyond the most cores measured the latency stays, and
//! more cores only cost more.

use weir_sim::server::Parallelism;
use weir_solve::latency_model::Table;

use super::work::{Machine, ROUNDING};

/// Number of parts of an interval between two measured numbers of cores.
const PARTS: u32 = 16;
/// Maximum number of measured intervals that are divided, and of whole cores that have an entry each.
const EXACT_MAX: usize = 1024;
/// Resolution of the clock, ms: an execution may be so much shorter than the table says.
const CLOCK_MS: f64 = 1e-6;

/// Entries by rising latency and falling cost.
#[derive(Debug, Default)]
pub(super) struct Options(Vec<Entry>);

/// Lower bounds of executions on some cores.
#[derive(Debug, Clone, Copy)]
struct Entry {
    latency_ms: f64,
    /// Core-ms of each request.
    core_ms: f64,
}

impl Options {
    /// Creates the options of a machine with that table.
    pub(super) fn of(table: &Table, machine: &Machine) -> Options {
        let intervals = intervals(table, machine);
        let mut options = Options::default();
        for batch in 1..=machine.batch_max {
            let entries = intervals.iter().filter_map(|(from, to)| {
                let latency_ms = table.ms(batch, *to);
                let core_ms = (from * table.ms(batch, *from)).min(to * latency_ms);
                latency_ms.is_finite().then(|| Entry {
                    latency_ms,
                    core_ms: core_ms / f64::from(batch),
                })
            });
            options.0.extend(entries);
            options.prune();
        }
        options
    }

    /// Minimum core-ms of a request in an execution within `length_ms`; `None` if none is that short.
    pub(super) fn core_ms(&self, length_ms: f64) -> Option<f64> {
        let length_ms = length_ms * (1.0 + ROUNDING) + CLOCK_MS;
        let short = self
            .0
            .partition_point(|entry| entry.latency_ms <= length_ms);
        let cheapest = self.0.get(short.checked_sub(1)?)?;
        Some(cheapest.core_ms)
    }

    /// Keeps the entries that cost less than every shorter one.
    fn prune(&mut self) {
        self.0.sort_by(|a, b| {
            let by_latency = a.latency_ms.total_cmp(&b.latency_ms);
            by_latency.then(a.core_ms.total_cmp(&b.core_ms))
        });
        let mut cheapest = f64::INFINITY;
        self.0.retain(|entry| {
            let cheaper = entry.core_ms < cheapest;
            cheapest = cheapest.min(entry.core_ms);
            cheaper
        });
    }
}

/// Intervals that hold all cores an execution may have, without a measurement inside; of length 0 where they
/// are exact.
fn intervals(table: &Table, machine: &Machine) -> Vec<(f64, f64)> {
    let measured = table.cores();
    let (Some(fewest), Some(most)) = (measured.first(), measured.last()) else {
        return Vec::new();
    };
    let limit = match (machine.parallelism, machine.whole) {
        (Parallelism::PerCore, true) => return vec![(1.0, 1.0)],
        (Parallelism::PerCore, false) => 1.0,
        (Parallelism::Fixed(at_once), true) => {
            let at_once = f64::from(at_once.get());
            let first = (fewest * at_once).floor().max(machine.cores_min.ceil());
            let last = (most * at_once).ceil().max(first);
            if last - first < EXACT_MAX as f64 {
                let whole = (first as u32..=last as u32).map(|cores| f64::from(cores) / at_once);
                return whole.map(|cores| (cores, cores)).collect();
            }
            f64::INFINITY
        }
        (Parallelism::Fixed(_), false) => f64::INFINITY,
    };
    let parts = if measured.len() <= EXACT_MAX {
        PARTS
    } else {
        1
    };
    let points = measured.iter().map(|cores| cores.min(limit));
    let mut all: Vec<(f64, f64)> = points.map(|cores| (cores, cores)).collect();
    for pair in measured.windows(2) {
        let [from, to] = pair else { continue };
        let to = to.min(limit);
        let at = |part: u32| match part {
            _ if part == parts => to,
            part => from + (to - from) * f64::from(part) / f64::from(parts),
        };
        if *from < to {
            all.extend((0..parts).map(|part| (at(part), at(part + 1))));
        }
    }
    all
}
