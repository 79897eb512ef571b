//! The program as a person starts it: a real process, real HTTP, a proxy and backends that are
//! stand-ins in memory.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing
)]

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

const KEY: &str = "secret-key";
const PATIENCE: Duration = Duration::from_secs(30);

/// A proxy that counts arrivals at a rate, and backends that hold cores.
#[derive(Debug)]
struct World {
    begin: Instant,
    rate_rps: Mutex<f64>,
    arrived: Mutex<(Duration, f64)>,
    cores: Mutex<BTreeMap<String, f64>>,
    refusing: Mutex<bool>,
    proxy_down: Mutex<bool>,
}

impl World {
    async fn start() -> (Arc<World>, SocketAddr) {
        let cores = [("a".to_owned(), 2.0), ("b".to_owned(), 2.0)].into();
        let world = Arc::new(World {
            begin: Instant::now(),
            rate_rps: Mutex::new(0.0),
            arrived: Mutex::new((Duration::ZERO, 0.0)),
            cores: Mutex::new(cores),
            refusing: Mutex::new(false),
            proxy_down: Mutex::new(false),
        });
        let router = Router::new()
            .route("/stats/prometheus", get(stats))
            .route("/cores/{variant}", get(cores_now).put(cores_then))
            .with_state(Arc::clone(&world));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (world, address)
    }

    fn arrived(&self) -> f64 {
        let (now, rate) = (self.begin.elapsed(), *self.rate_rps.lock().unwrap());
        let mut arrived = self.arrived.lock().unwrap();
        *arrived = (now, arrived.1 + rate * (now - arrived.0).as_secs_f64());
        arrived.1
    }

    fn load(&self, rate_rps: f64) {
        self.arrived();
        *self.rate_rps.lock().unwrap() = rate_rps;
    }

    fn cores(&self) -> [f64; 2] {
        let cores = self.cores.lock().unwrap();
        [cores["a"], cores["b"]]
    }
}

async fn stats(State(world): State<Arc<World>>) -> Result<String, StatusCode> {
    if *world.proxy_down.lock().unwrap() {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let total = world.arrived().round();
    Ok(format!(
        "# TYPE weir_arrivals__service__demo counter\nweir_arrivals__service__demo{{}} {total}\n"
    ))
}

async fn cores_now(State(world): State<Arc<World>>, Path(variant): Path<String>) -> Json<Value> {
    Json(json!({"cores": world.cores.lock().unwrap()[&variant], "parallelism": null}))
}

async fn cores_then(
    State(world): State<Arc<World>>,
    Path(variant): Path<String>,
    Json(asked): Json<Value>,
) -> Result<Json<Value>, (StatusCode, String)> {
    if *world.refusing.lock().unwrap() {
        return Err((StatusCode::CONFLICT, "Deferred".to_owned()));
    }
    let cores = asked["cores"].as_f64().unwrap();
    world.cores.lock().unwrap().insert(variant, cores);
    Ok(Json(json!({ "cores": cores })))
}

fn service_file(world: SocketAddr) -> String {
    format!(
        "service: demo
listen: 127.0.0.1:0
key_env: WEIR_TEST_KEY
slo_ms: 1000
cycle_ms: 100
mode: active
budget: {{cores: 8}}
demand: {{smoothing_s: 0.2, window_s: 1, moving_s: 0.5}}
proxies: {{stats: ['http://{world}/stats/prometheus'], timeout_ms: 90}}
resize: {{timeout_ms: 90}}
solver: {{time_limit_ms: 90}}
variants:
- name: a
  cluster: a
  accuracy: 70
  cores: {{initial: 1}}
  capacity: {{slope_rps: 20, intercept_rps: -2}}
  latency: {{gamma_ms: 40, epsilon_ms: 1, delta_ms: 2, eta_ms: 0, parallelism: per-core}}
  resize: http://{world}/cores/a
- name: b
  cluster: b
  accuracy: 80
  cores: {{initial: 1, least: 0}}
  capacity: {{slope_rps: 10, intercept_rps: -2}}
  latency: {{gamma_ms: 80, epsilon_ms: 1, delta_ms: 2, eta_ms: 0, parallelism: per-core}}
  resize: http://{world}/cores/b
"
    )
}

/// The same two variants as the stages of a pipeline: `demo`, which requests enter, and `next`.
fn pipeline_file(world: SocketAddr) -> String {
    let file = service_file(world)
        .replace("initial: 1}", "initial: 1, least: 0}")
        .replace("mode: active", "mode: active\npolicy: ipa");
    let (head, a) = file.split_once("variants:\n").unwrap();
    let (a, b) = a.split_once("- name: b").unwrap();
    let inside = |text: &str| text.replace('\n', "\n    ");
    let (a, b) = (inside(a.trim_end()), inside(b.trim_end()));
    format!(
        "{head}stages:\n- name: demo\n  variants:\n    {a}\n- name: next\n  variants:\n    - name: b{b}\n"
    )
}

/// A folder with the service file in it.
struct Folder(tempfile::TempDir);

impl Folder {
    fn with(service: &str) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("service.yaml"), service).unwrap();
        Folder(folder)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir-planner"));
        command
            .args(["serve", "--config"])
            .arg(self.path("service.yaml"));
        command.env("WEIR_TEST_KEY", KEY).env_remove("RUST_LOG");
        command.stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    async fn start(&self) -> (Child, String) {
        let file = self.path("address");
        let child = self
            .command()
            .arg("--address-file")
            .arg(&file)
            .spawn()
            .unwrap();
        let address = until("the address file", async || {
            std::fs::read_to_string(&file).ok()
        })
        .await;
        (child, format!("http://{}", address.trim()))
    }

    /// Runs what must fail at once, and returns what it says.
    async fn refused(&self, change: impl FnOnce(&mut Command) -> &mut Command) -> String {
        let mut command = self.command();
        change(&mut command);
        let Output { status, stderr, .. } =
            timeout(PATIENCE, command.output()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(1));
        String::from_utf8(stderr).unwrap()
    }
}

