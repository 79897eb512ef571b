//! Two planners, one writer: the other one waits, and takes over within 15 s when the first has gone.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;
use weir_planner::operator::leader::LEASE;

use super::asked::Asked;
use super::ground::{LIMIT, until_within};
use super::place::everywhere;
use super::stage::Stage;

const BOTH: [&str; 2] = ["small", "large"];
/// From a planner's end until another one plans.
const TAKEN_OVER_MAX: Duration = Duration::from_secs(15);

#[tokio::test]
async fn one_writes_and_the_other_takes_over() {
    everywhere(story).await;
}

async fn story(stage: &Stage<'_>) {
    if !stage.has_room() {
        return;
    }
    for name in BOTH {
        stage.deploy_cores(name, 1, 1).await;
    }
    let (first, first_asked) = stage.planner("weir-a").await;
    stage.proxy.load(2.0);
    stage.apply(&stage.demo()).await.unwrap();
    stage.until_condition("demo", "Actuated", "True").await;
    assert_eq!(holder(stage).await, "weir-a");
    let (second, second_asked) = stage.planner("weir-b").await;
    // The second one's answer is the first one's.
    let same = async || {
        let (one, other) = (first.plan().await, second.plan().await);
        one.is_ok() && one == other
    };
    assert!(until_within(LIMIT, same).await, "{:?}", second.plan().await);
    stage.proxy.load(30.0);
    stage.until_cores(&BOTH, |cores| cores >= 3.0).await;
    stage.until_said(|cores| cores >= 3.0).await;
    assert_eq!(beside_the_lease(&second_asked), 0);
    assert!(beside_the_lease(&first_asked) > 0);

    first.kill().await;
    let killed = Instant::now();
    stage.proxy.load(2.0);
    // Proxies have plans all the while.
    assert!(second.plan().await.is_ok());
    let taken = async || holder(stage).await == "weir-b" && beside_the_lease(&second_asked) > 0;
    assert!(until_within(TAKEN_OVER_MAX, taken).await, "not taken over");
    eprintln!("taken over after {:?}", killed.elapsed());
    stage.until_cores(&BOTH, |cores| cores <= 2.0).await;

    // Given back, it need not be waited for.
    let (third, _) = stage.planner("weir-c").await;
    second.end().await.unwrap();
    let taken = async || holder(stage).await == "weir-c";
    assert!(until_within(LIMIT, taken).await, "not taken over again");
    third.end().await.unwrap();
    assert_eq!(holder(stage).await, "");
    assert_eq!(first_asked.forbidden(), []);
    assert_eq!(second_asked.forbidden(), []);
}

async fn holder(stage: &Stage<'_>) -> String {
    let lease = stage.api::<Lease>().get_opt(LEASE).await.unwrap();
    let spec = lease.and_then(|lease| lease.spec).unwrap_or_default();
    spec.holder_identity.unwrap_or_default()
}

/// How often anything but the Lease was written.
fn beside_the_lease(asked: &Asked) -> usize {
    let writes = asked.writes().into_iter();
    let writes = writes.filter(|write| !write.path.contains("/leases"));
    writes.count()
}
