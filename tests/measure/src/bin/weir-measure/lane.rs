//! `workers lane`: a server that executes one request at a time, with `queue.overlap` and without. It prints; the
//! library defines the targets.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use weir_draw::table;
use weir_measure::workers::lane::{Figures, Row, SIGMA, capacity, cases, run};

use crate::workers::{print, verdict};

#[derive(Debug, Args)]
pub(crate) struct LaneArgs {
    /// Duration of each run's load, in seconds.
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(5..=600))]
    seconds: u32,
    /// Seed of the arrivals.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

pub(crate) async fn measured(args: &LaneArgs, json: bool) -> Result<ExitCode> {
    let (seed, length) = (args.seed, Duration::from_secs(args.seconds.into()));
    let (even, scattered) =
        tokio::try_join!(capacity(0.0, seed, length), capacity(SIGMA, seed, length))?;
    eprintln!("from its own queue: {even:.2} requests/s, scattered {scattered:.2}");
    let mut rows = Vec::new();
    for case in cases() {
        let own = if case.sigma > 0.0 { scattered } else { even };
        let row = run(case, seed, length, own).await?;
        eprintln!("{}", line(&row).join("  "));
        rows.push(row);
    }
    if json {
        print(&rows)?;
    } else {
        let table = table(HEADER, rows.iter().map(line));
        println!("without / with queue.overlap\n{table}");
    }
    let missed = rows.iter().flat_map(Row::check);
    Ok(verdict(missed.map(Err)))
}

const HEADER: [&str; 14] = [
    "load",
    "workers",
    "scatter",
    "budgets ms",
    "sent",
    "executed/s",
    "of its own queue %",
    "already at server %; else idle ms",
    "on time %",
    "executed late %",
    "out of order %",
    "refused; at once %",
    "at server",
    "round trip; lag p99 ms",
];

fn line(row: &Row) -> [String; 14] {
    let both = |show: &dyn Fn(Figures) -> String| format!("{} / {}", show(row.off), show(row.on));
    let (min, most) = row.case.budgets_ms;
    [
        format!("{} ×", row.case.of_capacity),
        row.case.workers.to_string(),
        row.case.sigma.to_string(),
        if min == most {
            min.to_string()
        } else {
            format!("{min} to {most}")
        },
        row.sent.to_string(),
        both(&|of| format!("{:.2}", of.executed_rps)),
        both(&|of| format!("{:.2}", of.throughput_percent)),
        both(&|of| format!("{:.1}; {:.2}", of.lay_percent, of.idle_ms)),
        both(&|of| format!("{:.2}", of.on_time_percent)),
        both(&|of| format!("{:.2}", of.executed_late_percent)),
        both(&|of| format!("{:.2}", of.out_of_order_percent)),
        both(&|of| format!("{}; {:.1}", of.refused, of.refused_at_once_percent)),
        both(&|of| of.at_server.to_string()),
        both(&|of| format!("{:.2}; {:.1}", of.round_trip_ms, of.lag_p99_ms)),
    ]
}
