//! One request through a real Envoy: its deadline is read, its variant chosen, its headers written and its
//! answer tagged, whatever its body, protocol or invalid headers.

use std::collections::BTreeMap;

use futures_util::StreamExt;
use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::emulator::{Execution, InferAnswer};
use weir_bed::scene::{Scene, Variant, epoch_ms, see};

const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 100,
    service_ms: 1.0,
};

async fn one() -> Scene {
    Scene::start(&[ONE], 1, |bootstrap, _| bootstrap)
        .await
        .unwrap()
}

fn last(scene: &Scene) -> Execution {
    scene.backends[0].executions().pop().expect("an execution")
}

fn number(headers: &BTreeMap<String, String>, name: &str) -> u64 {
    headers[name]
        .parse()
        .unwrap_or_else(|_| panic!("{name}: {}", headers[name]))
}

#[tokio::test]
async fn upstream_gets_the_remaining_time_and_client_the_variant() {
    let scene = one().await;
    let sent_ms = epoch_ms() - 300;
    let request = scene
        .infer_within(2000)
        .header("x-slo-start", sent_ms)
        .header("grpc-timeout", "9S")
        .header("x-slo-cluster", "planner")
        .header("x-slo-remaining-ms", "1");
    let seen = see(request).await.unwrap();
    assert_eq!(seen.status, 200, "{}", scene.envoy.log());
    assert_eq!(seen.header("x-slo-variant"), "small");
    assert!(seen.header("x-slo-remaining-ms").parse::<u64>().unwrap() <= 1700);
    assert!(seen.header("server-timing").starts_with("queue;dur="));

    let headers = last(&scene).headers;
    assert_eq!(headers["x-slo-variant"], "small");
    assert_eq!(number(&headers, "x-slo-deadline"), sent_ms + 2000);
    let remaining_ms = number(&headers, "x-slo-remaining-ms");
    assert!((1..=1700).contains(&remaining_ms), "{remaining_ms}");
    assert_eq!(headers["grpc-timeout"], format!("{remaining_ms}m"));
    assert!(
        !headers.contains_key("x-slo-cluster"),
        "the route key leaked upstream"
    );
}

#[tokio::test]
async fn variants_get_their_quotas() {
    let variant = |name, share| Variant { name, share, ..ONE };
    let variants = [variant("a", 0.5), variant("b", 0.3), variant("c", 0.2)];
    let scene = Scene::start(&variants, 2, |bootstrap, _| bootstrap)
        .await
        .unwrap();
    let requests = futures_util::stream::iter((0..2000).map(|_| see(scene.infer())));
    let answers: Vec<_> = requests.buffer_unordered(16).collect().await;
    for seen in answers {
        assert_eq!(seen.unwrap().status, 200);
    }
    for (variant, backend) in variants.iter().zip(&scene.backends) {
        let share = backend.executions().len() as f64 / 2000.0;
        let off = (share - variant.share).abs();
        assert!(
            off <= 0.02,
            "{}: {share} instead of {}",
            variant.name,
            variant.share
        );
    }
}

