//! One queue for all workers, on a real Envoy: order, conservation, and many held requests. The runs are
//! short with generous bounds, because the machine may be busy; `cargo xtask workers` measures precisely.

use std::path::Path;
use std::time::Duration;

use weir_measure::workers::crowd::hold;
use weir_measure::workers::{Row, SCENARIO, Scope, run};

const LENGTH: Duration = Duration::from_secs(5);
/// Maximum rate of inversions; a queue per worker has about forty.
const INVERSIONS_MAX_PERCENT: f64 = 5.0;

/// A machine that pauses for half of a worker's lease (250 ms) makes live workers look dead. Such a run is
/// repeated, up to a limit.
const STANDSTILL_MS: f64 = 125.0;
const RUNS_MAX: usize = 3;

async fn at_overload(workers: u32, scope: Scope) -> Row {
    let mut runs = 0;
    let row = loop {
        let row = run(Path::new(SCENARIO), workers, scope, 1.5, LENGTH)
            .await
            .unwrap();
        println!("{row:?}");
        runs += 1;
        if row.lag_max_ms < STANDSTILL_MS || runs == RUNS_MAX {
            break row;
        }
    };
    row.conserves().unwrap();
    assert!(row.dispatched > row.sent / 2, "{row:?}");
    row
}

#[tokio::test]
async fn four_workers_keep_order_and_slots_of_one_queue() {
    let _alone = super::alone().await;
    let row = at_overload(4, Scope::Proxy).await;
    assert!(
        row.inversions_percent <= INVERSIONS_MAX_PERCENT,
        "out of order: {row:?}"
    );
    assert!(row.handover_us.count > 0, "no slot changed hands: {row:?}");
}

#[tokio::test]
async fn queue_per_worker_breaks_the_order_measurably() {
    let _alone = super::alone().await;
    let row = at_overload(4, Scope::Worker).await;
    assert!(
        row.inversions_percent > 2.0 * INVERSIONS_MAX_PERCENT,
        "the measure sees nothing: {row:?}"
    );
    assert_eq!(row.handover_us.count, 0, "{row:?}");
}

#[tokio::test]
async fn many_held_http2_requests_are_answered_once_without_leak() {
    let _alone = super::alone().await;
    let _ = rlimit::increase_nofile_limit(rlimit::INFINITY);
    for crowd in hold(3000, Duration::from_secs(1), 2, 2).await.unwrap() {
        println!("{crowd:?}");
        crowd.check().unwrap();
    }
}
