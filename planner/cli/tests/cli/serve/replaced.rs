//! `weir serve --writable`: the service file is replaced over REST while the planner runs; and a replay over REST.

use reqwest::Method;
use serde_json::{Value, json};

use super::bed::*;

async fn send((method, url): (Method, String), body: String) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let request = client.request(method, url).bearer_auth(KEY).body(body);
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap())
}

#[tokio::test]
async fn replaced_file_is_planned_by_and_survives_a_restart() {
    let (mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let start = async || {
        let listens = folder.path("address");
        let _ = std::fs::remove_file(&listens);
        let mut command = folder.command();
        command
            .arg("--writable")
            .arg("--address-file")
            .arg(&listens);
        command.env("WEIR_TEST_KEY", format!("{KEY} write"));
        let child = command.spawn().unwrap();
        let address = until("the address file", async || {
            std::fs::read_to_string(&listens).ok()
        });
        (child, format!("http://{}", address.await.trim()))
    };
    let (child, planner) = start().await;
    mesh.load(90.0);
    until("cores of the budget", async || {
        (mesh.cores().iter().sum::<f64>() > 6.0).then_some(())
    })
    .await;
    let path = format!("{planner}/v1/services/demo/specification");
    let (status_of, mut specification) = send((Method::GET, path.clone()), String::new()).await;
    assert_eq!(
        (status_of, &specification["budget"]["cores"]),
        (200, &json!(8))
    );
    let wrong = specification
        .to_string()
        .replace("\"cores\":8", "\"cores\":-8");
    let (status_of, problem) = send((Method::PUT, path.clone()), wrong).await;
    assert_eq!(status_of, 400);
    assert_eq!(problem["errors"][0]["pointer"], "#/budget/cores");
    specification["budget"]["cores"] = json!(4);
    let text = specification.to_string();
    let (status_of, _) = send((Method::PUT, path.clone()), text.clone()).await;
    assert_eq!(status_of, 200);
    let file = folder.path("service.yaml");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);
    until("cores of the new budget", async || {
        (mesh.cores().iter().sum::<f64>() <= 4.0).then_some(())
    })
    .await;
    let shown = status(&planner).await;
    assert_eq!(shown["budget_cores"], 4);
    assert!(shown["plan"]["revision"].is_number(), "{shown}");
    end(child, "-TERM").await;
    let (child, planner) = start().await;
    assert_eq!(status(&planner).await["budget_cores"], 4);
    end(child, "-TERM").await;
}

#[tokio::test]
async fn file_is_not_replaced_without_the_flag_and_small_scenario_is_played() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let mut command = folder.command();
    let listens = folder.path("address");
    command.arg("--address-file").arg(&listens);
    command.env("WEIR_TEST_KEY", format!("{KEY} write"));
    let child = command.spawn().unwrap();
    let planner = until("the address file", async || {
        std::fs::read_to_string(&listens).ok()
    });
    let planner = format!("http://{}", planner.await.trim());
    let path = format!("{planner}/v1/services/demo/specification");
    let (status_of, problem) = send((Method::PUT, path), service_file(address)).await;
    assert_eq!(status_of, 409);
    assert!(problem["detail"].as_str().unwrap().contains("--writable"));
    let service: Value = serde_saphyr::from_str(&service_file(address)).unwrap();
    let scenario = json!({
        "name": "sent", "service": service, "load": {"rates": [20, 20, 20]},
        "contenders": [{"plane": "weir", "control": "planner"}],
    });
    let replay = format!("{planner}/v1/replay");
    let (status_of, report) = send((Method::POST, replay.clone()), scenario.to_string()).await;
    assert_eq!(status_of, 200, "{report}");
    assert_eq!(report["contenders"][0]["contender"], "weir+planner");
    let file = json!({"name": "sent", "service": "/etc/hostname", "load": {"rates": [1]}});
    let (status_of, problem) = send((Method::POST, replay), file.to_string()).await;
    assert_eq!(status_of, 400);
    assert_eq!(problem["errors"][0]["pointer"], "#/service");
    end(child, "-TERM").await;
}
