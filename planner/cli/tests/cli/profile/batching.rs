//! `weir profile` of servers that form batches by themselves, and of others: lanes and batches by the number in flight.

use super::*;

/// 45 ms, and 3 ms for each further request of a batch; on any number of cores.
const BATCHES: LatencyModel = LatencyModel {
    gamma_ms: 0.0,
    epsilon_ms: 0.0,
    delta_ms: 3.0,
    eta_ms: 42.0,
};

async fn emulated(lanes: u32, batch: u32) -> Emulator {
    let config = ServerConfig {
        parallelism: Parallelism::Fixed(NonZeroU32::new(lanes).unwrap()),
        batch_max: NonZeroU32::new(batch).unwrap(),
        ..ServerConfig::new("small", BATCHES)
    };
    Emulator::start(config).await.unwrap()
}

/// Profile of a server with an objective, and the report.
async fn measured(server: &Emulator, arguments: &[&str]) -> (Value, String) {
    let folder = folder();
    let output = profile(folder.path(), &url(server), arguments).await;
    assert!(output.status.success(), "{output:?}");
    let report = String::from_utf8(output.stdout).unwrap();
    (written(folder.path()), report)
}

/// Throughput of the greatest point within an objective.
fn best_rps(profile: &Value, slo_ms: f64) -> f64 {
    let points = profile["origin"]["points"].as_array().unwrap();
    let in_time = points
        .iter()
        .filter(|one| one["p95Ms"].as_f64().unwrap() <= slo_ms);
    let rates = in_time.map(|one| one["batchesPerS"].as_f64().unwrap());
    rates.fold(0.0, f64::max)
}

fn capacity(profile: &Value) -> f64 {
    profile["capacity"]["slopeRps"].as_f64().unwrap()
}

fn is_near(found: f64, right: f64, part: f64) -> bool {
    (found / right - 1.0).abs() <= part
}

#[tokio::test(flavor = "multi_thread")]
async fn like_batching_servers_get_like_profiles_with_their_batches() {
    let (a, b) = (emulated(1, 8).await, emulated(1, 8).await);
    let arguments = ["--slo", "450ms"];
    let (a, b) = tokio::join!(measured(&a, &arguments), measured(&b, &arguments));
    for (profile, report) in [&a, &b] {
        let latency = &profile["latency"];
        let ms = |key: &str| latency[key].as_f64().unwrap();
        assert_eq!(latency["parallelism"], 1, "{report}");
        let batch = &profile["range"]["batch"];
        assert_eq!(
            (&batch["min"], &batch["max"]),
            (&json!(1), &json!(8)),
            "{report}"
        );
        for batch in [1, 4, 8] {
            let found = ms("etaMs") + f64::from(batch) * ms("deltaMs");
            let right = BATCHES.service_ms(batch, 1.0);
            assert!(
                is_near(found, right, 0.1),
                "{batch}: {found} {right}\n{report}"
            );
        }
        let rps = capacity(profile);
        assert!(
            is_near(rps, 8e3 / BATCHES.service_ms(8, 1.0), 0.1),
            "{rps}\n{report}"
        );
        assert!(
            is_near(rps, best_rps(profile, 450.0), 1e-3),
            "{rps}\n{report}"
        );
        assert_eq!(profile["batch"], 8, "{report}");
        let batches = "the server forms batches of up to 8 requests, one at once";
        assert!(report.contains(batches), "{report}");
        assert!(report.contains("meets the objective of 450 ms"), "{report}");
    }
    let (a, b) = (capacity(&a.0), capacity(&b.0));
    assert!(is_near(a, b, 0.1), "{a} {b}");
}

#[tokio::test(flavor = "multi_thread")]
async fn capacity_is_what_the_objective_leaves() {
    // 12 in flight take 120 ms, 16 take 132.
    let server = emulated(1, 8).await;
    let arguments = ["--slo", "126ms", "--batches", "8", "--batch-requests"];
    let (profile, report) = measured(&server, &arguments).await;
    let rps = capacity(&profile);
    assert!(is_near(rps, best_rps(&profile, 126.0), 1e-3), "{report}");
    let full = 8e3 / BATCHES.service_ms(8, 1.0);
    assert!(rps < 0.9 * full && rps > 0.6 * full, "{rps}\n{report}");
    assert_eq!(profile["range"]["batch"]["max"], 8, "{report}");
}

/// With 16 in flight two lanes have batches of 5; the server would form larger ones.
#[tokio::test(flavor = "multi_thread")]
async fn batch_of_a_profile_is_one_that_was_measured() {
    let server = emulated(2, 8).await;
    let (profile, report) = measured(&server, &["--slo", "110ms"]).await;
    let (batch, max) = (&profile["batch"], &profile["range"]["batch"]["max"]);
    assert!(max.as_u64().unwrap() < 8, "{report}");
    assert_eq!(batch, max, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_execute_requests_alone_have_lanes_and_no_batches() {
    for lanes in [1, 4] {
        let server = emulated(lanes, 1).await;
        let (profile, report) = measured(&server, &["--slo", "900ms"]).await;
        let latency = &profile["latency"];
        assert_eq!(profile["range"]["batch"]["max"], 1, "{report}");
        assert_eq!(profile.get("batch"), None, "{report}");
        let parallelism = latency["parallelism"].as_f64().unwrap();
        assert!(is_near(parallelism, f64::from(lanes), 1e-9), "{report}");
        let rps = 1e3 * f64::from(lanes) / BATCHES.service_ms(1, 1.0);
        let executed = parallelism * 1e3 / latency["meanMs"].as_f64().unwrap();
        assert!(is_near(executed, rps, 0.1), "{executed}\n{report}");
        assert!(is_near(capacity(&profile), rps, 0.1), "{report}");
        assert!(!report.contains("forms batches"), "{report}");
        let executes = match lanes {
            1 => "the server executes one request at a time".to_owned(),
            lanes => format!("the server executes {lanes} requests at once"),
        };
        assert!(report.contains(&executes), "{report}");
    }
}

/// The gap between an answer and the next request is neither a lane nor time of the server.
#[tokio::test(flavor = "multi_thread")]
async fn short_executions_are_no_lanes() {
    for (lanes, own_ms) in [(1, 15.0), (1, 30.0), (2, 30.0)] {
        let config = ServerConfig {
            parallelism: Parallelism::Fixed(NonZeroU32::new(lanes).unwrap()),
            ..ServerConfig::new("small", LatencyModel::constant(own_ms))
        };
        let server = Emulator::start(config).await.unwrap();
        let (profile, report) = measured(&server, &[]).await;
        let latency = &profile["latency"];
        assert_eq!(latency["parallelism"], lanes, "{report}");
        let found = latency["meanMs"].as_f64().unwrap();
        assert!(
            is_near(found, own_ms, 0.15),
            "{found} of {own_ms}\n{report}"
        );
    }
}
