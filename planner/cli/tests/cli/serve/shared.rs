//! Two services of one planner that share a budget: cores follow the loads, and never exceed it.

use serde_json::Value;

use super::bed::{FakeMesh, Folder, KEY, end, service_file, until};

/// Status of a service.
pub(super) async fn status(planner: &str, service: &str) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{planner}/v1/services/{service}?cycles=1");
    let request = client.get(url).bearer_auth(KEY);
    request.send().await.unwrap().json().await.unwrap()
}

/// Text of the file of a service that shares the budget `pool`.
pub(super) fn shared(text: &str, name: &str) -> String {
    let text = text.replace("service: demo", &format!("service: {name}"));
    text.replace("cores: 8}", "cores: 8, shared: pool}")
        .replace("demand: {", "demand: {bursts: 0s, ")
}

pub(super) fn sum(meshes: [&FakeMesh; 2]) -> f64 {
    meshes.iter().flat_map(|mesh| mesh.cores()).sum()
}

#[tokio::test]
async fn two_services_share_one_budget() {
    let ((demo, one), (other, two)) = (FakeMesh::start().await, FakeMesh::start().await);
    let folder = Folder::with(&shared(&service_file(one), "demo"));
    let second = folder.path("other.yaml");
    std::fs::write(&second, shared(&service_file(two), "other")).unwrap();
    let arguments = ["--shared-budget", "pool=8"];
    let start = folder.start_with(|command| command.arg(&second).args(arguments));
    let (child, planner) = start.await;
    for (busy, idle, name) in [(&demo, &other, "demo"), (&other, &demo, "other")] {
        idle.load(4.0);
        busy.load(70.0);
        // The five cores that it needs: more than half of the eight.
        until(&format!("cores of {name}"), async || {
            let held = sum([&demo, &other]);
            assert!(held <= 8.0, "{held} cores");
            (busy.cores().iter().sum::<f64>() >= 5.0).then_some(())
        })
        .await;
        // The latest cycle that is reported may be the one before.
        let shown = until("the part", async || {
            let shown = status(&planner, name).await;
            let part = shown["latest"]["shared_budget"]["part"].as_f64();
            (part >= Some(5.0)).then_some(shown)
        });
        let shown = shown.await;
        let latest = &shown["latest"];
        assert_eq!(latest["shared_budget"]["name"], "pool", "{shown}");
        assert!(latest["shared_budget"]["need"].is_number(), "{shown}");
        let why = latest["why"].as_str().unwrap();
        assert!(
            why.contains(" of the 8 cores of shared budget pool"),
            "{why}"
        );
    }
    end(child, "-TERM").await;
}

#[tokio::test]
async fn services_that_do_not_fit_are_refused_with_file_key_and_value() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&shared(&service_file(address), "demo"));
    let second = folder.path("other.yaml");
    std::fs::write(&second, service_file(address)).unwrap();
    for (arguments, expected) in [
        (
            vec![],
            "service.yaml: budget.shared: pool; it must be a shared budget of the planner; start it with --shared-budget pool=CORES",
        ),
        (
            vec!["--shared-budget", "pool=6"],
            "service.yaml: budget.cores: 8; it must be at most 6, the cores of shared budget pool",
        ),
        (
            vec!["--shared-budget", "pool=8", "--shared-budget", "pool=9"],
            "--shared-budget: pool=9; it must be one size: the name is given twice",
        ),
        (
            vec!["--shared-budget", "pool=8", second.to_str().unwrap()],
            "other.yaml: service: demo; it must be another name: ",
        ),
    ] {
        let shown = folder.refused(|command| command.args(&arguments)).await;
        assert!(shown.contains(expected), "{shown}");
    }
}
