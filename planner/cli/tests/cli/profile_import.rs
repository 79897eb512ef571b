//! `weir profile` of numbers that others have measured: a proxy's histograms and imported files.

use std::fs;
use std::path::Path;
use std::process::Output;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::routing::get;
use serde_json::Value;
use tokio::process::Command;

async fn run(folder: &Path, command: &str, arguments: &[&str]) -> Output {
    let mut weir = Command::new(env!("CARGO_BIN_EXE_weir"));
    weir.arg(command).args(arguments).current_dir(folder);
    weir.env_remove("RUST_LOG").kill_on_drop(true);
    weir.output().await.unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn written(path: &Path) -> Value {
    serde_saphyr::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Statistics of a proxy: each variant has 4 slots and executions of 30 ms, `slow` every hundredth of 90.
fn statistics(variants: &[(&str, u32)]) -> String {
    let mut text = "# TYPE envoy_server_live gauge\nenvoy_server_live{} 1\n".to_owned();
    for (variant, hundreds) in variants {
        let labels = format!("service=\"demo\",variant=\"{variant}\"");
        let name = "weir_service_milliseconds";
        let (most, all) = (99 * hundreds, 100 * hundreds);
        for (le, count) in [("20", 0), ("40", most), ("100", all), ("+Inf", all)] {
            text += &format!("{name}_bucket{{{labels},le=\"{le}\"}} {count}\n");
        }
        let sum = 30 * most + 90 * hundreds;
        text += &format!("{name}_sum{{{labels}}} {sum}\n{name}_count{{{labels}}} {all}\n");
        text += &format!("weir_slots{{{labels}}} 4\n");
    }
    text
}

/// Proxy whose every reading has 20 times as many executions as the one before; returns its address.
async fn proxy(variants: &'static [(&'static str, u32)]) -> String {
    let readings = Arc::new(AtomicU32::new(0));
    let answer = move || {
        let reading = readings.fetch_add(1, Ordering::Relaxed);
        let variants = variants
            .iter()
            .map(|(name, hundreds)| (*name, hundreds * (1 + 19 * reading)));
        let variants: Vec<_> = variants.collect();
        async move { statistics(&variants) }
    };
    let app = axum::Router::new().route("/stats/prometheus", get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, app).await });
    format!("http://{address}")
}

