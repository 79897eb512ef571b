//! The change of leaders: plans from the status while nobody leads, and no resize twice in a row.

use std::time::Duration;

use serde_json::Value;
use weir_apiserver::{Fault, Key, Rule, Verb};
use weir_bed::operate::Planner;
use weir_bed::wait;
use weir_planner::operator::lease::TAKE_OVER_MAX;

use super::bed::{BOTH, Cluster, LIMIT, MODELS, WEIR};
use super::resizes::nothing_is_resized_twice;

fn holder(cluster: &Cluster) -> String {
    let lease = cluster.server.store().get(
        "leases.coordination.k8s.io",
        &Key::new(WEIR, "weir-planner"),
    );
    let lease = lease.unwrap_or_default();
    lease["spec"]["holderIdentity"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

#[tokio::test]
async fn new_leader_repeats_no_completed_resize() {
    let cluster = Cluster::start_with_both().await;
    cluster.server.store().create(&cluster.demo()).unwrap();
    cluster.proxy.load(20.0);
    let first = cluster.planner("weir-a").await;
    cluster.until_condition("demo", "Actuated", "True").await;
    assert_eq!(holder(&cluster), "weir-a");
    let second = cluster.planner("weir-b").await;
    let has_plan = async || second.plan().await.is_ok();
    wait::until_async("the standby's plan", LIMIT, has_plan)
        .await
        .unwrap();
    let plan: Value = first.plan().await.unwrap();

    cluster.proxy.load(45.0);
    cluster
        .until_cores(&BOTH, |cores| cores.iter().sum::<f64>() >= 3.0)
        .await;
    first.kill().await;
    let killed = cluster.server.elapsed();
    // Without a leader, nobody gives plans out: proxies keep theirs.
    assert_eq!(second.plan().await, Err(503));
    assert_eq!(holder(&cluster), "weir-a");
    let not_ready = async || second.ready().await.is_err();
    wait::until_async("the end of readiness", Duration::from_secs(4), not_ready)
        .await
        .unwrap();
    let leads = || holder(&cluster) == "weir-b";
    wait::until("another holder", TAKE_OVER_MAX * 2, leads)
        .await
        .unwrap();
    eprintln!("taken over after {:?}", cluster.server.elapsed() - killed);
    cluster
        .until_cores(&BOTH, |cores| cores.iter().sum::<f64>() >= 5.0)
        .await;
    let revision = |plan: &Value| plan["revision"].as_u64().unwrap();
    assert!(revision(&second.plan().await.unwrap()) > revision(&plan));
    assert_eq!(second.ready().await, Ok(()));

    second.end().await.unwrap();
    let log = cluster.server.log().after(0);
    assert_eq!(nothing_is_resized_twice(&log), Ok(()));
}

#[tokio::test]
async fn planner_that_ends_during_its_claim_releases_the_lease() {
    let cluster = Cluster::start().await;
    // The claim takes effect at once; the planner gets the answer only after its end was requested.
    let slow = Rule::always(Fault::Slow(Duration::from_millis(500)));
    let slow = slow.verbs(&[Verb::Create, Verb::Update]).resource("leases");
    cluster.server.faults().add(slow.times(1));
    let planner = cluster.planner("weir-a").await;
    wait::until("a claim", LIMIT, || holder(&cluster) == "weir-a")
        .await
        .unwrap();
    planner.end().await.unwrap();
    assert_eq!(holder(&cluster), "");
}

#[tokio::test]
async fn standby_cut_off_from_its_leader_gives_no_slots() {
    let cluster = Cluster::start_with_both().await;
    cluster.server.store().create(&cluster.demo()).unwrap();
    // Nobody answers at the leader's address, as in a mesh that refuses plain text.
    let (client, nowhere) = (cluster.client().await, "http://127.0.0.1:1");
    let first = Planner::start_advertising(client, "weir-a", WEIR, MODELS, nowhere)
        .await
        .unwrap();
    cluster.until_condition("demo", "Actuated", "True").await;
    let second = cluster.planner("weir-b").await;
    let reported = async || {
        let why = second.ready().await.err().unwrap_or_default();
        why.contains(nowhere) && why.contains("is not reached")
    };
    wait::until_async("the lost leader", Duration::from_secs(6), reported)
        .await
        .unwrap();
    let has_slots = async || first.plan_of("proxy-a").await.is_ok();
    wait::until_async("the slots of a", LIMIT, has_slots)
        .await
        .unwrap();
    for proxy in ["proxy-b", "proxy-c"] {
        assert_eq!(second.plan_of(proxy).await, Err(503), "{proxy}");
    }
    let metrics = second.metrics().await.unwrap();
    assert!(
        metrics.contains("weir_planner_leader_reached 0"),
        "{metrics}"
    );
    assert_eq!(first.ready().await, Ok(()));
    first.end().await.unwrap();
    // It leads now, and gives all slots out.
    let leads = async || second.plan_of("proxy-b").await.is_ok();
    wait::until_async("the slots of b", TAKE_OVER_MAX, leads)
        .await
        .unwrap();
    assert_eq!(second.ready().await, Ok(()));
    second.end().await.unwrap();
}
