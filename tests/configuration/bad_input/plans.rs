//! Invalid plans from a scripted planner.

use serde_json::{Value, json};
use weir_api::metrics::Metric;
use weir_bed::scene::{KEY, PATIENCE, Scene, ScriptedPlanner, plan, see};
use weir_bed::wait;

use super::ONE;
use super::tables::invalid_plans;

/// Several Envoys run at once, because a filter polls again only a second after a refusal.
#[tokio::test]
async fn invalid_plan_is_refused_by_name_and_old_one_stays() {
    let table = invalid_plans();
    let parts = table.chunks(table.len().div_ceil(3));
    futures_util::future::join_all(parts.map(refuse_plans)).await;
}

async fn refuse_plans(table: &[(&str, Value, &str)]) {
    let planner = ScriptedPlanner::start().await.unwrap();
    let addr = planner.addr();
    let scene = Scene::start(&[ONE], 2, |bootstrap, plugin| {
        plugin["planner"] = json!({ "cluster": "planner", "key": KEY });
        bootstrap.planner(addr)
    })
    .await
    .unwrap();
    planner.publish(10, &[ONE]);
    scene.until(Metric::PlanRevision, "", 10).await.unwrap();
    for (revision, (at, value, why)) in (11..).zip(table) {
        let mut wrong = plan(revision, &[ONE]);
        wrong["downstream_ms"] = json!(0);
        if let Some(place) = wrong.pointer_mut(at) {
            *place = value.clone();
        } else {
            let (parent, key) = at.rsplit_once('/').unwrap();
            wrong.pointer_mut(parent).unwrap()[key] = value.clone();
        }
        let heard = scene.envoy.log().len();
        planner.respond(revision, 200, wrong);
        let refused = async || {
            let log = scene.envoy.log().split_off(heard);
            let line = log
                .lines()
                .find(|line| line.contains("plan refused, the old one stays"));
            line.is_some_and(|_| log.contains(why))
        };
        wait::until_async(&format!("{at} {value}: '{why}'"), PATIENCE, refused)
            .await
            .unwrap();
        assert_eq!(scene.metric(Metric::PlanRevision, "").await.unwrap(), 10);
    }
    assert!(scene.metric(Metric::PlansRefused, "").await.unwrap() >= 5);
    assert_eq!(see(scene.infer()).await.unwrap().refusal(), (200, ""));
    planner.publish(90, &[ONE]);
    scene.until(Metric::PlanRevision, "", 90).await.unwrap();
}
