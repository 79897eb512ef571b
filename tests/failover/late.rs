//! Resizes that are answered late: what the planner sent counts against the budget until its outcome is known, whatever
//! happens to the service or the leader meanwhile.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use weir_apiserver::{Fault, Key, Rule};
use weir_bed::wait;

use super::bed::{BOTH, Cluster, LIMIT, MODELS};
use super::in_virtual_time;
use super::invariants::Meter;
use super::planners::PlannerGroup;
use super::resizes::taken;

/// Time after which the resize takes effect: longer than a re-election takes.
const LATE: Duration = Duration::from_secs(30);
/// Core budget of the service.
const BUDGET: f64 = 8.0;

/// Makes the growth of `large` to seven cores late, and demand that `small` would serve with more than one.
async fn scenario(interrupt: impl AsyncFnOnce(&Cluster, &PlannerGroup<'_>, Rule)) {
    let cluster = Cluster::start_with_both().await;
    let meter = Meter::of(&cluster.server);
    let mut planners = PlannerGroup::of(&cluster);
    let pods = || cluster.server.kubelet().pods();
    wait::until("two pods", LIMIT, || pods().len() == 2)
        .await
        .unwrap();
    let mut names = pods().into_iter().map(|pod| pod.key.name);
    let large = names.find(|name| name.starts_with("large-")).unwrap();
    let late = Rule::always(Fault::Overdue(LATE)).resource("pods/resize");
    let late = late.name(&large);
    planners.faults([late.clone()]);
    cluster.proxy.load(54.0);
    cluster.server.store().create(&cluster.demo()).unwrap();
    planners.start("weir-0").await;
    let sent = || cluster.server.faults().met() > 0;
    wait::until("a late resize", LIMIT, sent).await.unwrap();
    // Its answer is not waited for any longer.
    sleep(Duration::from_secs(1)).await;
    interrupt(&cluster, &planners, late).await;
    let interrupted = cluster.server.elapsed();
    cluster.proxy.load(110.0);
    sleep(LATE).await;
    planners.faults([]);
    sleep(LATE).await;

    meter.within(BUDGET).unwrap();
    let log = cluster.server.log().after(0);
    let resizes = log.iter().filter(|entry| {
        taken(entry).is_some_and(|one| one.resource == "pods/resize" && one.key.name == large)
    });
    let first = resizes.min_by_key(|entry| entry.order).unwrap();
    let cpu = &taken(first).unwrap().body["spec"]["containers"][0]["resources"]["requests"]["cpu"];
    assert_eq!(cpu, "7");
    assert!(first.at > interrupted, "{:?}", first.at);
    // Its outcome is known, so `small` has got what it needs.
    assert!(
        cluster.cores(&["small"])[0] >= 4.0,
        "{:?}",
        cluster.cores(&BOTH)
    );
}

#[test]
fn late_resize_counts_after_an_edit() {
    in_virtual_time(scenario(async |cluster, _, _| {
        let key = Key::new(MODELS, "demo");
        cluster
            .server
            .store()
            .amend("sloservices.weir.dev", &key, |resource| {
                // The other variant is the better one now.
                resource["spec"]["variants"][0]["accuracy"] = json!(90.0);
            });
        let seen = || {
            let resource = cluster.resource("demo");
            resource["status"]["observedGeneration"] == resource["metadata"]["generation"]
        };
        wait::until("the edit", LIMIT, seen).await.unwrap();
    }));
}

#[test]
fn late_resize_counts_after_a_re_election() {
    in_virtual_time(scenario(async |cluster, planners, late| {
        let lost = Rule::always(Fault::HangUp).resource("leases");
        planners.faults([late.clone(), lost]);
        let planner = planners.processes[0].planner.as_ref().unwrap();
        let deposed = async || planner.plan().await == Err(503);
        wait::until_async("the end of the term", LIMIT, deposed)
            .await
            .unwrap();
        planners.faults([late]);
        let leads = async || planner.plan().await.is_ok();
        wait::until_async("another term", LIMIT, leads)
            .await
            .unwrap();
        assert_eq!(cluster.cores(&["large"]), [1.0]);
    }));
}
