//! Table of a measurement with real servers, and its targets.

use std::fmt;

use serde::Serialize;

use super::active::{self, ActiveRow};
use super::rows::{Row, Rows};
use super::system::Way;
use super::{LOADS, NEAR_CAPACITY};

/// Points by which replay with the measured profiles may differ.
const REPLAY_POINTS: f64 = 2.0;
/// Origins of the profiles that replay plays.
const PROFILES: [&str; 2] = ["measured before", "from the proxy"];
/// Points by which Weir's on-time share must exceed careful's from [`NEAR_CAPACITY`] on.
const LEAD_POINTS: f64 = 8.0;
/// Least part of the throughput of the servers' own queues that Weir must reach.
const THROUGHPUT_PART: f64 = 0.97;

/// Weir's on-time share of one run by replay with the measured profiles.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Replayed {
    /// Load, as a multiple of the profiles' throughput.
    pub load: f64,
    /// Answered on time with the profiles of `weir profile --url`, percent.
    pub on_time: f64,
    /// The same with profiles from the proxy's histograms while the load ran.
    pub observed: f64,
}

/// Throughput of all servers together from their own queues, in one turn with the runs of a load.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct OwnQueue {
    /// Load of these runs, as a multiple of the profiles' throughput.
    pub load: f64,
    /// Answers per second.
    pub rps: f64,
    /// Requests that they can answer on time in a run of that load, its last one's budget included.
    pub on_time_max: f64,
}

/// All results.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Throughput of all servers together by their profiles, requests/s.
    pub capacity_rps: f64,
    /// Throughput of the servers' own queues beside each overload.
    pub own_queues: Vec<OwnQueue>,
    /// Loads, bursts and faults.
    pub rows: Rows,
    /// The same loads by replay.
    pub replayed: Vec<Replayed>,
    /// Mode `active` and the splits beside it.
    pub active: Vec<ActiveRow>,
}

impl Report {
    fn row(&self, load: &str, way: Way) -> Option<&Row> {
        self.rows.row(load, way.name())
    }

    /// Returns the on-time share at a load by replay, percent, with either profile; `None` if it was not played.
    fn replayed(&self, load: f64) -> Option<[f64; 2]> {
        let played = self.replayed.iter().filter(|played| played.load == load);
        let shares: Vec<[f64; 2]> = played.map(|one| [one.on_time, one.observed]).collect();
        let mean_of = |index: usize| {
            let each = shares.iter().filter_map(|share| share.get(index).copied());
            mean(&each.collect::<Vec<_>>())
        };
        (!shares.is_empty()).then(|| [mean_of(0), mean_of(1)])
    }

    /// Returns the mean of a figure of the servers' own queues beside a load; `None` if they were not measured.
    fn mean_own(&self, load: f64, figure: impl Fn(&OwnQueue) -> f64) -> Option<f64> {
        let beside = self.own_queues.iter().filter(|own| own.load == load);
        let figures: Vec<f64> = beside.map(figure).collect();
        (!figures.is_empty()).then(|| mean(&figures))
    }

    /// Returns the targets that are missed, one sentence each.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        for load in LOADS {
            let name = format!("{load} ×");
            let Some(careful) = self.row(&name, Way::Careful) else {
                continue;
            };
            let possible = self.mean_own(load, |own| own.on_time_max);
            let possible = possible.map(|most| most / mean(&careful.sent));
            let careful = mean(&careful.on_time_percent);
            // In mode `active` the servers may get other cores than their own queues had.
            let most = |way| match (way, possible) {
                (Way::Weir, Some(part)) => 100.0 * part.min(1.0),
                _ => 100.0,
            };
            let right = if load >= NEAR_CAPACITY {
                LEAD_POINTS
            } else {
                0.0
            };
            for way in [Way::Weir, Way::Active] {
                let Some(row) = self.row(&name, way) else {
                    continue;
                };
                let lead = mean(&row.on_time_percent) - careful;
                if lead < right {
                    missed.push(format!(
                        "{name}: {} leads careful by {lead:.1} points; it must be {right:.1} or more, and careful has {careful:.1} of {:.1} % that are possible",
                        way.name(),
                        most(way)
                    ));
                }
            }
        }
        for load in LOADS {
            let weir = self.row(&format!("{load} ×"), Way::Weir);
            if let (Some(weir), Some(replayed)) = (weir, self.replayed(load)) {
                for (replayed, profile) in replayed.into_iter().zip(PROFILES) {
                    let off = replayed - mean(&weir.on_time_percent);
                    if off.abs() > REPLAY_POINTS {
                        missed.push(format!(
                            "{load} ×: replay with profiles {profile} says {replayed:.1} % on time, {off:+.1} points off; it must be within {REPLAY_POINTS:.0}"
                        ));
                    }
                }
            }
        }
        for load in LOADS {
            let weir = self.row(&format!("{load} ×"), Way::Weir);
            if let (Some(weir), Some(own)) = (weir, self.mean_own(load, |own| own.rps)) {
                let part = mean(&weir.answered_rps) / own;
                if part < THROUGHPUT_PART {
                    missed.push(format!(
                        "{load} ×: weir answers {:.1} % of what the servers do from their own queues; it must be {:.0} % or more",
                        part * 100.0,
                        THROUGHPUT_PART * 100.0
                    ));
                }
            }
        }
        missed.extend(active::missed(&self.active));
        missed
    }
}

/// Returns whether a load exceeds what the servers carry, so that throughput is compared with their own queues.
pub(super) fn is_overload(load: f64) -> bool {
    load > 1.0
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "1 × = {:.1} requests/s by the profiles",
            self.capacity_rps
        )?;
        for load in LOADS {
            if let Some(own) = self.mean_own(load, |own| own.rps) {
                writeln!(
                    f,
                    "{load} ×: {own:.1} requests/s from the servers' own queues"
                )?;
            }
        }
        write!(f, "{}", self.rows)?;
        for load in LOADS {
            if let Some(replayed) = self.replayed(load) {
                for (replayed, profile) in replayed.into_iter().zip(PROFILES) {
                    writeln!(
                        f,
                        "{load} × by replay with profiles {profile}: {replayed:.1} % on time"
                    )?;
                }
            }
        }
        for row in &self.active {
            writeln!(
                f,
                "{}: {:.2} % on time, {:.1} core-seconds",
                row.cores,
                mean(&row.on_time_percent),
                mean(&row.core_seconds),
            )?;
        }
        Ok(())
    }
}
