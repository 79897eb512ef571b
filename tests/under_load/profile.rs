//! `weir profile --from-proxy` on a real Envoy: requests run through the filter to a server of known latency model and
//! noise, and the profile written from Envoy's statistics is compared with them.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::process::Command;
use weir_api::metrics::Metric;
use weir_bed::built;
use weir_bed::emulator::{LatencyModel, Noise, ServerConfig};
use weir_bed::envoy::Bootstrap;
use weir_bed::scene::{SERVICE, Scene, see};
use weir_bed::wait;

/// Executions at once: one on each core.
const CORES: u32 = 8;
/// Time of an execution on its core, in ms; long against a proxy's own time.
const SERVICE_MS: f64 = 45.0;
/// Standard deviation of the logarithm of each time, and the 80th and 99th percentile over the mean that follow from it.
const SIGMA: f64 = 0.3;
const P80: f64 = 1.231;
const P99: f64 = 1.921;
/// Tolerance of a mean, under and over. Envoy and the filter add their own time to each execution, and Envoy's sum is of
/// values of two digits.
const MEAN_WITHIN: (f64, f64) = (0.05, 0.15);
/// Envoy's own bucket that both percentiles are in, in ms: a percentile is as precise as its bucket.
const BUCKET_MS: (f64, f64) = (50.0, 100.0);
/// Finer buckets, and the tolerance of a percentile with them: a bucket and the mean's.
const FINE_MS: [u32; 16] = [
    10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80, 90, 99, 149,
];
const FINE_WITHIN: f64 = 0.2;
/// Time between two readings, and the limit of the whole.
const READ_APART: &str = "8s";
const LIMIT: Duration = Duration::from_secs(120);

async fn scene(adapt: impl FnOnce(Bootstrap) -> Bootstrap) -> Scene {
    let model = LatencyModel {
        gamma_ms: 40.0,
        eta_ms: SERVICE_MS - 40.0,
        ..LatencyModel::default()
    };
    let server = ServerConfig {
        cores: f64::from(CORES),
        noise: Some(Noise {
            sigma: SIGMA,
            seed: 5,
        }),
        ..ServerConfig::new("noisy", model)
    };
    let variants = json!([{ "name": "noisy", "cluster": "noisy", "share": 1.0, "slots": CORES,
        "service_ms": SERVICE_MS, "accuracy": 70.0 }]);
    let scene = Scene::start_with(vec![server], &variants, 2, |bootstrap, _| adapt(bootstrap));
    scene.await.unwrap()
}

/// Keeps as many requests in flight as the server has cores, until `done`; all must be answered.
async fn load<T>(scene: &Scene, done: impl Future<Output = T>) -> T {
    let answers = futures_util::stream::repeat(())
        .map(|()| see(scene.infer_within(9000)))
        .buffer_unordered(CORES as usize);
    let answered = answers.for_each(|seen| {
        let seen = seen.unwrap();
        assert_eq!(seen.status, 200, "{:?}", seen.refusal());
        std::future::ready(())
    });
    tokio::select! {
        () = answered => unreachable!("the load has no end"),
        done = tokio::time::timeout(LIMIT, done) => done.unwrap(),
    }
}

/// Runs `weir profile --from-proxy`; returns its report and the profile.
async fn profile(scene: &Scene, folder: &Path, arguments: &[&str]) -> (String, Value) {
    let url = format!("http://{}", scene.envoy.admin());
    let of = ["--from-proxy", &url, "--service", SERVICE];
    let more = ["--variant", "noisy", "--cores", "8", "--replace"];
    let output = Command::new(built::planner().unwrap())
        .arg("profile")
        .args([&of[..], &more, arguments].concat())
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(folder.join("profile.yaml")).unwrap();
    let report = String::from_utf8(output.stdout).unwrap();
    (report, serde_saphyr::from_str(&text).unwrap())
}

fn mean_ms(profile: &Value) -> f64 {
    profile["latency"]["meanMs"].as_f64().unwrap()
}

