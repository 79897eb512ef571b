//! Wrong service files are refused by `weir check` and `weir serve` with the key, the value and what would be right,
//! and a planner that runs meanwhile keeps its plan.

use serde_json::Value;
use tokio::process::Command;

use super::bed::{FakeMesh, Folder, KEY, end, service_file, status, until};

/// Text of a valid file, its replacement, the key's path, and parts of the message.
type Row = (String, String, String, Vec<String>);

/// Returns the errors of `weir check`, each as its path and message.
async fn checked(folder: &Folder) -> Vec<(String, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("check").arg("--json");
    let command = command.arg(folder.path("service.yaml"));
    let output = command.env_remove("RUST_LOG").output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let errors = report["errors"].as_array().unwrap().iter();
    let text = |error: &Value, key: &str| error[key].as_str().unwrap().to_owned();
    errors
        .map(|error| (text(error, "path"), text(error, "message")))
        .collect()
}

async fn plan(planner: &str) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let poll = client
        .get(format!("{planner}/v1/plans/demo?proxy=envoy-1"))
        .bearer_auth(KEY);
    let mut plan: Value = poll.send().await.unwrap().json().await.unwrap();
    plan["variants"].take()
}

#[tokio::test]
async fn wrong_service_file_is_refused_and_running_planner_keeps_its_plan() {
    let table: Vec<Row> = serde_saphyr::from_str(include_str!("wrong.yaml")).unwrap();
    assert!(table.len() >= 30);
    let (mesh, address) = FakeMesh::start().await;
    let good = service_file(address);
    let healthy = good.replace("mode: active", "mode: advisory");
    let (child, planner) = Folder::with(&healthy).start().await;
    until("a sample", async || {
        status(&planner).await["latest"]["measured_rps"].as_f64()
    })
    .await;
    let before = plan(&planner).await;

    let mut missed = Vec::new();
    for (old, new, path, parts) in &table {
        let text = good.replacen(old, new, 1);
        assert_ne!(text, good, "'{old}' is not in the file");
        let folder = Folder::with(&text);
        let shown = checked(&folder).await;
        let has_parts = |message: &str| parts.iter().all(|part| message.contains(part.as_str()));
        let found = shown
            .iter()
            .any(|(at, message)| at == path && has_parts(message));
        if !found {
            missed.push(format!("check of {new}: {shown:?}"));
        }
        let refused = folder.refused(|command| command).await;
        let key = path.rsplit(['.', ' ']).next().unwrap();
        if !has_parts(&refused) || !refused.contains(key) {
            missed.push(format!("serve of {new}: {refused}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));

    assert_eq!(mesh.cores(), [2.0, 2.0]);
    assert_eq!(plan(&planner).await, before);
    end(child, "-TERM").await;
}
