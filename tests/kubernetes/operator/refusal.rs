//! A refused edit: what acts, and how the status says so.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use weir_apiserver::{Key, Verb};
use weir_bed::wait;

use super::bed::{BOTH, Cluster, LIMIT, MODELS};

/// Longest time until a refused edit shows in the status.
const SHOWN_MAX: Duration = Duration::from_secs(1);

fn amend(cluster: &Cluster, change: impl FnOnce(&mut Value)) {
    let (key, store) = (Key::new(MODELS, "demo"), cluster.server.store());
    store.amend("sloservices.weir.dev", &key, |resource| {
        change(&mut resource["spec"]);
    });
}

/// Number of resizes that were accepted.
fn resizes(cluster: &Cluster) -> usize {
    let all = cluster.server.log().requests().into_iter();
    let resizes = all.filter(|one| one.resource == "pods/resize" && one.verb == Verb::Patch);
    resizes.filter(|one| one.status == 200).count()
}

/// Generation that a condition is about.
fn generation(cluster: &Cluster, about: &str) -> Value {
    let resource = cluster.resource("demo");
    let conditions = resource["status"]["conditions"].as_array().unwrap();
    let mut all = conditions.iter().filter(|one| one["type"] == about);
    all.next().unwrap()["observedGeneration"].clone()
}

#[tokio::test]
async fn refused_edit_is_shown_at_once_and_its_mode_is_obeyed() {
    let cluster = Cluster::start_with_both().await;
    cluster.server.store().create(&cluster.demo()).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(20.0);
    cluster
        .until_condition("demo", "Actuated", "True InForce")
        .await;

    let edited = Instant::now();
    amend(&cluster, |spec| {
        spec["mode"] = json!("advisory");
        spec["planMaxAge"] = json!("1ms");
    });
    let message = cluster
        .until_condition("demo", "Accepted", "False Invalid")
        .await;
    let took = edited.elapsed();
    assert!(took < SHOWN_MAX, "{took:?}");
    assert!(
        message.contains("generation 2 is refused: planMaxAge: 1ms")
            && message.contains("; generation 1 acts, in mode "),
        "{message}"
    );
    cluster
        .until_condition("demo", "Actuated", "False Advisory")
        .await;
    let message = cluster.condition("demo", "Accepted");
    assert!(
        message.contains("generation 1 acts, in mode advisory"),
        "{message}"
    );
    assert_eq!(generation(&cluster, "Accepted"), 2);
    assert_eq!(generation(&cluster, "Planned"), 1);

    // More demand is planned for, and nothing is resized.
    let sent = resizes(&cluster);
    cluster.proxy.load(45.0);
    wait::until("the demand", LIMIT, || {
        cluster.resource("demo")["status"]["demandRps"]
            .as_f64()
            .is_some_and(|rate| rate > 40.0)
    })
    .await
    .unwrap();
    assert_eq!(resizes(&cluster), sent);
    assert!(
        cluster
            .condition("demo", "Accepted")
            .starts_with("False Invalid"),
        "still refused"
    );

    // Corrected: the whole new spec acts.
    amend(&cluster, |spec| {
        spec["mode"] = json!("active");
        spec.as_object_mut().unwrap().remove("planMaxAge");
    });
    cluster
        .until_condition("demo", "Accepted", "True Valid")
        .await;
    cluster
        .until_cores(&BOTH, |cores| cores.iter().sum::<f64>() >= 5.0)
        .await;
    assert_eq!(generation(&cluster, "Accepted"), 3);
    planner.end().await.unwrap();
}

#[tokio::test]
async fn restarted_planner_does_not_act_for_a_refused_resource_and_reports_it() {
    let cluster = Cluster::start_with_both().await;
    cluster.server.store().create(&cluster.demo()).unwrap();
    let planner = cluster.planner("weir-a").await;
    cluster.proxy.load(20.0);
    cluster
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    planner.end().await.unwrap();
    amend(&cluster, |spec| spec["planMaxAge"] = json!("1ms"));

    let planner = cluster.planner("weir-b").await;
    for about in ["Planned", "Actuated", "Degraded"] {
        let message = cluster
            .until_condition("demo", about, "Unknown NotActing")
            .await;
        assert!(
            message.contains("generation 2 is refused: planMaxAge: 1ms")
                && message.ends_with("; no generation acts"),
            "{message}"
        );
    }
    assert!(
        cluster
            .condition("demo", "Ready")
            .starts_with("False Invalid")
    );
    let status = cluster.resource("demo")["status"].clone();
    assert_eq!(status["why"], "no generation acts: generation 2 is refused");
    assert_eq!(
        (&status["demandRps"], &status["cores"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(planner.plan().await, Err(404));
    amend(&cluster, |spec| {
        spec.as_object_mut().unwrap().remove("planMaxAge");
    });
    cluster
        .until_condition("demo", "Actuated", "True InForce")
        .await;
    planner.end().await.unwrap();
}
