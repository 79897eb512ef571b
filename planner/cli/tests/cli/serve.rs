//! `weir serve` as a separate process over real HTTP, with an in-memory fake of the proxy and the
//! backends.

mod attack;
mod bed;
mod folder;
mod inspect;
mod keys;
mod pipeline;
mod polls;
mod replaced;
mod shared;
mod terminal;
#[cfg(feature = "traces")]
mod traces;
mod wrong;

use std::net::SocketAddr;

use serde_json::Value;

use bed::*;

#[tokio::test]
async fn cores_follow_demand_and_faults_fall_back() {
    let (mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder.start().await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let poll = client
        .get(format!("{planner}/v1/plans/demo?proxy=envoy-1"))
        .bearer_auth(KEY);
    let plan: Value = poll.send().await.unwrap().json().await.unwrap();
    assert_eq!(
        plan["variants"][0]["slots"], 2,
        "made of the cores that are there, not of initial"
    );

    // b serves 14.4 requests/s with 2 cores, and 22.4 with 3.
    mesh.load(19.0);
    until("b to serve all", async || {
        (mesh.cores() == [1.0, 3.0]).then_some(())
    })
    .await;
    // More than b could serve alone.
    mesh.load(104.0);
    until("a to help", async || (mesh.cores()[0] >= 5.0).then_some(())).await;

    // The proxy is unreachable: its demand is unknown, not zero.
    let before = mesh.cores();
    *mesh.proxy_down.lock().unwrap() = true;
    let lost = |status: &Value| status["counters"]["scrapes_failed"].as_u64().unwrap();
    until("ten lost scrapes", async || {
        (lost(&status(&planner).await) >= 10).then_some(())
    })
    .await;
    let shown = status(&planner).await;
    assert_eq!(shown["latest"]["measured_rps"], Value::Null);
    assert!(
        shown["latest"]["demand_rps"].as_f64().unwrap() > 80.0,
        "{shown}"
    );
    assert_eq!(mesh.cores(), before);
    *mesh.proxy_down.lock().unwrap() = false;

    // Backends refuse changes: the plan stays within the actual cores, and the changes are retried.
    *mesh.refusing.lock().unwrap() = true;
    mesh.load(5.0);
    let failed = |status: &Value| status["counters"]["resizes_failed"].as_u64().unwrap();
    let shown = until("refused resizes", async || {
        Some(status(&planner).await).filter(|shown| failed(shown) >= 3)
    });
    let shown = shown.await;
    assert_eq!(mesh.cores(), before);
    assert_ne!(shown["latest"]["variants"]["a"]["cores_target"], before[0]);
    assert_eq!(shown["latest"]["variants"]["a"]["cores_actual"], before[0]);
    *mesh.refusing.lock().unwrap() = false;
    until("a to shrink at last", async || {
        (mesh.cores()[0] == 1.0).then_some(())
    })
    .await;

    let log = end(child, "-TERM").await;
    for logged_once in [
        "stats/prometheus: status 503",
        "resize of a: status 409, not 200: Deferred",
    ] {
        assert_eq!(log.matches(logged_once).count(), 1, "{logged_once}\n{log}");
    }
    assert!(log.contains("well again after"), "{log}");
    assert!(!log.contains(KEY), "the key is never logged");
}

#[tokio::test]
async fn shutdown_ends_polls_and_restart_continues_with_higher_revisions() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let poll = |planner: &str, after: u64| {
        client
            .get(format!("{planner}/v1/plans/demo?after={after}"))
            .bearer_auth(KEY)
            .send()
    };
    let (child, planner) = folder.start().await;
    let plan: Value = poll(&planner, 0).await.unwrap().json().await.unwrap();
    let revision = plan["revision"].as_u64().unwrap();
    let waiting = tokio::spawn(poll(&planner, revision));
    let held = async || {
        let text = client
            .get(format!("{planner}/metrics"))
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        text.contains("weir_planner_polls_waiting 1").then_some(())
    };
    until("the poll to be held", held).await;
    end(child, "-INT").await;
    assert_eq!(waiting.await.unwrap().unwrap().status(), 204);
    std::fs::remove_file(folder.path("address")).unwrap();
    let (child, planner) = folder.start().await;
    let plan: Value = poll(&planner, revision)
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert!(plan["revision"].as_u64().unwrap() > revision);
    end(child, "-TERM").await;
}

#[tokio::test]
async fn startup_errors_name_the_remedy() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let good = service_file(address);
    let unknown = Folder::with(&good.replace("slopeRps", "slopRps"))
        .refused(|command| command)
        .await;
    for part in [
        "service.yaml",
        "variants[0].capacity",
        "slopRps",
        "slopeRps, interceptRps",
    ] {
        assert!(
            unknown.replace('`', "").contains(part),
            "no '{part}' in {unknown}"
        );
    }
    let folder = Folder::with(&good);
    let no_key = folder
        .refused(|command| command.env_remove("WEIR_TEST_KEY"))
        .await;
    assert!(no_key.contains("WEIR_TEST_KEY is not set"), "{no_key}");
    let short = folder
        .refused(|command| command.env("WEIR_TEST_KEY", "xyzzy"))
        .await;
    assert!(
        short.contains(
            "keyEnv WEIR_TEST_KEY: line 1: the key has 5 characters; it must be 8 to 256"
        ) && !short.contains("xyzzy"),
        "{short}"
    );
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().to_string();
    let in_use = folder
        .refused(|command| command.args(["--listen", &port]))
        .await;
    assert!(
        in_use.contains(&port) && in_use.contains("--listen"),
        "{in_use}"
    );
    let nowhere = Folder::with(&good);
    std::fs::remove_file(nowhere.path("service.yaml")).unwrap();
    let missing = nowhere.refused(|command| command).await;
    assert!(
        missing.contains("service.yaml") && missing.contains("No such file"),
        "{missing}"
    );
}
