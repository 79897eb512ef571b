//! Harness of the tests: the program as a separate process, with an in-memory fake of the proxy and the
//! backends.

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

pub(crate) const KEY: &str = "secret-key";
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Fake of a proxy that counts arrivals at a rate, and of backends with cores.
#[derive(Debug)]
pub(crate) struct FakeMesh {
    begin: Instant,
    rate_rps: Mutex<f64>,
    arrived: Mutex<(Duration, f64)>,
    cores: Mutex<BTreeMap<String, f64>>,
    pub(crate) refusing: Mutex<bool>,
    pub(crate) proxy_down: Mutex<bool>,
}

impl FakeMesh {
    pub(crate) async fn start() -> (Arc<FakeMesh>, SocketAddr) {
        let cores = [("a".to_owned(), 2.0), ("b".to_owned(), 2.0)].into();
        let mesh = Arc::new(FakeMesh {
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
            .with_state(Arc::clone(&mesh));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (mesh, address)
    }

    pub(crate) fn arrived(&self) -> f64 {
        let (now, rate) = (self.begin.elapsed(), *self.rate_rps.lock().unwrap());
        let mut arrived = self.arrived.lock().unwrap();
        *arrived = (now, arrived.1 + rate * (now - arrived.0).as_secs_f64());
        arrived.1
    }

    pub(crate) fn load(&self, rate_rps: f64) {
        self.arrived();
        *self.rate_rps.lock().unwrap() = rate_rps;
    }

    pub(crate) fn cores(&self) -> [f64; 2] {
        let cores = self.cores.lock().unwrap();
        [cores["a"], cores["b"]]
    }
}

pub(crate) async fn stats(State(mesh): State<Arc<FakeMesh>>) -> Result<String, StatusCode> {
    if *mesh.proxy_down.lock().unwrap() {
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let total = mesh.arrived().round();
    // One of ten is refused, and three wait.
    let refused = (total / 10.0).floor();
    let on_time = total - refused;
    let of = |service: &str| {
        format!(
            "# TYPE weir_arrivals_total__service__{service} counter\n\
             weir_arrivals_total__service__{service}{{}} {total}\n\
             weir_refused_total__service__{service}__reason__queue_full{{}} {refused}\n\
             weir_served_total__service__{service}__variant__a{{}} {on_time}\n\
             weir_on_time_total__service__{service}__variant__a{{}} {on_time}\n\
             weir_held_requests__service__{service}{{}} 3\n"
        )
    };
    Ok(of("demo") + &of("other"))
}

pub(crate) async fn cores_now(
    State(mesh): State<Arc<FakeMesh>>,
    Path(variant): Path<String>,
) -> Json<Value> {
    Json(json!({"cores": mesh.cores.lock().unwrap()[&variant], "parallelism": null}))
}

pub(crate) async fn cores_then(
    State(mesh): State<Arc<FakeMesh>>,
    Path(variant): Path<String>,
    Json(change): Json<Value>,
) -> Result<Json<Value>, (StatusCode, String)> {
    if *mesh.refusing.lock().unwrap() {
        return Err((StatusCode::CONFLICT, "Deferred".to_owned()));
    }
    let cores = change["cores"].as_f64().unwrap();
    mesh.cores.lock().unwrap().insert(variant, cores);
    Ok(Json(json!({ "cores": cores })))
}

pub(crate) fn service_file(address: SocketAddr) -> String {
    format!(
        "service: demo
listen: 127.0.0.1:0
keyEnv: WEIR_TEST_KEY
slo: 1s
cycle: 100ms
mode: active
budget: {{cores: 8}}
demand: {{smoothing: 200ms, window: 1s, moving: 500ms}}
proxies: {{stats: ['http://{address}/stats/prometheus'], timeout: 90ms}}
resize: {{timeout: 90ms}}
solver: {{timeLimit: 90ms}}
variants:
- name: a
  cluster: a
  accuracy: 70
  cores: {{initial: 1}}
  capacity: {{slopeRps: 20, interceptRps: -2}}
  latency: {{gammaMs: 40, epsilonMs: 1, deltaMs: 2, etaMs: 0, parallelism: per-core}}
  resize: http://{address}/cores/a
- name: b
  cluster: b
  accuracy: 80
  cores: {{initial: 1, min: 0}}
  capacity: {{slopeRps: 10, interceptRps: -2}}
  latency: {{gammaMs: 80, epsilonMs: 1, deltaMs: 2, etaMs: 0, parallelism: per-core}}
  resize: http://{address}/cores/b
"
    )
}

/// Temporary folder with the service file.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn with(service: &str) -> Folder {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("service.yaml"), service).unwrap();
        Folder(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command.arg("serve").arg(self.path("service.yaml"));
        command.env("WEIR_TEST_KEY", KEY).env_remove("RUST_LOG");
        command.stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    pub(crate) async fn start(&self) -> (Child, String) {
        self.start_with(|command| command).await
    }

    pub(crate) async fn start_with(
        &self,
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> (Child, String) {
        let file = self.path("address");
        let mut command = self.command();
        let command = change(&mut command).arg("--address-file").arg(&file);
        let child = command.spawn().unwrap();
        let address = until("the address file", async || {
            std::fs::read_to_string(&file).ok()
        })
        .await;
        (child, format!("http://{}", address.trim()))
    }

    /// Runs a command that must fail at once, and returns its error output.
    pub(crate) async fn refused(
        &self,
        change: impl FnOnce(&mut Command) -> &mut Command,
    ) -> String {
        let mut command = self.command();
        change(&mut command);
        let Output { status, stderr, .. } =
            timeout(PATIENCE, command.output()).await.unwrap().unwrap();
        assert_eq!(status.code(), Some(1));
        String::from_utf8(stderr).unwrap()
    }
}

pub(crate) async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    mut probe: impl FnMut() -> F,
) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = probe().await {
            return found;
        }
        assert!(begin.elapsed() < PATIENCE, "waited in vain for {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

pub(crate) async fn status(planner: &str) -> Value {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("{planner}/v1/services/demo?cycles=1");
    let request = client.get(url).bearer_auth(KEY);
    request.send().await.unwrap().json().await.unwrap()
}

/// Stops the process with the signal that a person or Kubernetes would send.
/// Reads the log of a planner, on from what is in `log`, until it contains the text that often.
pub(crate) async fn until_logged(child: &mut Child, log: &mut String, text: &str, times: usize) {
    let stderr = child.stderr.as_mut().unwrap();
    let mut bytes = [0; 4096];
    while log.matches(text).count() < times {
        let read = tokio::io::AsyncReadExt::read(stderr, &mut bytes);
        let read = timeout(PATIENCE, read).await;
        let read = read.unwrap_or_else(|_| panic!("waited in vain for {text}: {log}"));
        let read = read.unwrap();
        assert!(read > 0, "the planner has ended: {log}");
        *log += &String::from_utf8_lossy(&bytes[..read]);
    }
}

pub(crate) async fn end(mut child: Child, signal: &str) -> String {
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
