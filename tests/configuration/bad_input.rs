//! Invalid input from every source: headers, plans, configuration. It is clamped, ignored or refused, and
//! counted where that is documented; the proxy keeps running.

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_api::metrics::Metric;
use weir_bed::scene::{PATIENCE, Scene, Variant, see};
use weir_filter::request::wire::Field;

mod configuration;
mod plans;
mod tables;

const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 100,
    service_ms: 1.0,
};
/// Budget of a request without deadline headers, in ms.
const DEFAULT_MS: u64 = 8000;
/// Tolerance for delays on a busy machine, in ms.
const SLACK_MS: u64 = 1000;

/// A header line: name and raw value.
type Line<'a> = (&'a str, &'a [u8]);

async fn scene() -> Scene {
    Scene::start(&[ONE], 2, |bootstrap, plugin| {
        plugin["deadline"] = json!({ "default_ms": DEFAULT_MS });
        bootstrap
    })
    .await
    .unwrap()
}

/// Sends raw header lines and returns the response status.
async fn raw(scene: &Scene, lines: &[Line<'_>]) -> u16 {
    let mut request = b"POST /v2/models/model/infer HTTP/1.1\r\nhost: story\r\n".to_vec();
    for (name, value) in lines {
        request.extend_from_slice(name.as_bytes());
        request.extend_from_slice(b": ");
        request.extend_from_slice(value);
        request.extend_from_slice(b"\r\n");
    }
    request.extend_from_slice(b"content-length: 2\r\nconnection: close\r\n\r\n{}");
    let exchange = async {
        let mut stream = TcpStream::connect(scene.envoy.listener("weir")?).await?;
        // The write may fail: Envoy answers and closes before it has read an oversized request.
        let _ = stream.write_all(&request).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        anyhow::Ok(answer)
    };
    let answer = tokio::time::timeout(PATIENCE, exchange);
    let answer = answer.await.expect("no answer").unwrap();
    let line = String::from_utf8_lossy(&answer);
    let status = line
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    status.unwrap_or_else(|| panic!("no answer: {line}"))
}

/// Remaining time in the upstream header of the server's latest request, in ms.
fn remaining(scene: &Scene) -> u64 {
    let headers = scene.backends[0].executions().pop().unwrap().headers;
    headers["x-slo-remaining-ms"].parse().unwrap()
}

/// Values that are no valid number, percentage, timestamp, class or variant.
fn garbage() -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = [
        "",
        "soon",
        "-x",
        "+5",
        "NaN",
        "inf",
        "1e3",
        "0x10",
        ",2",
        "1 2",
        "1.2.3",
        ".",
        "t=",
        "t=t=5",
        "1m1x",
        "{}",
        "%00",
        "'; drop table plans",
        "१२",
        "1\u{a0}0",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect();
    all.push(b"\xff\xfe\x80".to_vec());
    all.push(b"9".repeat(33));
    all.push(b"a".repeat(50_000));
    all.push(b"9".repeat(50_000));
    all
}

/// Headers that the filter reads, and headers that only it may write.
const SLO_HEADERS: [&str; 5] = [
    "x-slo-cluster",
    "x-slo-remaining-ms",
    "x-slo-stage-ms",
    "x-slo-expected-ms",
    "x-slo-dropped-reason",
];

#[tokio::test]
async fn invalid_header_is_counted_and_gains_no_urgency() {
    let scene = scene().await;
    let garbage = garbage();
    let read = Field::ALL.map(Field::name);
    let names = read.iter().copied().chain(SLO_HEADERS);
    // Ignoring an invalid list could let a variant serve that the client excludes.
    let list = Field::Variants.name();
    // A wrong length or encoding is no HTTP: Envoy refuses it before the filter.
    let body = [Field::ContentLength, Field::TransferEncoding].map(Field::name);
    let is_other = |name: &&str| *name != list && !body.contains(name);
    let names = names.filter(|name| !name.starts_with(':') && is_other(name));
    let mut served = 0;
    for name in names {
        for value in &garbage {
            let shown = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
            assert_eq!(raw(&scene, &[(name, value)]).await, 200, "{name}: {shown}");
            served += 1;
            assert_eq!(
                scene.backends[0].executions().len(),
                served,
                "{name}: {shown}"
            );
            let left = remaining(&scene);
            let honest = DEFAULT_MS - SLACK_MS..=DEFAULT_MS;
            assert!(honest.contains(&left), "{name}: {shown} left {left} ms");
        }
    }
    for value in &garbage {
        let shown = String::from_utf8_lossy(&value[..value.len().min(40)]).into_owned();
        assert_eq!(raw(&scene, &[(list, value)]).await, 400, "{shown}");
    }
    assert_eq!(scene.backends[0].executions().len(), served);
    scene
        .until(Metric::Arrivals, "", served as u64)
        .await
        .unwrap();
    for field in Field::VALIDATED {
        let counted = match field {
            // Without a trusted hop the filter ignores this header. Envoy itself drops the other.
            Field::Deadline | Field::EnvoyTimeoutMs => 0,
            _ => garbage.len() as u64,
        };
        scene
            .until(Metric::InvalidHeaders, field.name(), counted)
            .await
            .unwrap();
    }
    assert_running(&scene).await;
}

/// Asserts that no VM has trapped and that requests are still answered.
async fn assert_running(scene: &Scene) {
    let stats = scene.envoy.stats("vm_reload").await.unwrap();
    for line in stats.lines().filter(|line| !line.starts_with('#')) {
        assert!(line.ends_with(" 0"), "a VM was lost: {line}");
    }
    for _ in 0..4 {
        assert_eq!(see(scene.infer()).await.unwrap().refusal(), (200, ""));
    }
}

#[tokio::test]
async fn extreme_values_are_clamped_and_first_of_repeated_headers_counts() {
    let scene = scene().await;
    let max = 60_000 - SLACK_MS..=60_000;
    let honest = DEFAULT_MS - SLACK_MS..=DEFAULT_MS;
    let five = 5000 - SLACK_MS..=5000;
    let table: [(&[Line<'_>], _); 13] = [
        (&[("x-slo-ms", b"99999999999999999999")], &max),
        (&[("x-slo-ms", b"18446744073709551616")], &max),
        (&[("grpc-timeout", b"99999999H")], &max),
        (
            &[(
                "x-llm-d-slo-ttft-ms",
                b"340282366920938463463374607431768211456",
            )],
            &honest,
        ),
        (&[("grpc-timeout", b"123456789S")], &honest),
        (&[("x-slo-start", b"0")], &honest),
        (&[("x-slo-start", b"18446744073709551615")], &honest),
        (
            &[("x-slo-start", b"99999999999999999999999999999999")],
            &honest,
        ),
        (&[("x-slo-ms", b"5000"), ("x-slo-ms", b"1")], &five),
        (&[("x-slo-ms", b"junk"), ("x-slo-ms", b"1")], &honest),
        (&[("x-slo-ms", b"junk"), ("grpc-timeout", b"5S")], &five),
        // Envoy joins repeated lines into one value.
        (&[("grpc-timeout", b"5S"), ("grpc-timeout", b"1m")], &five),
        (&[("x-slo-ms", b" \t5000 \t")], &five),
    ];
    for (lines, right) in table {
        let shown: Vec<_> = lines
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value)))
            .collect();
        assert_eq!(raw(&scene, lines).await, 200, "{shown:?}");
        let left = remaining(&scene);
        assert!(right.contains(&left), "{shown:?} left {left} ms");
    }
    // A budget that is used up is over.
    let used_up: [Line<'_>; 4] = [
        ("x-slo-ms", b"0"),
        ("x-slo-ms", b"0.0000000001"),
        ("x-slo-ms", b"-5"),
        ("grpc-timeout", b"0n"),
    ];
    for line in used_up {
        assert_eq!(raw(&scene, &[line]).await, 504, "{line:?}");
    }
    // The filter writes each upstream header once, however often the client sent it.
    let forged: [Line<'_>; 6] = [
        ("x-slo-remaining-ms", b"1"),
        ("x-slo-remaining-ms", b"2"),
        ("x-slo-variant", b"a"),
        ("x-slo-variant", b"b"),
        ("x-slo-deadline", b"1"),
        ("x-slo-deadline", b"2"),
    ];
    assert_eq!(raw(&scene, &forged).await, 200);
    let headers = scene.backends[0].executions().pop().unwrap().headers;
    assert_eq!(headers["x-slo-variant"], "small");
    assert!(honest.contains(&remaining(&scene)));
    // Limits of the accuracy floor: 100 is valid, but no variant has it.
    assert_eq!(raw(&scene, &[("x-slo-min-accuracy", b"100")]).await, 422);
    assert_eq!(raw(&scene, &[("x-slo-min-accuracy", b"100.1")]).await, 200);
    assert_eq!(raw(&scene, &[("x-slo-min-accuracy", b"0")]).await, 200);
    assert_running(&scene).await;
}

/// Malformed HTTP is refused by Envoy and never reaches the filter.
#[tokio::test]
async fn malformed_http_is_refused_by_envoy() {
    let scene = scene().await;
    let large = b"7".repeat(61 * 1024);
    assert_eq!(raw(&scene, &[("x-slo-ms", &large)]).await, 431);
    let fits = b"7".repeat(59 * 1024);
    assert_eq!(raw(&scene, &[("x-slo-ms", &fits)]).await, 200);
    let many = [("x-slo-ms", b"5000".as_slice()); 120];
    assert_eq!(raw(&scene, &many).await, 431);
    for control in [b"5\x005".as_slice(), b"5\x015", b"5\x7f5"] {
        assert_eq!(
            raw(&scene, &[("x-slo-ms", control)]).await,
            400,
            "{control:?}"
        );
    }
    scene.until(Metric::Arrivals, "", 1).await.unwrap();
    assert_running(&scene).await;
}
