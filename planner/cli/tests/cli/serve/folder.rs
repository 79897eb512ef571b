//! `weir serve DIR --writable`: services are created, replaced and deleted over REST while the planner runs, also in a
//! shared budget.

use std::path::Path;

use reqwest::Method;
use serde_json::Value;
use tokio::process::{Child, Command};

use super::bed::{FakeMesh, KEY, end, service_file, until};
use super::shared::{shared, status, sum};

/// Starts a planner of a folder.
async fn start(folder: &Path, arguments: &[&str]) -> (Child, String) {
    start_of(&[folder], &folder.join("address"), arguments).await
}

/// Starts a planner of these files, or of this folder, which writes its address into `listens`.
async fn start_of(paths: &[&Path], listens: &Path, arguments: &[&str]) -> (Child, String) {
    let _ = std::fs::remove_file(listens);
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.arg("serve").args(paths).args(arguments);
    command.arg("--address-file").arg(listens);
    command.env("WEIR_TEST_KEY", format!("{KEY} write"));
    command
        .env_remove("RUST_LOG")
        .stderr(std::process::Stdio::piped());
    let child = command.kill_on_drop(true).spawn().unwrap();
    let address = until("the address file", async || {
        std::fs::read_to_string(listens).ok()
    });
    (child, format!("http://{}", address.await.trim()))
}

/// Sends a request about the specification of a service; returns the status and the problem's or service's document.
async fn send(method: Method, planner: &str, name: &str, body: String) -> (u16, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{planner}/v1/services/{name}/specification");
    let request = client.request(method, url).bearer_auth(KEY).body(body);
    let answer = request.send().await.unwrap();
    let status = answer.status().as_u16();
    (status, answer.json().await.unwrap_or_default())
}

#[tokio::test]
async fn services_come_and_go_within_their_shared_budget() {
    let ((demo, one), (other, two)) = (FakeMesh::start().await, FakeMesh::start().await);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("demo.yaml"), shared(&service_file(one), "demo")).unwrap();
    let state = path("state");
    let state = state.to_str().unwrap();
    let arguments = ["--writable", "--shared-budget", "pool=8", "--state", state];
    let (child, planner) = start(folder.path(), &arguments).await;
    let held = || {
        let held = sum([&demo, &other]);
        assert!(held <= 8.0, "{held} cores");
    };
    let reach = async |mesh: &FakeMesh, cores: f64, name: &str| {
        until(&format!("cores of {name}"), async || {
            held();
            (mesh.cores().iter().sum::<f64>() >= cores).then_some(())
        })
        .await;
    };
    // Created with the four cores that its servers have, and planned for: its load gets cores of the other.
    demo.load(4.0);
    other.load(70.0);
    let text = shared(&service_file(two), "other");
    let wrong = text.replace("slo: 1s", "slo: 7");
    let (answered, problem) = send(Method::PUT, &planner, "other", wrong).await;
    assert_eq!(
        (answered, &problem["errors"][0]["pointer"]),
        (400, &"#/slo".into())
    );
    let (answered, shown) = send(Method::PUT, &planner, "other", text.clone()).await;
    assert_eq!((answered, &shown["service"]), (201, &"other".into()));
    assert_eq!(std::fs::read_to_string(path("other.yaml")).unwrap(), text);
    reach(&other, 5.0, "other").await;
    // Replaced while it shares the budget.
    let changed = text.replace("slo: 1s", "slo: 2s");
    let (answered, _) = send(Method::PUT, &planner, "other", changed.clone()).await;
    assert_eq!(answered, 200);
    until("the changed service", async || {
        held();
        let shown = status(&planner, "other").await;
        (shown["slo_ms"] == 2000).then_some(())
    })
    .await;
    // Deleted: its servers run on, and what they hold is nobody else's.
    let (answered, _) = send(Method::DELETE, &planner, "other", String::new()).await;
    assert_eq!(answered, 204);
    demo.load(70.0);
    until("the wait for servers that were left", async || {
        held();
        let shown = status(&planner, "demo").await;
        let awaits = &shown["latest"]["shared_budget"]["awaits"];
        (awaits == &serde_json::json!(["other (left)"])).then_some(())
    })
    .await;
    let (answered, _) = send(Method::GET, &planner, "other", String::new()).await;
    assert_eq!(answered, 404);
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    for variant in ["a", "b"] {
        let put = client.put(format!("http://{two}/cores/{variant}"));
        let put = put.json(&serde_json::json!({"cores": 0}));
        put.send().await.unwrap();
    }
    reach(&demo, 5.0, "demo").await;
    // The next planner begins with the files as they are.
    let log = end(child, "-TERM").await;
    assert!(
        log.contains("other (left) holds no cores any more"),
        "{log}"
    );
    assert_eq!(
        std::fs::read_to_string(path("other.yaml.deleted")).unwrap(),
        changed
    );
    assert!(!path("state/other.history.json").exists());
    let (child, planner) = start(folder.path(), &arguments).await;
    let (answered, _) = send(Method::GET, &planner, "other", String::new()).await;
    assert_eq!(answered, 404);
    let (answered, problem) = send(Method::DELETE, &planner, "demo", String::new()).await;
    assert_eq!(answered, 409, "{problem}");
    end(child, "-TERM").await;
    // An operator gets the deleted one back.
    std::fs::rename(path("other.yaml.deleted"), path("other.yaml")).unwrap();
    let (child, planner) = start(folder.path(), &arguments).await;
    let (answered, shown) = send(Method::GET, &planner, "other", String::new()).await;
    assert_eq!((answered, &shown["slo"]), (200, &"2s".into()));
    end(child, "-TERM").await;
}

