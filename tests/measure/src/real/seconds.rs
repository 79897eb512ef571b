//! Counters of a run, second by second: those of the filter, the CPU time of each server, and what the planner decided.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use weir_bed::envoy::Envoy;
use weir_bed::planner::Planner;

use super::servers::Server;
use super::system::System;

const PERIOD: Duration = Duration::from_secs(1);
/// Names of the filter's counters and gauges.
const OF_FILTER: &str = "weir_|cluster.*(upstream_cx_total|upstream_rq_total|upstream_rq_tx_reset|upstream_rq_timeout|cx_destroy_remote|cx_destroy_local)$";
/// Gauges: their value is written, not its increase.
const GAUGES: [&str; 6] = [
    "weir_predicted_",
    "weir_waiting_requests",
    "weir_held_requests",
    "weir_slots",
    "weir_share_",
    "weir_plan_age_milliseconds",
];
/// Parts of histograms, which are many.
const LEFT_OUT: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Appends the increase of all counters in each second to `lines`, until it is dropped.
pub(crate) async fn record(system: &System, servers: &[Server], lines: &mut String) -> Result<()> {
    let mut ticks = interval_at(Instant::now(), PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = BTreeMap::new();
    for second in 0_u32.. {
        ticks.tick().await;
        let mut now = counters(&system.envoy.stats(OF_FILTER).await?);
        for server in servers {
            now.insert(format!("{} CPU ms", server.name), server.used_ms()?);
        }
        write_increase(lines, second, &before, &now);
        lines.push_str(&decision(&system.planner).await?);
        before = now;
    }
    Ok(())
}

/// Line of the planner's latest decision: its reason, and the share of each variant.
async fn decision(planner: &Planner) -> Result<String> {
    let status = planner.status(1).await?;
    let Some(cycle) = status.cycles.last() else {
        return Ok(String::new());
    };
    let mut line = format!("   planner: {}", cycle.why);
    for (name, variant) in &cycle.variants {
        let _ = write!(line, "  {name} {:.3}", variant.share);
    }
    line.push('\n');
    Ok(line)
}

/// Appends the increase of the filter's counters in each second to `lines`, until it is dropped.
pub(crate) async fn record_filter(envoy: &Envoy, lines: &mut String) -> Result<()> {
    let mut ticks = interval_at(Instant::now(), PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = BTreeMap::new();
    for second in 0_u32.. {
        ticks.tick().await;
        let now = counters(&envoy.stats(OF_FILTER).await?);
        write_increase(lines, second, &before, &now);
        before = now;
    }
    Ok(())
}

/// Appends a line with the gauges, and the increase of the counters.
fn write_increase(
    lines: &mut String,
    second: u32,
    before: &BTreeMap<String, f64>,
    now: &BTreeMap<String, f64>,
) {
    let _ = write!(lines, "{second}:");
    for (name, value) in now {
        let is_gauge = GAUGES.iter().any(|gauge| name.starts_with(gauge));
        let increase = value - before.get(name).copied().unwrap_or(0.0);
        if is_gauge {
            let _ = write!(lines, "  {name} {value:.0}");
        } else if increase != 0.0 && second > 0 {
            let _ = write!(lines, "  {name} {increase:.0}");
        }
    }
    lines.push('\n');
}

/// Reads `name{labels} value` lines.
fn counters(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.rsplit_once(' '));
    let pairs = pairs.filter(|(name, _)| !LEFT_OUT.iter().any(|part| name.contains(part)));
    let number = |(name, value): (&str, &str)| Some((name.to_owned(), value.parse().ok()?));
    pairs.filter_map(number).collect()
}
