//! `weir status`, `top`, `why` and `doctor` before a running planner, and a fake of an Envoy's admin interface.

use std::process::Output;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde_json::{Value, json};
use tokio::process::Command;

use super::bed::*;

/// Version of the program, and of a filter that fits it.
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn command(arguments: &[&str], planner: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(arguments).args(["--url", planner]);
    command.env("WEIR_KEY", KEY).env_remove("RUST_LOG");
    command.env("RUST_BACKTRACE", "0").kill_on_drop(true);
    command
}

async fn output(arguments: &[&str], planner: &str) -> (Option<i32>, String, String) {
    let output: Output = command(arguments, planner).output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

async fn printed(arguments: &[&str], planner: &str) -> String {
    let (code, stdout, stderr) = output(arguments, planner).await;
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    stdout
}

#[tokio::test]
async fn running_planner_is_shown_with_its_reasons() {
    let (mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder.start().await;
    mesh.load(19.0);
    until("b to grow", async || (mesh.cores()[1] >= 3.0).then_some(())).await;
    let shown = until("a demand", async || {
        let shown = printed(&["status"], &planner).await;
        let is_planned =
            shown.contains("/s, demand with headroom ") && !shown.contains("headroom unknown");
        let is_counted = shown.contains(" refused (queue-full ");
        (is_planned && is_counted).then_some(shown)
    });
    let shown = shown.await;
    for part in [
        "service demo: mode active, objective 1000 ms\nplan ",
        "; this planner leads\n",
        "\non time (target 99 %): ",
        " % of 5 min",
        "; waiting: 3\n",
        "limits: cores ",
        " of 8",
        "\nwhy: ",
        "│ b ",
        "no proxy polls\n",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let answers = printed(&["status", "demo", "--json"], &planner).await;
    let answers: Value = serde_json::from_str(&answers).unwrap();
    assert_eq!(answers[0]["service"], "demo");
    let requests = &answers[0]["requests"];
    let window = &requests["windows"][0];
    let count = |key: &str| window[key].as_u64().unwrap();
    let refused = window["refused"]["queue-full"].as_u64().unwrap();
    assert_eq!(count("ended"), count("on_time") + refused, "{answers}");
    assert_eq!(window["accuracy_percent"], 70.0, "{answers}");
    assert_eq!(requests["waiting"], 3, "{answers}");
    let cores = &answers[0]["latest"]["variants"]["b"]["cores_actual"];
    assert!(
        cores.as_f64().is_some_and(|cores| cores >= 1.0),
        "{answers}"
    );

    let lines = printed(&["top", "--refreshes", "2"], &planner).await;
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for line in lines.lines() {
        assert!(line.contains(" demo arrivals "), "{line}");
        assert!(
            line.contains(", on time ") && line.contains(", waiting 3:"),
            "{line}"
        );
        assert!(line.contains(", b ") && line.ends_with(" %"), "{line}");
    }

    *mesh.refusing.lock().unwrap() = true;
    mesh.load(90.0);
    let refused = until("a refused resize", async || {
        let shown = printed(&["why", "demo", "--cycles", "1024"], &planner).await;
        shown.contains("  blocked: ").then_some(shown)
    });
    let refused = refused.await;
    assert!(refused.starts_with("service demo: "), "{refused}");
    assert!(
        refused.contains("status 409, not 200: Deferred"),
        "{refused}"
    );
    assert!(refused.matches("\n  why: ").count() >= 2, "{refused}");
    // What blocks is a failed check too.
    let (code, checks, _) = output(&["doctor"], &planner).await;
    assert_eq!(code, Some(1), "{checks}");
    assert!(
        checks.contains("× every variant has its target\n") && checks.contains("    remedy: "),
        "{checks}"
    );
    end(child, "-TERM").await;
}

#[tokio::test]
async fn top_ends_by_a_signal() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (planner_process, planner) = folder.start().await;
    published(&planner).await;
    let mut top = command(&["top"], &planner);
    let mut top = top.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut bytes = [0; 16];
    let out = top.stdout.as_mut().unwrap();
    let read = tokio::io::AsyncReadExt::read(out, &mut bytes);
    assert!(read.await.unwrap() > 0);
    let id = top.id().unwrap().to_string();
    let signal = Command::new("kill").args(["-INT", &id]).status();
    assert!(signal.await.unwrap().success());
    let ended = tokio::time::timeout(PATIENCE, top.wait()).await.unwrap();
    assert!(ended.unwrap().success());
    end(planner_process, "-TERM").await;
}

#[tokio::test]
async fn wrong_use_names_the_value_and_the_remedy() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder.start().await;
    published(&planner).await;
    let wrong = folder.path("wrong");
    std::fs::write(&wrong, "demo another-key\n").unwrap();
    let wrong = wrong.to_str().unwrap();
    let absent = "http://127.0.0.1:1";
    for (arguments, url, code, part) in [
        (
            &["status", "--key-file", wrong][..],
            &*planner,
            1,
            "service demo: 401: ",
        ),
        (
            &["why", "other"],
            &planner,
            1,
            "service other: 404: service: 'other'",
        ),
        (
            &["status"],
            absent,
            1,
            "http://127.0.0.1:1/metrics: no answer: ",
        ),
        (&["top"], absent, 1, "no answer: "),
        (
            &["status", "--key-env", "WEIR_NONE"],
            &planner,
            1,
            "--key-env WEIR_NONE: the environment variable is not set",
        ),
        (
            &["status", "--key-file", "none"],
            &planner,
            1,
            "--key-file none: No such file",
        ),
        (
            &["status"],
            "https://127.0.0.1:1",
            1,
            "--tls-ca: missing; with https",
        ),
        (
            &["status"],
            "127.0.0.1:1",
            2,
            "it must be an address such as http://",
        ),
        (
            &["why", "--cycles", "1025"],
            &planner,
            2,
            "1025 is not in 1..=1024",
        ),
        (&["top", "--refreshes", "0"], &planner, 2, "0 is not in 1.."),
        (
            &["doctor", "--proxy", "localhost"],
            &planner,
            2,
            "it must be an address such as http://",
        ),
    ] {
        let (exit, _, stderr) = output(arguments, url).await;
        assert_eq!(exit, Some(code), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{part}: {stderr}");
        assert!(!stderr.contains("another-key"), "{stderr}");
    }
    end(child, "-TERM").await;
}

pub(super) async fn published(planner: &str) {
    let revision = async || status(planner).await["revision"].as_u64();
    until("a plan", revision).await;
}

/// Fake of an Envoy's admin interface, with the filter's revision.
#[derive(Debug)]
struct FakeEnvoy {
    revision: Mutex<u64>,
    clusters: Mutex<Vec<&'static str>>,
}

impl FakeEnvoy {
    async fn start() -> (Arc<FakeEnvoy>, String) {
        let envoy = Arc::new(FakeEnvoy {
            revision: Mutex::new(0),
            clusters: Mutex::new(vec!["a", "b"]),
        });
        let stats = async |State(envoy): State<Arc<FakeEnvoy>>| {
            let revision = *envoy.revision.lock().unwrap();
            format!(
                "envoy_wasm_weir_vm_reload_success{{}} 0\nweir_plan_revision__service__demo{{}} {revision}\n\
                 weir_plan_age_milliseconds__service__demo{{}} 5\n"
            )
        };
        let clusters = async |State(envoy): State<Arc<FakeEnvoy>>| {
            let names = envoy.clusters.lock().unwrap().clone();
            let statuses: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
            json!({ "cluster_statuses": statuses }).to_string()
        };
        let router = Router::new()
            .route("/stats/prometheus", get(stats))
            .route("/clusters", get(clusters))
            .route(
                "/server_info",
                get(async || r#"{"node": {"id": "envoy-1"}}"#),
            )
            .route("/config_dump", get(async || r#"{"configs": []}"#))
            .with_state(Arc::clone(&envoy));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (envoy, url)
    }
}

/// Polls as the proxy `envoy-1`, until the planner has ended.
async fn poll_on(planner: String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let mut after = 0;
    loop {
        let url = format!("{planner}/v1/plans/demo?proxy=envoy-1&version={VERSION}&after={after}");
        let Ok(answer) = client.get(url).bearer_auth(KEY).send().await else {
            return;
        };
        if answer.status() == 200 {
            let Ok(plan) = answer.json::<Value>().await else {
                return;
            };
            after = plan["revision"].as_u64().unwrap();
        }
    }
}

#[tokio::test]
async fn doctor_finds_what_is_wrong_and_nothing_else() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder.start().await;
    let (envoy, admin) = FakeEnvoy::start().await;
    let polls = tokio::spawn(poll_on(planner.clone()));
    published(&planner).await;
    let revision = status(&planner).await["revision"].as_u64().unwrap();
    // Later plans, too.
    *envoy.revision.lock().unwrap() = revision + 1_000_000;
    let check = async || output(&["doctor", "--proxy", &admin], &planner).await;
    // The first cycles have no demand yet.
    let checks = until("a healthy system", async || {
        let (code, checks, _) = check().await;
        (code == Some(0)).then_some(checks)
    });
    let checks = checks.await;
    let planner_title = format!("planner {planner}\n√ it answers\n");
    let proxy_title = format!("proxy {admin} (envoy-1)\n√ it answers\n");
    for part in [
        planner_title.as_str(),
        "service demo\n√ its key opens its status\n",
        &proxy_title,
        "√ demo: it has the planner's plan\n",
        "\nall 26 checks passed\n",
    ] {
        assert!(checks.contains(part), "{part}: {checks}");
    }

    *envoy.clusters.lock().unwrap() = vec!["a"];
    *envoy.revision.lock().unwrap() = 1;
    let (code, checks, _) = check().await;
    assert_eq!(code, Some(1), "{checks}");
    for part in [
        "× demo: it has the planner's plan\n    it has plan 1, the planner ",
        "× demo: it knows every variant's cluster\n    it knows no cluster b of variant b\n    remedy: ",
        "\n2 of 26 checks failed\n",
    ] {
        assert!(checks.contains(part), "{part}: {checks}");
    }
    let (_, json, _) = output(&["doctor", "--json"], &planner).await;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[1]["of"], "service demo");
    assert_eq!(json[0]["checks"][0]["passed"], true);

    end(child, "-TERM").await;
    polls.await.unwrap();
    let (code, checks, _) = output(&["doctor"], &planner).await;
    assert_eq!(code, Some(1));
    assert!(checks.contains("× it answers\n    no answer: "), "{checks}");
    assert!(checks.ends_with("1 of 1 checks failed\n"), "{checks}");
}
