//! `kube`: the time until pods have the cores for a step of demand, and the planner's cost to its API server and its
//! node with many pods. It measures and prints, on an emulated API server; the targets are at the top.

mod cluster;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use cluster::{Cluster, Model};

/// Maximum time from a step of demand until the first plan for it is actuated.
const STEP_MAX_S: f64 = 1.5;
/// Maximum memory of the planner, MB.
const MEMORY_MAX_MB: f64 = 150.0;
/// Maximum pod patches a second.
const PATCHES_MAX: f64 = 10.0;
/// Time limit of any wait.
const PATIENCE: Duration = Duration::from_secs(120);
/// Window in which patches are counted: a burst for a whole service is allowed within one second.
const SPAN: Duration = Duration::from_secs(10);
/// Interval between checks of cores that are timed.
const CORES_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// Interval between all other checks: frequent checks of 500 pods would slow down the emulator.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Cycle time of the services.
const CYCLE_S: f64 = 1.0;
const STEP: &str = "step";

#[derive(Debug, Args)]
pub(crate) struct KubeArgs {
    /// Number of steps of demand to time.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Number of services.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..))]
    services: u32,
    /// Pods per service.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=110))]
    replicas: u32,
    /// Duration of each observation, with constant and then with changing loads, in seconds.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(10..))]
    seconds: u32,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
}

/// Times from a step of demand, s.
#[derive(Debug, Clone, Serialize)]
struct Steps {
    count: usize,
    /// For each step: time until more cores are actuated, and until all the demand needs are.
    each: Vec<[f64; 2]>,
    /// Time until more cores are actuated.
    first_p50: f64,
    first_max: f64,
    /// Time until all cores the demand needs are actuated.
    all_p50: f64,
    all_max: f64,
}

/// The planner's cost with many pods.
#[derive(Debug, Clone, Serialize)]
struct Crowd {
    services: u32,
    pods: usize,
    /// Requests per cycle, by kind, without watches.
    still: BTreeMap<String, f64>,
    changing: BTreeMap<String, f64>,
    /// Per second, in the busiest ten seconds and in the busiest one.
    patches_s: f64,
    patches_in_busiest_s: usize,
    patches: usize,
    memory_mb: f64,
    memory_most_mb: f64,
}

pub(crate) async fn measured(args: KubeArgs) -> Result<ExitCode> {
    let steps = steps(args.steps).await?;
    if !args.json {
        println!("{}", steps_report(&steps));
    }
    let crowd = crowd(&args).await?;
    if args.json {
        let all = serde_json::json!({"steps": steps, "crowd": crowd});
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        println!("{}", crowd_report(&crowd));
    }
    let mut code = ExitCode::SUCCESS;
    for (what, found, most) in [
        ("step to all cores, s", steps.all_max, STEP_MAX_S),
        ("memory, MB", crowd.memory_most_mb, MEMORY_MAX_MB),
        ("patches/s", crowd.patches_s, PATCHES_MAX),
    ] {
        if found > most {
            eprintln!("{what}: {found:.2}, must be at most {most}");
            code = ExitCode::FAILURE;
        }
    }
    Ok(code)
}

/// Alternates between a load for one core per pod and one that needs seven of eight cores.
async fn steps(count: u32) -> Result<Steps> {
    const LOW: f64 = 5.0;
    const HIGH: f64 = 60.0;
    const REQUIRED: f64 = 5.0;
    let model = |name, accuracy, slope_rps| Model {
        name,
        accuracy,
        slope_rps,
        replicas: 1,
        max: 8,
    };
    let mut cluster = Cluster::start().await?;
    let models = [model("small", 70.0, 20.0), model("large", 80.0, 10.0)];
    cluster.service(STEP, &models, 8)?;
    cluster.proxies.load(STEP, LOW);
    cluster.plan()?;
    let (mut first, mut all) = (Vec::new(), Vec::new());
    for step in 0..count {
        let low = || cluster.cores(STEP) < REQUIRED && cluster.is_in_force(STEP);
        wait(&cluster, "few cores", CHECK_INTERVAL, low).await?;
        // Each step falls on another phase of the cycle.
        let phase = Duration::from_millis(u64::from(step) * 1000 / u64::from(count));
        sleep(Duration::from_secs(5) + phase).await;
        let before = cluster.cores(STEP);
        let begin = Instant::now();
        cluster.proxies.load(STEP, HIGH);
        wait(&cluster, "a first core", CORES_CHECK_INTERVAL, || {
            cluster.cores(STEP) > before
        })
        .await?;
        first.push(begin.elapsed().as_secs_f64());
        // The final state is reached when nothing has changed for a while.
        let (mut cores, mut since) = (cluster.cores(STEP), begin.elapsed());
        while begin.elapsed() < since + Duration::from_secs(5) {
            sleep(CORES_CHECK_INTERVAL).await;
            let now = cluster.cores(STEP);
            if now != cores {
                (cores, since) = (now, begin.elapsed());
            }
        }
        ensure!(cores >= REQUIRED, "only {cores} cores: {}", cluster.log());
        all.push(since.as_secs_f64());
        cluster.proxies.load(STEP, LOW);
    }
    let each = first.iter().zip(&all);
    let each = each.map(|(first, all)| [*first, *all]).collect();
    first.sort_by(f64::total_cmp);
    all.sort_by(f64::total_cmp);
    let p50 = |sorted: &[f64]| sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    let max = |sorted: &[f64]| sorted.last().copied().unwrap_or_default();
    Ok(Steps {
        count: all.len(),
        each,
        first_p50: p50(&first),
        first_max: max(&first),
        all_p50: p50(&all),
        all_max: max(&all),
    })
}

