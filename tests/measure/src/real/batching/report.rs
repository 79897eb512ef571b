//! Tables of the measurement with servers that batch, and its targets.

use std::fmt;

use serde::Serialize;

use super::super::report::mean;
use super::super::rows::{Row, Rows};
use super::kind::{EACH_MS, Kind};
use super::proxy::Way;
use super::server::SERVERS;
use super::{Curve, LOADS};

/// Percent by which the profiles' capacity may differ from the measured one.
const PROFILE_PERCENT: f64 = 5.0;
/// Points by which Weir's on-time share may be below that of the best *careful*.
const BELOW_CAREFUL_POINTS: f64 = 0.5;
/// Load at which answers are compared, and the least part of those by the best other way.
const OVERLOAD: f64 = 2.0;
const ANSWERED_PART: f64 = 0.97;

/// All results.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Report {
    /// Throughput by requests in flight of each kind.
    pub curves: Vec<Curves>,
    /// Loads of each kind and objective.
    pub cases: Vec<Case>,
}

/// Curves of the servers of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct Curves {
    /// Name of the kind.
    pub kind: &'static str,
    /// Largest batch, and the wait for more requests, ms.
    pub batches: (u32, u32),
    /// One curve for each server.
    pub each: Vec<Curve>,
}

impl Curves {
    pub(super) fn new(kind: Kind, each: Vec<Curve>) -> Curves {
        Curves {
            kind: kind.name(),
            batches: kind.batches(),
            each,
        }
    }
}

/// Results of one kind of servers with one objective.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Case {
    /// Name of the kind.
    pub kind: &'static str,
    /// Latency objective, ms.
    pub slo_ms: u64,
    /// Throughput of both servers in closed loops within the objective, requests/s: 1 ×.
    pub capacity_rps: f64,
    /// The same by `weir profile`.
    pub profiles_rps: f64,
    /// Runs of each load and way.
    pub rows: Rows,
    /// After an overload.
    pub recovery: Vec<Recovery>,
}

/// Time after an overload, by one way.
#[derive(Debug, Clone, Serialize)]
pub struct Recovery {
    /// Way of the requests.
    pub way: String,
    /// Answered on time, percent of all sent from the third second on.
    pub on_time_percent: f64,
    /// Requests sent in each second from the third on, and those of them answered on time.
    pub by_second: Vec<(u64, u64)>,
}

impl Case {
    /// Name of a load in the table.
    pub(super) fn load(&self, load: f64) -> String {
        format!("{} {} ms, {load} ×", self.kind, self.slo_ms)
    }

    /// Greatest figure of the ways of which `chosen` is true; `None` without such runs.
    fn best(&self, load: &str, chosen: fn(&str) -> bool, figure: fn(&Row) -> f64) -> Option<f64> {
        let rows = self.rows.of(load).filter(|row| chosen(&row.way));
        rows.map(figure).reduce(f64::max)
    }

    /// Returns the targets that are missed, one sentence each.
    fn missed(&self) -> Vec<String> {
        let mut missed = Vec::new();
        let (kind, slo_ms) = (self.kind, self.slo_ms);
        let off = 100.0 * (self.profiles_rps / self.capacity_rps - 1.0);
        if off.is_nan() || off.abs() > PROFILE_PERCENT {
            missed.push(format!(
                "{kind} {slo_ms} ms: the profiles' capacity is {off:+.1} % off; it must be within {PROFILE_PERCENT:.0} %"
            ));
        }
        let on_time = |row: &Row| mean(&row.on_time_percent);
        let answered = |row: &Row| mean(&row.answered_rps);
        for load in LOADS {
            let name = self.load(load);
            let careful = self.best(&name, is_careful, on_time);
            let plain = self.best(&name, is_plain, on_time);
            let most = self.best(&name, |way| is_careful(way) || is_plain(way), answered);
            for weir in self.rows.of(&name).filter(|row| is_weir(&row.way)) {
                let percent = on_time(weir);
                missed.extend(behind(&name, &weir.way, percent, careful, plain));
                let part = most.map(|most| answered(weir) / most);
                if let Some(part) = part.filter(|part| load == OVERLOAD && *part < ANSWERED_PART) {
                    missed.push(format!(
                        "{name}: {} answers {:.1} % of the best other way; it must be {:.0} % or more",
                        weir.way,
                        part * 100.0,
                        ANSWERED_PART * 100.0
                    ));
                }
            }
        }
        let best = |chosen: fn(&str) -> bool| {
            let ways = self.recovery.iter().filter(|one| chosen(&one.way));
            ways.map(|one| one.on_time_percent).reduce(f64::max)
        };
        for weir in self.recovery.iter().filter(|one| is_weir(&one.way)) {
            let name = format!("{kind} {slo_ms} ms, after {OVERLOAD} ×");
            let (careful, plain) = (best(is_careful), best(is_plain));
            missed.extend(behind(
                &name,
                &weir.way,
                weir.on_time_percent,
                careful,
                plain,
            ));
        }
        missed
    }
}