#[tokio::test(flavor = "multi_thread")]
async fn proxys_histograms_give_a_profile_that_a_service_file_takes() {
    let (folder, url) = (tempfile::tempdir().unwrap(), proxy(&[("small", 10)]).await);
    let of = [
        "--from-proxy",
        &url,
        "--service",
        "demo",
        "--variant",
        "small",
        "--cores",
        "2",
    ];
    let more = ["--for", "1s", "--plot", "plot.svg"];
    let output = run(folder.path(), "profile", &[&of[..], &more].concat()).await;
    assert!(output.status.success(), "{output:?}");
    let report = text(&output.stdout);
    assert!(
        report.contains("measured on 2 cores alone") && report.contains("requests/s in"),
        "{report}"
    );
    let found = written(&folder.path().join("profile.yaml"));
    // 100 executions of 30 and 90 ms, 99 to 1.
    assert_eq!(found["latency"]["meanMs"], 30.6);
    assert_eq!(found["latency"]["parallelism"], 4);
    assert_eq!(
        found["range"]["cores"],
        serde_json::json!({"min": 2.0, "max": 2.0})
    );
    let origin = &found["origin"];
    assert_eq!(
        (&origin["format"], &origin["variant"]),
        (&"proxy".into(), &"demo/small".into())
    );
    assert_eq!(origin["measurements"][0]["executions"], 19_000);
    assert!(
        fs::read_to_string(folder.path().join("plot.svg"))
            .unwrap()
            .starts_with("<svg")
    );

    let again = run(folder.path(), "profile", &of).await;
    let error = text(&again.stderr);
    assert!(
        error.contains("--output profile.yaml: it exists; --replace writes it anew"),
        "{error}"
    );

    for (cores, extrapolate, expected) in [
        ("{initial: 2, min: 2, max: 2}", "", None),
        ("{initial: 2, min: 2, max: 4}", "", Some("cores.max")),
        ("{initial: 2, min: 2, max: 4}", ", extrapolate: true", None),
    ] {
        let service = format!(
            "service: demo\nlisten: 127.0.0.1:8080\nkeyEnv: KEY\nslo: 800ms\nmode: advisory\nbudget: {{cores: 4}}\n\
             proxies: {{stats: ['http://127.0.0.1:1/stats']}}\nvariants:\n- {{name: small, cluster: small, accuracy: 70, \
             cores: {cores}, profile: {{file: profile.yaml{extrapolate}}}}}\n"
        );
        fs::write(folder.path().join("service.yaml"), service).unwrap();
        let check = run(folder.path(), "check", &["service.yaml"]).await;
        let printed = text(&check.stdout) + &text(&check.stderr);
        match expected {
            None => assert!(check.status.success(), "{printed}"),
            Some(key) => assert!(
                printed.contains(key)
                    && printed.contains("2 to 2, the cores that the profile was measured on"),
                "{printed}"
            ),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_variant_gets_a_file_and_one_with_too_little_is_named() {
    let (folder, url) = (
        tempfile::tempdir().unwrap(),
        proxy(&[("large", 3), ("small", 10)]).await,
    );
    let of = [
        "--from-proxy",
        &url,
        "--service",
        "demo",
        "--output",
        "profiles",
    ];
    let output = run(folder.path(), "profile", &of).await;
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let error = text(&output.stderr);
    let expected = "variant large: 300 executions; it must be 1000 or more for the 99th percentile";
    assert!(
        error.contains("1 variants left out") && error.contains(expected),
        "{error}"
    );
    assert!(folder.path().join("profiles/small.yaml").exists());
    assert!(!folder.path().join("profiles/large.yaml").exists());
    let of = [
        "--from-proxy",
        &url,
        "--service",
        "other",
        "--output",
        "profiles",
    ];
    let error = text(&run(folder.path(), "profile", &of).await.stderr);
    assert!(
        error.contains("the proxy has demo/large, demo/small"),
        "{error}"
    );
    let of = ["--from-proxy", &url, "--service", "demo"];
    let error = text(&run(folder.path(), "profile", &of).await.stderr);
    assert!(
        error.contains("--output profile.yaml: it must be a folder"),
        "{error}"
    );
}

/// Triton's statistics: executions of 2 requests in 25 ms each.
fn triton(executions: u32) -> String {
    let stat = |count: u32, ms: u32| serde_json::json!({"count": count, "ns": u64::from(count * ms) * 1_000_000});
    let batch = serde_json::json!({"batch_size": 2, "compute_input": stat(executions, 2),
        "compute_infer": stat(executions, 20), "compute_output": stat(executions, 3)});
    let model = serde_json::json!({"name": "digits", "version": "1", "inference_count": 2 * executions,
        "execution_count": executions, "inference_stats": {"queue": stat(2 * executions, 4)}, "batch_stats": [batch]});
    serde_json::json!({"model_stats": [model]}).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_of_triton_are_read_twice() {
    let folder = tempfile::tempdir().unwrap();
    for (name, executions) in [("early.json", 1000), ("late.json", 1400)] {
        fs::write(folder.path().join(name), triton(executions)).unwrap();
    }
    let readings = Arc::new(AtomicU32::new(0));
    let answer = move || {
        let reading = readings.fetch_add(1, Ordering::Relaxed);
        async move { triton(1000 + 400 * reading) }
    };
    let app = axum::Router::new().route("/v2/models/digits/stats", get(answer));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!(
        "http://{}/v2/models/digits/stats",
        listener.local_addr().unwrap()
    );
    tokio::spawn(async move { axum::serve(listener, app).await });
    for (source, more, note) in [
        (
            url.as_str(),
            ["--for", "1s"],
            "counted between two readings, 1s apart",
        ),
        (
            "late.json",
            ["--earlier", "early.json"],
            "counted since early.json",
        ),
    ] {
        let of = ["--import", source, "--format", "triton", "--replace"];
        let output = run(folder.path(), "profile", &[&of[..], &more].concat()).await;
        assert!(output.status.success(), "{output:?}");
        let report = text(&output.stdout);
        assert!(report.contains(note), "{report}");
        let found = written(&folder.path().join("profile.yaml"));
        let measured = &found["origin"]["measurements"][0];
        assert_eq!(
            (
                &measured["batch"],
                &measured["meanMs"],
                &measured["executions"]
            ),
            (&2.into(), &25.0.into(), &400.into())
        );
    }
    let of = ["--import", "early.json", "--format", "triton", "--replace"];
    let swapped = [&of[..], &["--earlier", "late.json"]].concat();
    let error = text(&run(folder.path(), "profile", &swapped).await.stderr);
    assert!(
        error.contains("--import early.json: model digits: inference_count fell from 2800 to 2000"),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn table_of_another_program_is_imported_and_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let mut table = "size,cpu,seconds,arch\n".to_owned();
    for (batch, cores) in [
        (1, 1),
        (4, 1),
        (8, 1),
        (1, 2),
        (4, 2),
        (8, 2),
        (1, 4),
        (4, 4),
        (8, 4),
    ] {
        let (b, c) = (f64::from(batch), f64::from(cores));
        table += &format!(
            "{batch},{cores},{},a\n{batch},{cores},9,b\n",
            0.04 * b / c + 0.005 * b + 0.01
        );
    }
    fs::write(folder.path().join("their.csv"), table).unwrap();
    let columns = [
        "--column",
        "batch=size",
        "--column",
        "cores=cpu",
        "--column",
        "mean_s=seconds",
    ];
    let more = ["--where", "arch=a", "--tail", "1.4", "--plot", "plot.svg"];
    let of = ["--import", "their.csv", "--format", "csv"];
    let output = run(
        folder.path(),
        "profile",
        &[&of[..], &columns, &more].concat(),
    )
    .await;
    assert!(output.status.success(), "{output:?}");
    let found = written(&folder.path().join("profile.yaml"));
    let ms = |key: &str| found["latency"][key].as_f64().unwrap();
    for (key, expected) in [
        ("gammaMs", 40.0),
        ("epsilonMs", 0.0),
        ("deltaMs", 5.0),
        ("etaMs", 10.0),
        ("tail", 1.4),
    ] {
        assert!((ms(key) - expected).abs() < 1e-3, "{key}: {found}");
    }
    let fit = &found["origin"]["fit"];
    assert_eq!(
        (&fit["model"], &fit["rSquared"]),
        (&"sponge".into(), &1.0.into())
    );
    let svg = fs::read_to_string(folder.path().join("plot.svg")).unwrap();
    assert!(
        svg.contains("by cores") && svg.contains("by its size"),
        "{svg}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_sources_and_arguments_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.csv"), "cores,mean_ms\n1,40\n1,90\n").unwrap();
    fs::write(folder.path().join("b.json"), "{}").unwrap();
    for (arguments, code, expected) in [
        (&[][..], 2, "--url"),
        (&["--import", "a.csv"], 2, "--format"),
        (
            &["--import", "a.csv", "--format", "csv", "--url", "http://a/"],
            2,
            "cannot be used with",
        ),
        (&["--from-proxy", "http://127.0.0.1:9"], 2, "--service"),
        (
            &["--import", "a.csv", "--format", "csv", "--for", "0s"],
            2,
            "it must be a duration such as 60s",
        ),
        (
            &["--import", "a.csv", "--format", "csv", "--tail", "0.5"],
            2,
            "it must be 1 to 100",
        ),
        (
            &["--import", "a.csv", "--format", "csv"],
            1,
            "mean_ms: 40 and 90 ms contradict each other",
        ),
        (
            &["--import", "a.csv", "--format", "csv", "--cores", "1,2"],
            1,
            "--cores, --batches: several",
        ),
        (
            &["--import", "a.csv", "--format", "csv", "--for", "1s"],
            1,
            "--for: it must be left out",
        ),
        (
            &["--import", "a.csv", "--format", "csv", "--earlier", "a.csv"],
            1,
            "--earlier: it must be left out",
        ),
        (
            &["--import", "none", "--format", "csv"],
            1,
            "--import none: none: No such file",
        ),
        (
            &["--import", "b.json", "--format", "triton"],
            1,
            "--import b.json: missing field `model_stats`",
        ),
        (
            &[
                "--from-proxy",
                "http://127.0.0.1:9",
                "--service",
                "a",
                "--variant",
                "b",
            ],
            1,
            "http://127.0.0.1:9/stats/prometheus: ",
        ),
    ] {
        let output = run(folder.path(), "profile", arguments).await;
        let error = text(&output.stderr);
        assert!(
            output.status.code() == Some(code) && error.contains(expected),
            "{arguments:?}: {error}"
        );
    }
    assert!(!folder.path().join("profile.yaml").exists());
}