fn name(service: u32) -> String {
    format!("s{service}")
}

/// Runs many pods, first with constant loads, then changing another tenth of the loads in each cycle.
async fn crowd(args: &KubeArgs) -> Result<Crowd> {
    const CORE_RPS: f64 = 20.0;
    let mut cluster = Cluster::start().await?;
    let model = Model {
        name: "model",
        accuracy: 70.0,
        slope_rps: CORE_RPS,
        replicas: args.replicas,
        max: 4,
    };
    // Rate that `cores` cores of each pod sustain, with the headroom.
    let rate = |cores: f64| f64::from(args.replicas) * CORE_RPS * (cores - 0.3);
    for service in 0..args.services {
        cluster.service(&name(service), &[model], args.replicas * 4)?;
        cluster.proxies.load(&name(service), rate(1.0));
    }
    let pods = (args.services * args.replicas) as usize;
    let created = || cluster.server.kubelet().pods().len() == pods;
    wait(&cluster, "the pods", CHECK_INTERVAL, created).await?;
    cluster.plan()?;
    let settled = || (0..args.services).all(|service| cluster.is_in_force(&name(service)));
    wait(
        &cluster,
        "all targets to be reached",
        CHECK_INTERVAL,
        settled,
    )
    .await?;
    sleep(SPAN).await;
    let span = Duration::from_secs(args.seconds.into());
    let cycles = span.as_secs_f64() / CYCLE_S;
    let per_cycle = |kinds: BTreeMap<String, usize>| -> BTreeMap<String, f64> {
        let each = kinds.into_iter();
        each.map(|(kind, count)| (kind, count as f64 / cycles))
            .collect()
    };
    let before = cluster.server.log().latest();
    sleep(span).await;
    let (still, unrequested) = cluster.requests(before);
    ensure!(
        unrequested.is_empty(),
        "pods are patched although nothing changes"
    );
    let before = cluster.server.log().latest();
    let tenth = args.services.div_ceil(10);
    let mut high = vec![false; args.services as usize];
    let mut next = 0;
    let begin = Instant::now();
    while begin.elapsed() < span {
        for _ in 0..tenth {
            if let Some(high) = high.get_mut(next) {
                *high = !*high;
                let cores = if *high { 2.0 } else { 1.0 };
                cluster.proxies.load(&name(next as u32), rate(cores));
            }
            next = (next + 1) % args.services as usize;
        }
        sleep(Duration::from_secs_f64(CYCLE_S)).await;
    }
    let (changing, acted) = cluster.requests(before);
    let in_any = |span: Duration| {
        let within = |from: &Duration| {
            let until = *from + span;
            acted
                .iter()
                .filter(|at| **at >= *from && **at < until)
                .count()
        };
        acted.iter().map(within).max().unwrap_or_default()
    };
    let mb = |kb: u64| kb as f64 * 1024.0 / 1e6;
    Ok(Crowd {
        services: args.services,
        pods,
        still: per_cycle(still),
        changing: per_cycle(changing),
        patches_s: in_any(SPAN) as f64 / SPAN.as_secs_f64(),
        patches_in_busiest_s: in_any(Duration::from_secs(1)),
        patches: acted.len(),
        memory_mb: mb(cluster.memory_kb("VmRSS")?),
        memory_most_mb: mb(cluster.memory_kb("VmHWM")?),
    })
}

async fn wait(
    cluster: &Cluster,
    what: &str,
    interval: Duration,
    is: impl Fn() -> bool,
) -> Result<()> {
    let begin = Instant::now();
    while !is() {
        ensure!(
            begin.elapsed() < PATIENCE,
            "timed out after {PATIENCE:?} waiting for {what}; log of the planner:\n{}",
            cluster.log()
        );
        sleep(interval).await;
    }
    Ok(())
}

fn steps_report(steps: &Steps) -> String {
    format!(
        "from a step of demand, cycle 1 s, kubelet 0.1 s, {} steps:\n  more cores in force after {:.2} s (p50), {:.2} s \
         (max)\n  all that it wants after {:.2} s (p50), {:.2} s (max)",
        steps.count, steps.first_p50, steps.first_max, steps.all_p50, steps.all_max,
    )
}

fn crowd_report(crowd: &Crowd) -> String {
    let sum = |kinds: &BTreeMap<String, f64>| kinds.values().sum::<f64>();
    let each = |kinds: &BTreeMap<String, f64>| {
        let each = kinds
            .iter()
            .map(|(kind, count)| format!("{kind} {count:.1}"));
        each.collect::<Vec<_>>().join(", ")
    };
    format!(
        "{} pods of {} services:\n  requests in a cycle when nothing changes {:.1} ({}), when another tenth of the loads \
         changes each cycle {:.1} ({})\n  patches {} in all, at most {:.1}/s over 10 s, {} in the busiest second\n  the \
         planner's own memory {:.0} MB, at most {:.0} MB",
        crowd.pods,
        crowd.services,
        sum(&crowd.still),
        each(&crowd.still),
        sum(&crowd.changing),
        each(&crowd.changing),
        crowd.patches,
        crowd.patches_s,
        crowd.patches_in_busiest_s,
        crowd.memory_mb,
        crowd.memory_most_mb,
    )
}
