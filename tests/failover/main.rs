//! The leader dies, or is cut off, in the middle of a resize, over many schedules made of seeds, while requests fail
//! in all ways the emulator knows: what must hold is judged over its log and over every change of every pod.
//!
//! One schedule is one thread with a paused clock: planners, API server, kubelets and proxy share it, and it goes on only
//! when nobody has anything to do; while a solver computes on a thread of its own, it stands. Tokio takes a socket that has
//! become readable for idleness once before it looks, and would skip to the next timer, someone's time limit perhaps;
//! so a task sleeps a millisecond at a time for as long as a schedule runs, and a way over a socket costs a
//! millisecond of the clock instead. The first test below sees to that.
//!
//! `WEIR_SEEDS=1000` runs so many schedules, `WEIR_SEED=7` that one alone. A seed says all that a schedule does;
//! which of two requests comes first within a millisecond is the machine's to say.

#[path = "../kubernetes/operate/bed.rs"]
#[allow(dead_code, reason = "what the stories of `operate` share, and more")]
mod bed;
mod judge;
mod play;
mod schedule;
mod tally;
mod troupe;

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use play::play;
use schedule::Schedule;
use tally::{Played, told};
use tokio::time::{Instant, sleep, timeout};
use weir_apiserver::{Fault, Rule};
use weir_bed::wait;
use weir_planner::operator::lease::RETRY_PERIOD;

/// Schedules where nobody says how many: some 70 s on two cores.
const SEEDS: u64 = 320;

/// Runs with a clock that goes on as the file's head says.
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
fn a_way_over_a_socket_costs_next_to_no_time_however_far_the_next_timer_is() {
    in_virtual_time(async {
        let cluster = bed::Cluster::start().await;
        let asked = Instant::now();
        for _ in 0..20 {
            let get = reqwest::Client::new().get(cluster.proxy.url()).send();
            let answer = timeout(Duration::from_secs(60), get).await.unwrap();
            assert!(answer.unwrap().text().await.unwrap().contains("weir_"));
        }
        let took = asked.elapsed();
        assert!(took < Duration::from_secs(1), "{took:?}");
    });
}

#[test]
fn who_has_lost_the_lease_asks_for_it_no_more_often_than_others() {
    in_virtual_time(async {
        let cluster = bed::Cluster::start().await;
        let mut troupe = troupe::Troupe::of(&cluster);
        troupe.enter("weir-0").await;
        let leads = || troupe.leader().is_some();
        wait::until("a leader", bed::LIMIT, leads).await.unwrap();
        // So many at most, or a planner that asks all the time would never let the clock go on.
        let rule = Rule::always(Fault::HangUp).resource("leases").times(1_000);
        troupe.faults([rule]);
        let minute = Duration::from_secs(60);
        sleep(minute).await;
        let asked = cluster.server.faults().met();
        let most = 2 * minute.as_secs() / RETRY_PERIOD.as_secs();
        assert!((1..=most).contains(&asked), "{asked} times in {minute:?}");
    });
}

#[test]
fn whatever_fails_one_plans_within_the_budget_and_nothing_is_resized_twice() {
    let number = |name: &str| {
        let given = std::env::var(name).ok();
        given.map(|text| text.parse::<u64>().expect("a whole number"))
    };
    let only = number("WEIR_SEED");
    let first = only.unwrap_or(0);
    let count = only.map_or(number("WEIR_SEEDS").unwrap_or(SEEDS), |_| 1);
    let (next, played) = (AtomicU64::new(first), Mutex::new(Vec::new()));
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
                    let result = in_virtual_time(play(&schedule));
                    if let Err(why) = &result {
                        eprintln!("WEIR_SEED={seed}: {why}\n{schedule:#?}");
                    } else if only.is_some() {
                        eprintln!("{schedule:#?}");
                    }
                    played.lock().unwrap().push((seed, result.ok()));
                }
            });
        }
    });
    let played = played.into_inner().unwrap();
    let failed = played.iter().filter(|(_, played)| played.is_none());
    let failed: Vec<u64> = failed.map(|(seed, _)| *seed).collect();
    let well: Vec<Played> = played
        .into_iter()
        .filter_map(|(_, played)| played)
        .collect();
    eprintln!("{}", told(&well));
    assert!(
        failed.is_empty(),
        "{} of {count} schedules went wrong, above: seeds {failed:?}",
        failed.len()
    );
}
