//! Leader election between two planners: only the leader writes, and the other takes over within 15 s of its
//! end.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;
use weir_planner::operator::leader::LEASE;

use super::clusters::on_each_cluster;
use super::fixture::{BOTH, Fixture};
use super::request_log::RequestLog;
use super::sandbox::{LIMIT, until_within};

/// Longest time from a leader's end to the next leader's first plan.
const TAKEOVER_MAX: Duration = Duration::from_secs(15);

#[tokio::test]
async fn only_the_leader_writes_and_a_standby_takes_over() {
    on_each_cluster(scenario).await;
}

async fn scenario(fixture: &Fixture<'_>) {
    if !fixture.deploy_both().await {
        return;
    }
    let (first, first_requests) = fixture.planner("weir-a").await;
    fixture.proxy.load(2.0);
    fixture.apply(&fixture.demo()).await.unwrap();
    fixture.until_condition("demo", "Actuated", "True").await;
    assert_eq!(holder(fixture).await, "weir-a");
    let (second, second_requests) = fixture.planner("weir-b").await;
    // The standby serves the leader's plan.
    let same = async || {
        let (one, other) = (first.plan().await, second.plan().await);
        one.is_ok() && one == other
    };
    assert!(until_within(LIMIT, same).await, "{:?}", second.plan().await);
    fixture.proxy.load(30.0);
    fixture.until_cores(&BOTH, |cores| cores >= 3.0).await;
    fixture.until_reported(|cores| cores >= 3.0).await;
    assert_eq!(writes_beside_lease(&second_requests), 0);
    assert!(writes_beside_lease(&first_requests) > 0);

    first.kill().await;
    let killed = Instant::now();
    fixture.proxy.load(2.0);
    // Nobody gives plans out during the takeover: proxies keep theirs.
    assert_eq!(second.plan().await, Err(503));
    let taken =
        async || holder(fixture).await == "weir-b" && writes_beside_lease(&second_requests) > 0;
    assert!(until_within(TAKEOVER_MAX, taken).await, "not taken over");
    eprintln!("taken over after {:?}", killed.elapsed());
    fixture.until_cores(&BOTH, |cores| cores <= 2.0).await;

    // A planner that shuts down releases the Lease, so its successor need not wait for the expiry.
    let (third, _) = fixture.planner("weir-c").await;
    second.end().await.unwrap();
    let taken = async || holder(fixture).await == "weir-c";
    assert!(until_within(LIMIT, taken).await, "not taken over again");
    third.end().await.unwrap();
    assert_eq!(holder(fixture).await, "");
    assert_eq!(first_requests.forbidden(), []);
    assert_eq!(second_requests.forbidden(), []);
}

async fn holder(fixture: &Fixture<'_>) -> String {
    let lease = fixture.api::<Lease>().get_opt(LEASE).await.unwrap();
    let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
    spec.holder_identity.unwrap_or_default()
}

/// Number of writes other than to the Lease.
fn writes_beside_lease(requests: &RequestLog) -> usize {
    let writes = requests.writes().into_iter();
    let writes = writes.filter(|write| !write.path.contains("/leases"));
    writes.count()
}