#[tokio::test]
async fn files_are_writable_one_by_one_and_folders_are_checked() {
    let ((_demo, one), (_other, two)) = (FakeMesh::start().await, FakeMesh::start().await);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let refused = async |arguments: &[&Path]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("serve").args(arguments).env_remove("RUST_LOG");
        let output = command.env("WEIR_TEST_KEY", KEY).output().await.unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let shown = refused(&[folder.path()]).await;
    assert!(
        shown.contains("it must have a service file: *.yaml"),
        "{shown}"
    );
    let (first, second) = (path("demo.yaml"), path("other.json"));
    std::fs::write(&first, service_file(one)).unwrap();
    let text = service_file(two).replace("service: demo", "service: other");
    std::fs::write(&second, text.replace("slo: 1s", "slo: 7")).unwrap();
    let shown = refused(&[folder.path()]).await;
    assert!(shown.contains("other.json: slo: 7; it must be"), "{shown}");
    let shown = refused(&[&first, folder.path()]).await;
    assert!(shown.contains("a folder is served alone"), "{shown}");
    // Several files, each of which is replaced; none is created or deleted.
    let good: Value = serde_saphyr::from_str(&text).unwrap();
    std::fs::write(&second, good.to_string()).unwrap();
    let files = [&*first, &*second];
    let (child, planner) = start_of(&files, &path("address"), &["--writable"]).await;
    let slower = text.replace("slo: 1s", "slo: 2s");
    for (method, name, body, expected) in [
        (Method::PUT, "other", slower.clone(), 200),
        (
            Method::PUT,
            "other",
            slower.replace(&two.to_string(), &one.to_string()),
            400,
        ),
        (Method::PUT, "more", text.replace("other", "more"), 409),
        (Method::DELETE, "other", String::new(), 409),
    ] {
        let (answered, problem) = send(method, &planner, name, body).await;
        assert_eq!(answered, expected, "{name}: {problem}");
    }
    assert_eq!(std::fs::read_to_string(&second).unwrap(), slower);
    assert_eq!(status(&planner, "other").await["slo_ms"], 2000);
    end(child, "-TERM").await;
}
