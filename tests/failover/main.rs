//! Failover tests: the leader dies, or is cut off, during a resize, in many seeded schedules with faulty
//! requests, edits of the resource, re-elections of the same process, patches that take effect up to 5 s late, and lists
//! that are forbidden for a while. The invariants are checked over the API server's log and over every change of every pod.
//!
//! A schedule runs on one thread with a paused clock, shared by planners, API server, kubelets and proxy. The
//! clock advances only when all of them are idle; it stands still while a solver computes on its own thread.
//! Tokio treats a socket that has just become readable as idle once before it polls it. It would then skip to
//! the next timer, perhaps to a timeout. So a task sleeps one millisecond at a time, and a message over a
//! socket costs a millisecond of the clock instead. The first test below checks that.
//!
//! `WEIR_SEEDS=1000` runs that many schedules, `WEIR_SEED=7` only that one. A seed determines the whole
//! schedule, except for the order of two requests within a millisecond.

#[path = "../kubernetes/operator/bed.rs"]
#[allow(dead_code, reason = "what the tests of `operate` share, and more")]
mod bed;
mod invariants;
mod late;
mod planners;
#[path = "../kubernetes/operator/resizes.rs"]
mod resizes;
mod run;
mod schedule;
mod summary;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use run::run_schedule;
use schedule::Schedule;
use summary::{Outcome, summarize};
use tokio::time::{Instant, sleep, timeout};
use weir_apiserver::{Fault, Rule};
use weir_bed::wait;
use weir_planner::operator::lease::RETRY_PERIOD;

/// Default number of schedules: about 100 s on two cores, at 1.25 s of CPU each.
const SEEDS: u64 = 160;

/// Runs `work` on a paused clock that advances as described above.
fn in_virtual_time<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_all().start_paused(true).build().unwrap();
    runtime.block_on(async {
        tokio::spawn(async {
            loop {
                sleep(Duration::from_millis(1)).await;
            }
        });
        work.await
    })
}

#[test]
fn socket_message_costs_little_virtual_time() {
    in_virtual_time(async {
        let cluster = bed::Cluster::start().await;
        let started = Instant::now();
        for _ in 0..20 {
            let get = reqwest::Client::new().get(cluster.proxy.url()).send();
            let answer = timeout(Duration::from_secs(60), get).await.unwrap();
            assert!(answer.unwrap().text().await.unwrap().contains("weir_"));
        }
        let took = started.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    });
}

#[test]
fn deposed_leader_retries_the_lease_at_the_usual_rate() {
    in_virtual_time(async {
        let cluster = bed::Cluster::start().await;
        let mut planners = planners::PlannerGroup::of(&cluster);
        planners.start("weir-0").await;
        let leads = || planners.leader().is_some();
        wait::until("a leader", bed::LIMIT, leads).await.unwrap();
        // Bounded, or a planner that retries without delay would never let the clock advance.
        let rule = Rule::always(Fault::HangUp).resource("leases").times(1_000);
        planners.faults([rule]);
        let minute = Duration::from_secs(60);
        sleep(minute).await;
        let requests = cluster.server.faults().met();
        let most = 2 * minute.as_secs() / RETRY_PERIOD.as_secs();
        assert!(
            (1..=most).contains(&requests),
            "{requests} times in {minute:?}"
        );
    });
}

#[test]
fn leader_failure_keeps_budget_and_repeats_no_resize() {
    let number = |name: &str| {
        let given = std::env::var(name).ok();
        given.map(|text| text.parse::<u64>().expect("a whole number"))
    };
    let only = number("WEIR_SEED");
    let first = only.unwrap_or(0);
    let count = only.map_or(number("WEIR_SEEDS").unwrap_or(SEEDS), |_| 1);
    let (next, outcomes) = (AtomicU64::new(first), Mutex::new(Vec::new()));
    let threads = std::thread::available_parallelism().unwrap().get();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + count {
                        return;
                    }
                    let schedule = Schedule::of(seed);
                    let result = in_virtual_time(run_schedule(&schedule));
                    if let Err(why) = &result {
                        eprintln!("WEIR_SEED={seed}: {why}\n{schedule:#?}");
                    } else if only.is_some() {
                        eprintln!("{schedule:#?}");
                    }
                    outcomes.lock().unwrap().push((seed, result.ok()));
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap();
    let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_none());
    let failed: Vec<u64> = failed.map(|(seed, _)| *seed).collect();
    let well: Vec<Outcome> = outcomes
        .into_iter()
        .filter_map(|(_, outcome)| outcome)
        .collect();
    eprintln!("{}", summarize(&well));
    assert!(
        failed.is_empty(),
        "{} of {count} schedules failed, see above: seeds {failed:?}",
        failed.len()
    );
}
