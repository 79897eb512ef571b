//! A pipeline of two stages: each has a plan, and they share one budget.

use std::net::SocketAddr;

use serde_json::Value;

use super::bed::{FakeMesh, Folder, KEY, end, service_file, status, until};

/// A pipeline of two stages with the same two variants: `demo`, which requests enter, and `next`.
fn pipeline_file(address: SocketAddr) -> String {
    let file = service_file(address)
        .replace("initial: 1}", "initial: 1, min: 0}")
        .replace("mode: active", "mode: active\npolicy: ipa");
    let (head, a) = file.split_once("variants:\n").unwrap();
    let (a, b) = a.split_once("- name: b").unwrap();
    let inside = |text: &str| text.replace('\n', "\n    ");
    let (a, b) = (inside(a.trim_end()), inside(b.trim_end()));
    format!(
        "{head}stages:\n- name: demo\n  variants:\n    {a}\n- name: next\n  variants:\n    - name: b{b}\n"
    )
}

#[tokio::test]
async fn pipeline_has_one_plan_per_stage_and_one_budget() {
    let (mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&pipeline_file(address));
    let (child, planner) = folder.start().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let plan = async |stage: &str| -> Value {
        let poll = client
            .get(format!("{planner}/v1/plans/{stage}"))
            .bearer_auth(KEY);
        poll.send().await.unwrap().json().await.unwrap()
    };
    // 55 requests/s: three cores of 23 at the first stage, five of 12 at the second.
    mesh.load(50.0);
    until("both stages to carry the load", async || {
        (mesh.cores() == [3.0, 5.0]).then_some(())
    })
    .await;
    let plans = until("the plans that count on it", async || {
        let (demo, next) = (plan("demo").await, plan("next").await);
        let slots = [&demo, &next].map(|plan| plan["variants"][0]["slots"].as_u64());
        (slots == [Some(3), Some(5)]).then_some((demo, next))
    })
    .await;
    let names = [&plans.0, &plans.1].map(|plan| {
        (
            plan["service"].as_str().unwrap(),
            plan["variants"][0]["name"].as_str().unwrap(),
        )
    });
    assert_eq!(names, [("demo", "a"), ("next", "b")]);
    let rest = [&plans.0, &plans.1].map(|plan| plan["downstream_ms"].as_f64().unwrap());
    assert_eq!(rest, [83.0, 0.0], "one execution at the second stage");
    let shown = status(&planner).await;
    assert_eq!(shown["stages"]["next"]["plan"]["service"], "next");
    assert_eq!(shown["latest"]["variants"]["b"]["batch"], 1);
    // More than eight cores can serve: the plan is for their maximum, in both stages.
    mesh.load(90.0);
    until("the overload to be said", async || {
        let shown = status(&planner).await;
        (shown["latest"]["outcome"] == "infeasible").then_some(())
    })
    .await;
    let [a, b] = mesh.cores();
    assert!(a + b <= 8.0 && a >= 2.0 && b >= 4.0, "{a} {b}");
    let unknown = client
        .get(format!("{planner}/v1/plans/other"))
        .bearer_auth(KEY);
    assert_eq!(unknown.send().await.unwrap().status(), 404);
    end(child, "-TERM").await;
}
