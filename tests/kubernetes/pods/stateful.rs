//! StatefulSets: pods change one by one, in the order of their ordinals, and are replaced under the same
//! name.

use std::time::Duration;

use weir_api::Cores;
use weir_apiserver::{Key, Resizing};
use weir_planner::backends::Actuate;
use weir_planner::capacity::{Actual, Target};

use super::bed::DEMO;
use super::stage::{AMPLE, Stage, cores, patches, target};

fn names(stage: &Stage) -> Vec<String> {
    stage.pods().into_iter().map(|pod| pod.name).collect()
}

#[tokio::test]
async fn stateful_pods_are_resized_in_place_one_by_one() {
    let stage = Stage::stateful(1, 1, AMPLE).await;
    let grown = stage.resize(target(1, 3)).await;
    assert_eq!(grown, Ok(Actual::certain(cores(1, 3))));
    assert_eq!(names(&stage), ["web-0"]);
    stage
        .server
        .kubelet()
        .ready_after(Duration::from_millis(300));
    let target = Target {
        replicas: 3,
        each: Cores::whole(3),
        start: Cores::whole(1),
    };
    let starting = stage.resize(target).await.unwrap();
    assert_eq!(
        (starting.ready, starting.starting),
        (cores(1, 3), cores(2, 1))
    );
    // The third pod is created only after the second is ready, but is already reserved.
    assert_eq!(
        (starting.reserved, starting.replicas_reserved),
        (Cores::whole(5), 3)
    );
    let two = stage
        .until("the second", |now| now.ready.replicas() == 2)
        .await;
    assert_eq!((two.ready, two.reserved), (cores(2, 1), Cores::whole(5)));
    stage.until("all", |now| now.ready.replicas() == 3).await;
    assert_eq!(names(&stage), ["web-0", "web-1", "web-2"]);
    // The pod with the highest ordinal ends first.
    stage.resize_until_done(super::stage::target(1, 3)).await;
    stage
        .until("one", |now| *now == Actual::certain(cores(1, 3)))
        .await;
    assert_eq!(names(&stage), ["web-0"]);
    let requests = patches(&stage.server, "statefulsets/scale");
    let replicas: Vec<_> = requests
        .iter()
        .map(|one| one.body["spec"]["replicas"].clone())
        .collect();
    assert_eq!(replicas, [3, 1]);
}

#[tokio::test]
async fn replaced_stateful_pod_keeps_its_name() {
    let stage = Stage::stateful(2, 1, AMPLE).await;
    let blocked = Key::new(DEMO, "web-1");
    let uid = |stage: &Stage| {
        let pods = stage.server.kubelet().pods().into_iter();
        pods.filter(|pod| pod.key == blocked)
            .map(|pod| pod.uid)
            .next()
    };
    let before = uid(&stage);
    let never = Resizing::Infeasible("Node didn't have enough capacity".to_owned());
    stage.server.kubelet().resizes_of(&blocked, Some(never));
    stage.resize(target(2, 2)).await.unwrap_err();
    let off = stage.backends.retire(0, Cores::whole(8)).unwrap().unwrap();
    assert_eq!(off.ready, cores(1, 2));
    stage.backends.replace(0).await.unwrap();
    let back = stage
        .until("another", |now| now.ready.replicas() == 2)
        .await;
    assert_eq!(back.ready, cores(2, 1), "it begins with its template's");
    assert_ne!(uid(&stage), before);
    let all = stage.resize_until_done(target(2, 2)).await;
    assert_eq!(all, Actual::certain(cores(2, 2)));
}
