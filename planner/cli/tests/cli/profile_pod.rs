//! `weir profile --via pod/NAME` against an emulated API server with a kubelet. The model server has the cores that the
//! kubelet has given its pod.

use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{Child, Command};
use weir_apiserver::{ADMIN, ApiServer, Happening, Key, Options, Resizing};
use weir_bed::emulator::{Emulator, LatencyModel, Parallelism, ServerConfig};
use weir_bed::wait;

/// Latency model of the server, slow against what a noisy machine adds.
const MODEL: LatencyModel = LatencyModel {
    gamma_ms: 60.0,
    epsilon_ms: 20.0,
    delta_ms: 5.0,
    eta_ms: 15.0,
};
/// Namespace of the pod, and its name.
const POD: (&str, &str) = ("demo", "small-0");

/// Cluster with the pod of a model server, and a folder with a request and a kubeconfig.
struct Bed {
    cluster: ApiServer,
    server: Emulator,
    folder: TempDir,
}

impl Bed {
    async fn start(containers: &[&str]) -> Bed {
        let cluster = ApiServer::start(Options::default()).await.unwrap();
        cluster.store().namespace(POD.0);
        cluster.store().node("node-a", 8, 16_384).unwrap();
        let amounts = json!({"cpu": "1", "memory": "64Mi"});
        let container = |name: &&str| json!({"name": name, "image": "example/none:0", "resources": {"requests": amounts, "limits": amounts}});
        let containers: Vec<Value> = containers.iter().map(container).collect();
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": POD.1, "namespace": POD.0},
            "spec": {"containers": containers},
        });
        let mut changes = cluster.subscribe();
        cluster.store().create(&pod).unwrap();
        let config = ServerConfig {
            parallelism: Parallelism::Fixed(NonZeroU32::MIN),
            ..ServerConfig::new("small", MODEL)
        };
        let server = Emulator::start(config).await.unwrap();
        let resources = format!("{}/emulator/resources", server.url());
        tokio::spawn(async move {
            let http = reqwest::Client::new();
            while let Ok(change) = changes.recv().await {
                if change.happening == Happening::Resized {
                    let cores = change.pod.containers["server"].cores();
                    let cores = json!({ "cores": cores });
                    let put = http.put(&resources).json(&cores).send().await.unwrap();
                    assert!(put.status().is_success(), "{put:?}");
                }
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let tensor = json!({"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]});
        let request = json!({"inputs": [tensor]}).to_string();
        fs::write(folder.path().join("request.json"), request).unwrap();
        fs::write(folder.path().join("kubeconfig"), cluster.kubeconfig(ADMIN)).unwrap();
        let bed = Bed {
            cluster,
            server,
            folder,
        };
        let running = || bed.pod()["status"]["phase"] == "Running";
        let running = wait::until("a running pod", Duration::from_secs(30), running);
        running.await.unwrap();
        bed
    }

    fn pod(&self) -> Value {
        let key = Key::new(POD.0, POD.1);
        self.cluster.store().get("pods", &key).unwrap_or_default()
    }

    /// CPU limits of the containers' specs and of their statuses.
    fn limits(&self) -> Vec<(String, String)> {
        let pod = self.pod();
        let cpu = |one: &Value| {
            let cpu = one["resources"]["limits"]["cpu"].as_str();
            cpu.unwrap().to_owned()
        };
        let of = |path: &str| pod.pointer(path).unwrap().as_array().unwrap().clone();
        let specs = of("/spec/containers").into_iter();
        let statuses = of("/status/containerStatuses").into_iter();
        specs
            .zip(statuses)
            .map(|(spec, status)| (cpu(&spec), cpu(&status)))
            .collect()
    }

    fn spawn(&self, arguments: &[&str]) -> Child {
        let url = format!("{}/v2/models/small/infer", self.server.url());
        let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
        weir.args(["profile", "--request", "request.json", "--url", &url]);
        weir.args(["--namespace", POD.0, "--concurrency-max", "2"])
            .args(arguments)
            .current_dir(self.folder.path())
            .env("KUBECONFIG", self.folder.path().join("kubeconfig"))
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        weir.spawn().unwrap()
    }

    async fn profile(&self, arguments: &[&str]) -> Output {
        let output = self.spawn(arguments).wait_with_output();
        let output = tokio::time::timeout(Duration::from_secs(240), output);
        output.await.unwrap().unwrap()
    }

    fn written(&self) -> Value {
        read(&self.folder.path().join("profile.yaml"))
    }
}

fn read(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

fn pairs(expected: &[&str]) -> Vec<(String, String)> {
    let pair = |cpu: &&str| ((*cpu).to_owned(), (*cpu).to_owned());
    expected.iter().map(pair).collect()
}

fn error(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn pod_is_measured_on_each_number_of_cores_and_restored() {
    let bed = Bed::start(&["server", "log"]).await;
    let via = ["--via", "pod/small-0/server", "--precision", "5"];
    let output = bed
        .profile(&[&via[..], &["--cores", "0.5,2"]].concat())
        .await;
    assert!(output.status.success(), "{output:?}");
    assert_eq!(bed.limits(), pairs(&["1", "1"]));
    let written = bed.written();
    let points = written["origin"]["points"].as_array().unwrap();
    for cores in [0.5, 2.0] {
        let alone = |point: &&Value| point["cores"] == cores && point["concurrency"] == 1;
        let point = points.iter().find(alone).unwrap();
        let (found, real) = (
            point["meanMs"].as_f64().unwrap(),
            MODEL.service_ms(1, cores),
        );
        assert!((found / real - 1.0).abs() < 0.15, "{cores}: {found} {real}");
    }
    let requests = bed.cluster.log().requests();
    let resizes = requests
        .iter()
        .filter(|one| one.resource == "pods/resize" && one.status == 200)
        .count();
    assert_eq!(resizes, 3, "two numbers of cores, and the first one again");
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_resize_keeps_the_points_and_restores_the_pod() {
    let bed = Bed::start(&["server"]).await;
    let key = Key::new(POD.0, POD.1);
    let arguments = ["--via", "pod/small-0", "--precision", "10"];
    bed.cluster
        .kubelet()
        .resizes_of(&key, Some(Resizing::Deferred));
    // The extremes come first, the smallest of all before the others.
    let output = bed
        .profile(&[&arguments[..], &["--cores", "1,4"]].concat())
        .await;
    let error = error(&output);
    assert!(
        error.contains("pod small-0: 4 cores: its node has no capacity now")
            && error.contains("points are kept"),
        "{error}"
    );
    assert_eq!(bed.limits(), pairs(&["1"]));
    assert!(
        !bed.written()["origin"]["points"]
            .as_array()
            .unwrap()
            .is_empty()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn interrupted_measurement_restores_the_pod() {
    let bed = Bed::start(&["server"]).await;
    let arguments = ["--via", "pod/small-0", "--cores", "2", "--point-time", "60"];
    let precise = ["--precision", "0.1"];
    let child = bed.spawn(&[&arguments[..], &precise].concat());
    let resized = || bed.limits() == pairs(&["2"]);
    let resized = wait::until("two cores", Duration::from_secs(60), resized);
    resized.await.unwrap();
    let id = child.id().unwrap().to_string();
    let interrupt = Command::new("kill").args(["-INT", &id]).status().await;
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().await.unwrap();
    assert!(error(&output).contains("interrupted"), "{output:?}");
    assert_eq!(bed.limits(), pairs(&["1"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_that_cannot_be_resized_are_refused_by_name() {
    let bed = Bed::start(&["server", "log"]).await;
    for (arguments, expected) in [
        (
            &["--via", "pod/small-0"][..],
            "--via pod/small-0 in namespace demo: it has several containers; it must be one of pod/NAME/CONTAINER: server, log",
        ),
        (
            &["--via", "pod/none"],
            "--via pod/none in namespace demo: it is gone",
        ),
        (
            &["--via", "pod/small-0/server", "--cores", "0.333"],
            "--cores, with --via: 0.333 cores; it must be a multiple of 0.01",
        ),
    ] {
        let output = bed.profile(arguments).await;
        assert!(error(&output).contains(expected), "{output:?}");
    }
    for (arguments, expected) in [
        (
            &["--via", "small-0"][..],
            "it must be pod/NAME or pod/NAME/CONTAINER",
        ),
        (&["--via", "pod/a", "--cgroup", "."], "cannot be used with"),
    ] {
        let output = bed.profile(arguments).await;
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(expected), "{stderr}");
    }
    assert_eq!(bed.limits(), pairs(&["1", "1"]));
}
