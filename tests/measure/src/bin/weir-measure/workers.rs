//! `workers`: quality of the queue shared by a proxy's workers, on a real Envoy. It prints; the
//! library defines the targets.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Subcommand};
use serde::Serialize;
use weir_draw::table;
use weir_measure::workers::cost::{Cost, RATIO_MAX, SLOT_TABLE_MAX_US, weigh};
use weir_measure::workers::crowd::{Crowd, hold};
use weir_measure::workers::{LOADS, Row, SCENARIO, Scope, WORKERS, run};

use crate::lane::{self, LaneArgs};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct WorkersArgs {
    #[command(subcommand)]
    what: Option<WorkersCommand>,
    #[command(flatten)]
    order: OrderArgs,
    /// Print the figures as JSON.
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum WorkersCommand {
    /// Queue many requests at once over HTTP/2 and release them: answers and memory.
    Crowd(CrowdArgs),
    /// Measure the processor time of a request, with the filter and without.
    Cost(CostArgs),
    /// Keep a server busy that executes one request at a time, with `queue.overlap` and without.
    Lane(LaneArgs),
}

#[derive(Debug, Args)]
struct OrderArgs {
    /// The scenario; the number of workers and the load are set.
    #[arg(long, value_name = "FILE", default_value = SCENARIO)]
    scenario: PathBuf,
    /// Duration of each run, in seconds; limited by the scenario's length.
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Number of workers, instead of 1, 2 and 4; may be given several times.
    #[arg(long)]
    workers: Vec<u32>,
    /// Multiple of the capacity, instead of 0.95 and 1.5; may be given several times.
    #[arg(long)]
    load: Vec<f64>,
    /// Number of runs of each case.
    #[arg(long, default_value_t = 1)]
    rounds: u32,
}

#[derive(Debug, Args)]
struct CrowdArgs {
    /// Number of requests queued at once.
    #[arg(long, default_value_t = 20_000)]
    requests: usize,
    /// Time they are queued, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Number of Envoy's workers.
    #[arg(long, default_value_t = 2)]
    workers: u32,
    /// Number of rounds in one Envoy.
    #[arg(long, default_value_t = 2)]
    rounds: u32,
}

#[derive(Debug, Args)]
struct CostArgs {
    /// Number of rounds over the Envoys.
    #[arg(long, default_value_t = 9)]
    rounds: u32,
    /// Requests to each Envoy in a round, a multiple of 400.
    #[arg(long, default_value_t = 25_200)]
    requests: u32,
}

/// Measures and prints; the exit code shows whether the targets are met.
pub(crate) async fn measured(args: WorkersArgs) -> Result<ExitCode> {
    match args.what {
        None => order(args.order, args.json).await,
        Some(WorkersCommand::Crowd(what)) => crowd(what, args.json).await,
        Some(WorkersCommand::Cost(what)) => cost(what, args.json).await,
        Some(WorkersCommand::Lane(what)) => lane::measured(&what, args.json).await,
    }
}

async fn order(args: OrderArgs, json: bool) -> Result<ExitCode> {
    let length = Duration::from_secs(args.seconds.into());
    let or = |given: Vec<_>, standard: &[_]| {
        if given.is_empty() {
            standard.to_vec()
        } else {
            given
        }
    };
    let loads = if args.load.is_empty() {
        LOADS.to_vec()
    } else {
        args.load
    };
    let mut rows = Vec::new();
    for of_capacity in loads {
        for workers in or(args.workers.clone(), &WORKERS) {
            for scope in [Scope::Proxy, Scope::Worker] {
                for _ in 0..args.rounds {
                    let row = run(&args.scenario, workers, scope, of_capacity, length).await?;
                    eprintln!("{}", line(&row).join("  "));
                    rows.push(row);
                }
            }
        }
    }
    if json {
        print(&rows)?;
    } else {
        println!("{}", table(HEADER, rows.iter().map(line)));
    }
    let shared = rows.iter().filter(|row| row.scope == Scope::Proxy);
    Ok(verdict(shared.map(Row::check)))
}

const HEADER: [&str; 13] = [
    "load",
    "workers",
    "queue per",
    "sent",
    "on time %",
    "one queue, replayed %",
    "out of order %",
    "(at most)",
    "hand-over p50 / p99 / max ms",
    "of them",
    "CAS conflicts",
    "round trip ms",
    "lag p99 ms",
];

fn line(row: &Row) -> [String; 13] {
    let took = row.handover_us;
    let ms = |us: f64| format!("{:.2}", us / 1e3);
    [
        format!("{} ×", row.of_capacity),
        row.workers.to_string(),
        row.scope.name().to_owned(),
        row.sent.to_string(),
        format!("{:.2}", row.on_time_percent),
        format!("{:.2}", row.single_queue_percent),
        format!("{:.2}", row.inversions_percent),
        format!("{:.2}", row.inversions_at_most_percent),
        format!("{} / {} / {}", ms(took.p50), ms(took.p99), ms(took.max)),
        took.count.to_string(),
        row.cas_conflicts.to_string(),
        format!("{:.2}", row.round_trip_ms),
        format!("{:.1}", row.lag_p99_ms),
    ]
}

async fn crowd(args: CrowdArgs, json: bool) -> Result<ExitCode> {
    let span = Duration::from_secs(args.seconds.into());
    let crowds = hold(args.requests, span, args.workers, args.rounds).await?;
    if json {
        print(&crowds)?;
    } else {
        for crowd in &crowds {
            println!("{}", crowd_report(crowd));
        }
    }
    Ok(verdict(crowds.iter().map(Crowd::check)))
}

fn crowd_report(crowd: &Crowd) -> String {
    let mb = |bytes: f64| format!("{:.1} MB", bytes / 1e6);
    let each = |during: f64, before: f64| (during - before) / crowd.held as f64 / 1e3;
    let (before, during, after) = (crowd.before, crowd.during, crowd.after);
    format!(
        "{} queued at once over {} connections, {} workers: {} answered, {} executed ({} executions), \
         all done after {:.1} s\n  allocated {} before, {} during ({:.1} kB each), {} with all connections \
         still open, {} after {:.1} s without ({:+.1} %)\n  resident {} before, {} during ({:.1} kB \
         each), {} after",
        crowd.held,
        crowd.connections,
        crowd.workers,
        crowd.answered,
        crowd.executed,
        crowd.executions,
        crowd.drained_s,
        mb(before.allocated),
        mb(during.allocated),
        each(during.allocated, before.allocated),
        mb(crowd.idle.allocated),
        mb(after.allocated),
        crowd.settled_s,
        crowd.left_percent(),
        mb(before.resident),
        mb(during.resident),
        each(during.resident, before.resident),
        mb(after.resident),
    )
}

async fn cost(args: CostArgs, json: bool) -> Result<ExitCode> {
    let cost = weigh(args.rounds, args.requests).await?;
    if json {
        print(&cost)?;
    } else {
        println!("{}", weighed(&cost));
    }
    let most = cost
        .slot_table
        .alone_us
        .max(cost.slot_table.among_others_us);
    let slot_table = (most <= SLOT_TABLE_MAX_US).then_some(());
    let slot_table = slot_table.ok_or_else(|| {
        anyhow::anyhow!("claim and release take {most:.1} µs, must be at most {SLOT_TABLE_MAX_US}")
    });
    let ratio = cost.ratio.proxy;
    let whole = (ratio <= RATIO_MAX).then_some(());
    let whole = whole.ok_or_else(|| {
        anyhow::anyhow!("a request costs {ratio:.2} times its cost without the filter, must be at most {RATIO_MAX}")
    });
    Ok(verdict([slot_table, whole].into_iter()))
}

fn weighed(cost: &Cost) -> String {
    let each: Vec<String> = cost
        .rounds
        .iter()
        .map(|round| {
            format!(
                "  {:.1}  {:.1}  {:.1}  {:.1}",
                round.proxy_us, round.worker_us, round.headers_us, round.bare_us
            )
        })
        .collect();
    let median = cost.median;
    format!(
        "Envoy's processor time per request, µs, {} requests each in {} rounds ({:.0} requests/s):\n  \
         shared queue  queue per worker  by headers alone  no filter\n{}\nmedians: {:.1}  {:.1}  {:.1}  {:.1}; with the shared queue \
         {:+.1} µs, the filter without it {:+.1} µs\nof what a request costs without the filter, medians: \
         {:.2} with the shared queue, {:.2} with a queue per worker; {:+.3} for hearing the body\nclaim and release in the VM: {:.1} µs alone, {:.1} µs \
         among others",
        cost.requests,
        cost.rounds.len(),
        cost.rps,
        each.join("\n"),
        median.proxy_us,
        median.worker_us,
        median.headers_us,
        median.bare_us,
        cost.slot_table_us,
        median.worker_us - median.bare_us,
        cost.ratio.proxy,
        cost.ratio.worker,
        cost.ratio.hearing,
        cost.slot_table.alone_us,
        cost.slot_table.among_others_us,
    )
}

pub(crate) fn print(figures: &impl Serialize) -> Result<()> {
    println!("{}", serde_json::to_string_pretty(figures)?);
    Ok(())
}

pub(crate) fn verdict(checks: impl Iterator<Item = Result<()>>) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for missed in checks.filter_map(Result::err) {
        eprintln!("{missed:#}");
        code = ExitCode::FAILURE;
    }
    code
}