fn assert_mean(profile: &Value, real_ms: f64, report: &str) {
    let (found, (under, over)) = (mean_ms(profile), MEAN_WITHIN);
    let ratio = found / real_ms - 1.0;
    assert!(
        (-under..=over).contains(&ratio),
        "mean {found} ms of {real_ms}\n{report}"
    );
}

#[tokio::test]
async fn profile_from_envoys_statistics_agrees_with_the_server() {
    let _alone = super::alone().await;
    let (scene, folder) = (scene(|it| it).await, tempfile::tempdir().unwrap());
    let twice = ["--for", READ_APART];
    let (report, found) = load(&scene, profile(&scene, folder.path(), &twice)).await;
    assert_mean(&found, SERVICE_MS, &report);
    assert_eq!(found["latency"]["parallelism"], CORES, "{report}");
    let measured = &found["origin"]["measurements"][0];
    assert!(measured["executions"].as_u64().unwrap() >= 1000, "{report}");
    for key in ["p80Ms", "p99Ms"] {
        let found = measured[key].as_f64().unwrap();
        let (from, to) = BUCKET_MS;
        assert!((from..=to).contains(&found), "{key}: {found}\n{report}");
    }

    // All slots were busy, so the rate at which they are is the rate that was observed.
    let rps = measured["rps"].as_f64().unwrap();
    let real = f64::from(CORES) * 1e3 / SERVICE_MS;
    assert!(
        (rps / real - 1.0).abs() <= MEAN_WITHIN.1,
        "{rps} of {real}\n{report}"
    );

    // Of a server that has become slower, two readings show the new time alone; all since the start shows a mixture.
    scene.backends[0].slow_by(2.0).unwrap();
    let before = scene.metric(Metric::Dispatched, "noisy").await.unwrap();
    let slow = async {
        // Executions that began before are over.
        let more = async || {
            let now = scene.metric(Metric::Dispatched, "noisy").await;
            now.is_ok_and(|now| now >= before + 3 * u64::from(CORES))
        };
        wait::until_async("slow executions", LIMIT, more)
            .await
            .unwrap();
        let arguments = [&twice[..], &["--percentile", "95"]].concat();
        profile(&scene, folder.path(), &arguments).await
    };
    let (report, slow) = load(&scene, slow).await;
    assert_mean(&slow, 2.0 * SERVICE_MS, &report);
    let (report, mixed) = profile(&scene, folder.path(), &[]).await;
    let between = 1.2 * mean_ms(&found)..0.9 * mean_ms(&slow);
    assert!(between.contains(&mean_ms(&mixed)), "{mixed}\n{report}");
}

#[tokio::test]
async fn percentiles_are_as_precise_as_envoys_buckets() {
    let _alone = super::alone().await;
    let fine = |bootstrap: Bootstrap| {
        let settings = json!([{"match": {"prefix": "wasmcustom.weir_service_milliseconds"}, "buckets": FINE_MS}]);
        bootstrap.amend("/stats_config/histogram_bucket_settings", settings)
    };
    let (scene, folder) = (scene(fine).await, tempfile::tempdir().unwrap());
    let twice = ["--for", READ_APART];
    let (report, found) = load(&scene, profile(&scene, folder.path(), &twice)).await;
    assert_mean(&found, SERVICE_MS, &report);
    let measured = &found["origin"]["measurements"][0];
    for (key, ratio) in [("p80Ms", P80), ("p99Ms", P99)] {
        let (found, real) = (measured[key].as_f64().unwrap(), ratio * SERVICE_MS);
        let error = (found / real - 1.0).abs();
        assert!(error <= FINE_WITHIN, "{key}: {found} of {real}\n{report}");
    }
    let tail = found["latency"]["tail"].as_f64().unwrap();
    assert!((tail / P99 - 1.0).abs() <= FINE_WITHIN, "{tail}\n{report}");
}
