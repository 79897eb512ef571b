//! Tests of liveness, in virtual time: a cycle that does not come back.

use axum::extract::State;

use super::*;
use crate::app::run_cycles;
use crate::backends::HttpBackends;
use crate::http::health::healthz;
use crate::observe::{Observe, Scrape};
use crate::telemetry::heartbeat::LATE_MAX;

/// Proxies that never answer, against the port's rules.
struct Silent;

impl Observe for Silent {
    async fn scrape(&self) -> Vec<Scrape> {
        std::future::pending().await
    }
}

fn app(handle: &Arc<ServiceHandle>, clock: Clock) -> Arc<App> {
    let services = Arc::new(ServiceRegistry::single(Arc::clone(handle)));
    let keys = Arc::new(Reloaded::fixed(Keys::parse(KEY).unwrap()));
    Arc::new(App::new(services, keys, clock, watch::channel(false).1).unwrap())
}

#[tokio::test(start_paused = true)]
async fn cycle_that_does_not_come_back_fails_health() {
    let clock = Clock::start();
    let handle = Arc::new(ServiceHandle::new(service(8), clock).unwrap());
    let app = app(&handle, clock);
    let healthy = async || {
        healthz(State(Arc::clone(&app)))
            .await
            .map_err(|problem| problem.detail)
    };
    // No cycles run, as in a standby, or in a leader that waits for the API server.
    tokio::time::sleep(10 * LATE_MAX).await;
    assert!(healthy().await.is_ok());
    let running = Arc::clone(&handle);
    let (stop, stopped) = watch::channel(false);
    let cycles = tokio::spawn(async move {
        let client = crate::app::client().unwrap();
        let backends = HttpBackends::new(client, Vec::new(), LONG, Arc::default());
        run_cycles(
            &running,
            clock,
            (&Silent, &backends),
            (None, None, None),
            stopped,
            |_| {},
        )
        .await;
    });
    tokio::time::sleep(LATE_MAX - Duration::from_secs(1)).await;
    assert!(healthy().await.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    let why = healthy().await.unwrap_err();
    assert!(
        why.starts_with("service 'demo': a cycle has not come back for 61 s"),
        "{why}"
    );
    // A control loop that is ended has no cycle to wait for.
    drop(stop);
    cycles.abort();
    assert!(cycles.await.unwrap_err().is_cancelled());
    assert!(healthy().await.is_ok());
}
