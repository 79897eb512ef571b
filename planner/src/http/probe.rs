//! Probes of the leader by a standby, so that a connection that is cut is noticed before a poll needs it.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode};
use tokio::time::{MissedTickBehavior, interval};

use super::App;
use super::leadership::{Leader, LeaderLink};
use crate::error_log::ErrorLog;

/// Interval of the probes.
pub const PROBE_EVERY: Duration = Duration::from_secs(1);
/// Timeout of a probe.
pub const PROBE_TIMEOUT: Duration = Duration::from_millis(750);
/// Failed probes in a row after which a leader that has answered counts as lost.
pub const PROBE_FAILURES: u32 = 2;

// A lost leader is reported within 3 s.
const _: () =
    assert!(PROBE_FAILURES as u128 * PROBE_EVERY.as_millis() + PROBE_TIMEOUT.as_millis() < 3000);

/// Name of the leader in the log.
const LEADER: &str = "the planner that leads";

/// Probes the leader as long as another planner leads; never returns.
pub async fn run_probes(app: Arc<App>) {
    let mut leader = app.leadership.leader.clone();
    let mut log = ErrorLog::default();
    loop {
        let address = match &*leader.borrow_and_update() {
            Leader::At(address) => Some(address.clone()),
            Leader::Us | Leader::Nobody => None,
        };
        let probed = async {
            match address {
                Some(address) => probe(&app, address, &mut log).await,
                None => {
                    app.link.send_replace(LeaderLink::Unknown);
                    std::future::pending().await
                }
            }
        };
        tokio::select! {
            changed = leader.changed() => if changed.is_err() {
                // The planner is shutting down, or has no others.
                return std::future::pending().await;
            },
            () = probed => {}
        }
    }
}

/// Probes the planner at `address`; never returns.
async fn probe(app: &App, address: String, log: &mut ErrorLog) {
    let url = format!("{address}/healthz");
    let mut ticks = interval(PROBE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut failures = 0;
    app.link.send_replace(LeaderLink::Unknown);
    loop {
        ticks.tick().await;
        let answer = app.leader_client.get(&url, HeaderMap::new(), PROBE_TIMEOUT);
        let why = match answer.await {
            Ok(answer) if answer.status() == StatusCode::OK => {
                failures = 0;
                app.link.send_replace(LeaderLink::Reached(address.clone()));
                log.went_well(LEADER);
                continue;
            }
            Ok(answer) => format!("status {}", answer.status().as_u16()),
            Err(why) => why,
        };
        failures += 1;
        app.metrics.count_failed_probe();
        let was_reached = matches!(&*app.link.borrow(), LeaderLink::Reached(_));
        if failures >= PROBE_FAILURES || !was_reached {
            let error = format!("{address}: {why}");
            let fallback = "this planner is not ready and refuses polls, proxies keep their plans";
            log.failed(LEADER, &error, fallback);
            app.link.send_replace(LeaderLink::Lost {
                address: address.clone(),
                why,
            });
        }
    }
}