fn is_careful(way: &str) -> bool {
    way.starts_with("careful")
}

fn is_plain(way: &str) -> bool {
    way == Way::Plain.name()
}

fn is_weir(way: &str) -> bool {
    way.starts_with("weir")
}

/// Returns by how much an on-time share is too small beside the others.
fn behind(
    load: &str,
    way: &str,
    percent: f64,
    careful: Option<f64>,
    plain: Option<f64>,
) -> Vec<String> {
    let others = [
        ("the best careful", careful, BELOW_CAREFUL_POINTS),
        ("plain", plain, 0.0),
    ];
    let too_small = others.into_iter().filter_map(|(other, share, below)| {
        let least = share? - below;
        (percent < least).then(|| {
            format!(
                "{load}: {way} answers {percent:.1} % on time, {other} {:.1} %; it must be {least:.1} % or more",
                least + below
            )
        })
    });
    too_small.collect()
}

impl Report {
    /// Returns the targets that are missed, one sentence each.
    #[must_use]
    pub fn missed(&self) -> Vec<String> {
        self.cases.iter().flat_map(Case::missed).collect()
    }
}

impl fmt::Display for Curves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (batch, delay_ms) = self.batches;
        for ((_, base_ms), curve) in SERVERS.iter().zip(&self.each) {
            for point in &curve.0 {
                let kind = self.kind;
                writeln!(
                    f,
                    "{kind},{base_ms},{EACH_MS},{batch},{delay_ms},{},{:.1},{:.1},{:.1}",
                    point.in_flight, point.rps, point.p50_ms, point.p95_ms
                )?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: objective {} ms, 1 × = {:.1} requests/s, by the profiles {:.1}",
            self.kind, self.slo_ms, self.capacity_rps, self.profiles_rps
        )
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |(sent, on_time): &(u64, u64)| {
            let percent = 100.0 * *on_time as f64 / (*sent).max(1) as f64;
            format!("{percent:.0}")
        };
        let seconds: Vec<String> = self.by_second.iter().map(percent).collect();
        let (way, mean) = (&self.way, self.on_time_percent);
        writeln!(
            f,
            "after {OVERLOAD} ×, {way}: {mean:.1} % on time; by second {}",
            seconds.join(", ")
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "server,base_ms,each_ms,batch_max,delay_ms,in_flight,rps,p50_ms,p95_ms"
        )?;
        for curves in &self.curves {
            write!(f, "{curves}")?;
        }
        for case in &self.cases {
            write!(f, "\n{case}\n{}", case.rows)?;
            for load in LOADS {
                let name = case.load(load);
                let careful = case.rows.of(&name).filter(|row| is_careful(&row.way));
                let share = |row: &&Row| mean(&row.on_time_percent);
                let best = careful.max_by(|a, b| share(a).total_cmp(&share(b)));
                if let Some(best) = best {
                    writeln!(f, "{name}: the best careful is {}", best.way)?;
                }
            }
            for recovery in &case.recovery {
                write!(f, "{recovery}")?;
            }
        }
        Ok(())
    }
}