/// For each invalid header the expected result: it is clamped, never more urgent than an honest request, and
/// the proxy keeps running.
#[tokio::test]
async fn invalid_header_is_clamped_and_gains_no_urgency() {
    let scene = one().await;
    let budget = |scene: &Scene| number(&last(scene).headers, "x-slo-remaining-ms");
    let in_an_hour = epoch_ms() + 3_600_000;
    let a_day_ago = epoch_ms() - 86_400_000;
    let table: &[(&str, String, std::ops::RangeInclusive<u64>)] = &[
        // The default budget if no value can be read.
        ("x-slo-ms", "soon".into(), 900..=1000),
        ("x-slo-ms", "NaN".into(), 900..=1000),
        ("x-slo-ms", "".into(), 900..=1000),
        // Clamped to the maximum, raised to the minimum.
        (
            "x-slo-ms",
            "99999999999999999999999".into(),
            59_900..=60_000,
        ),
        ("x-slo-ms", "0.001".into(), 1..=10),
        ("grpc-timeout", "99999999H".into(), 59_900..=60_000),
        ("grpc-timeout", "1x".into(), 900..=1000),
        // An impossible start counts as now.
        ("x-slo-start", in_an_hour.to_string(), 900..=1000),
        ("x-slo-start", a_day_ago.to_string(), 900..=1000),
        ("x-slo-start", "18446744073709551616000".into(), 900..=1000),
        ("x-slo-start", "t=noon".into(), 900..=1000),
        ("x-request-start", "-5".into(), 900..=1000),
        // The deadline of an earlier hop counts only if that hop is trusted.
        ("x-slo-deadline", "1".into(), 900..=1000),
        ("x-slo-min-accuracy", "very".into(), 900..=1000),
        (
            "x-slo-class",
            "\u{7f}emperor".replace('\u{7f}', "~"),
            900..=1000,
        ),
    ];
    for (name, value, remaining_ms) in table {
        let seen = see(scene.infer().header(*name, value)).await.unwrap();
        assert_eq!(seen.status, 200, "{name}: {value}");
        let left = budget(&scene);
        assert!(
            remaining_ms.contains(&left),
            "{name}: {value} left {left} ms"
        );
    }
    let binary = reqwest::header::HeaderValue::from_bytes(b"\xff\xfe\x80").unwrap();
    for name in [
        "x-slo-ms",
        "x-slo-start",
        "grpc-timeout",
        "x-slo-min-accuracy",
    ] {
        let seen = see(scene.infer().header(name, binary.clone()))
            .await
            .unwrap();
        assert_eq!(seen.status, 200, "{name}: bytes that are no text");
        assert_eq!(seen.header("x-slo-ignored"), name);
        assert!((900..=1000).contains(&budget(&scene)), "{name}");
    }
    assert!(
        scene
            .metric(Metric::InvalidHeaders, "x-slo-start")
            .await
            .unwrap()
            >= 5
    );
    let past = scene
        .infer_within(500)
        .header("x-slo-start", epoch_ms() - 5000);
    assert_eq!(see(past).await.unwrap().refusal(), (504, "expired"));
    let floor = scene.infer().header("x-slo-min-accuracy", "99");
    assert_eq!(see(floor).await.unwrap().refusal(), (422, "accuracy"));
}

/// Held behind a busy slot and then forwarded byte for byte, whatever the size, over both protocols.
#[tokio::test]
async fn bodies_are_held_and_forwarded_intact() {
    let slot = Variant {
        slots: 1,
        service_ms: 5.0,
        ..ONE
    };
    let scene = Scene::start(&[slot], 1, |bootstrap, plugin| {
        plugin["deadline"] = json!({ "default_ms": 10_000 });
        bootstrap
    })
    .await
    .unwrap();
    let over_http2 = reqwest::Client::builder()
        .http2_prior_knowledge()
        .build()
        .unwrap();
    let url = format!(
        "http://{}/v2/models/model/infer",
        scene.envoy.listener("weir").unwrap()
    );
    for size in [0, 1, 70_000, 4 << 20] {
        let body: Vec<u8> = (0..size).map(|i| (i * 31 % 251) as u8).collect();
        let crc32 = crc32fast::hash(&body);
        for client in [&scene.client, &over_http2] {
            scene.backends[0].slow_by(60.0).unwrap();
            let running = Scene::spawn(scene.infer());
            scene.until(Metric::SlotsInUse, "small", 1).await.unwrap();
            scene.backends[0].slow_by(1.0).unwrap();
            let held = Scene::spawn(client.post(&url).body(body.clone()));
            let seen = held.await.unwrap().unwrap();
            assert_eq!(seen.status, 200, "{size} bytes");
            let answer: InferAnswer = serde_json::from_slice(&seen.body).unwrap();
            assert_eq!(answer.output("bytes"), Some(size as u64));
            assert_eq!(
                answer.output("crc32"),
                Some(u64::from(crc32)),
                "{size} bytes"
            );
            let waited = seen
                .header("server-timing")
                .strip_prefix("queue;dur=")
                .unwrap();
            assert!(waited.parse::<f64>().unwrap() > 0.0, "it was not held");
            assert_eq!(running.await.unwrap().unwrap().status, 200);
        }
    }
}