async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut probe: impl FnMut() -> F) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn status(planner: &str) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{planner}/v1/services/demo?cycles=1");
    client.get(url).send().await.unwrap().json().await.unwrap()
}

/// Ends it as a person or Kubernetes would.
async fn end(mut child: Child, signal: &str) -> String {
    let id = child.id().unwrap().to_string();
    let begin = Instant::now();
    assert!(
        Command::new("kill")
            .args([signal, &id])
            .status()
            .await
            .unwrap()
            .success()
    );
    let output = async {
        let mut log = String::new();
        let mut stderr = child.stderr.take().unwrap();
        tokio::io::AsyncReadExt::read_to_string(&mut stderr, &mut log)
            .await
            .unwrap();
        (child.wait().await.unwrap(), log)
    };
    let (status, log) = timeout(PATIENCE, output).await.unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    assert!(status.success(), "{status}\n{log}");
    log
}

#[tokio::test]
async fn cores_follow_demand_and_faults_fall_back() {
    let (world, address) = World::start().await;
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

    // 22 requests/s to plan for: b carries 22.4 with 3 cores.
    world.load(19.0);
    until("b to serve all", async || {
        (world.cores() == [1.0, 3.0]).then_some(())
    })
    .await;
    // More than b could carry alone.
    world.load(90.0);
    until("a to help", async || {
        (world.cores()[0] >= 5.0).then_some(())
    })
    .await;

    // The proxy is lost: unknown, not idle.
    let before = world.cores();
    *world.proxy_down.lock().unwrap() = true;
    let lost = |status: &Value| status["counters"]["scrapes_lost"].as_u64().unwrap();
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
    assert_eq!(world.cores(), before);
    *world.proxy_down.lock().unwrap() = false;

    // Backends refuse: the plan stays within what is there, and they are asked again.
    *world.refusing.lock().unwrap() = true;
    world.load(5.0);
    let failed = |status: &Value| status["counters"]["resizes_failed"].as_u64().unwrap();
    let shown = until("refused resizes", async || {
        Some(status(&planner).await).filter(|shown| failed(shown) >= 3)
    });
    let shown = shown.await;
    assert_eq!(world.cores(), before);
    assert_ne!(shown["latest"]["variants"]["a"]["cores_asked"], before[0]);
    assert_eq!(
        shown["latest"]["variants"]["a"]["cores_actuated"],
        before[0]
    );
    *world.refusing.lock().unwrap() = false;
    until("a to shrink at last", async || {
        (world.cores()[0] == 1.0).then_some(())
    })
    .await;

    let log = end(child, "-TERM").await;
    for said_once in [
        "stats/prometheus: status 503",
        "resize of a: status 409, not 200: Deferred",
    ] {
        assert_eq!(log.matches(said_once).count(), 1, "{said_once}\n{log}");
    }
    assert!(log.contains("well again after"), "{log}");
    assert!(!log.contains(KEY), "the key is never logged");
}

#[tokio::test]
async fn it_ends_while_polls_wait_and_starts_anew_with_greater_revisions() {
    let (_world, address) = World::start().await;
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
async fn what_is_wrong_at_the_start_is_said_with_what_to_do() {
    let address = SocketAddr::from(([127, 0, 0, 1], 1));
    let good = service_file(address);
    let unknown = Folder::with(&good.replace("slope_rps", "slop_rps"))
        .refused(|command| command)
        .await;
    for part in [
        "service.yaml",
        "variants[0].capacity",
        "slop_rps",
        "slope_rps, intercept_rps",
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
        short.contains("5 characters; it must be 8 to 256") && !short.contains("xyzzy"),
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

#[tokio::test]
async fn a_pipeline_has_a_plan_for_each_stage_and_one_budget() {
    let (world, address) = World::start().await;
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
    world.load(50.0);
    until("both stages to carry the load", async || {
        (world.cores() == [3.0, 5.0]).then_some(())
    })
    .await;
    let told = until("the plans that count on it", async || {
        let (demo, next) = (plan("demo").await, plan("next").await);
        let slots = [&demo, &next].map(|plan| plan["variants"][0]["slots"].as_u64());
        (slots == [Some(3), Some(5)]).then_some((demo, next))
    })
    .await;
    let names = [&told.0, &told.1].map(|plan| {
        (
            plan["service"].as_str().unwrap(),
            plan["variants"][0]["name"].as_str().unwrap(),
        )
    });
    assert_eq!(names, [("demo", "a"), ("next", "b")]);
    let rest = [&told.0, &told.1].map(|plan| plan["rest_ms"].as_f64().unwrap());
    assert_eq!(rest, [83.0, 0.0], "one execution at the second stage");
    let shown = status(&planner).await;
    assert_eq!(shown["stages"]["next"]["plan"]["service"], "next");
    assert_eq!(shown["latest"]["variants"]["b"]["batch"], 1);
    // More than eight cores carry: what they do carry, in both stages.
    world.load(90.0);
    until("the overload to be said", async || {
        let shown = status(&planner).await;
        (shown["latest"]["outcome"] == "infeasible").then_some(())
    })
    .await;
    let [a, b] = world.cores();
    assert!(a + b <= 8.0 && a >= 2.0 && b >= 4.0, "{a} {b}");
    let unknown = client
        .get(format!("{planner}/v1/plans/other"))
        .bearer_auth(KEY);
    assert_eq!(unknown.send().await.unwrap().status(), 404);
    end(child, "-TERM").await;
}
