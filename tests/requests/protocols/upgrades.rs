//! Requests that change their connection's protocol: only a handshake passes the filter, and few at a time.

use std::net::SocketAddr;

use axum::body::Bytes;
use h2::ext::Protocol;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weir_bed::wait;

use super::*;

const MANAGER: &str = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config";
/// Attackers at once.
const CROWD: usize = 300;
/// Slots of the variant, of which websockets may have half.
const SLOTS: u32 = 8;
const EIGHT: Variant = Variant {
    slots: SLOTS,
    service_ms: 100.0,
    ..ONE
};
/// Websockets at once, as shipped.
const WEBSOCKETS_MAX: usize = 4;
/// Counters of those beyond it: at once, and when a connection that they have waited for is there.
const OVERFLOWS: [&str; 2] = [
    "envoy_cluster_upstream_rq_pending_overflow",
    "envoy_cluster_upstream_rq_active_overflow",
];

/// Sends these bytes on a connection of its own, and returns the status that comes back; 0 if none does.
async fn status_of(address: SocketAddr, bytes: String) -> u16 {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    let read = tokio::time::timeout(weir_bed::scene::PATIENCE, stream.read_exact(&mut head));
    if !matches!(read.await, Ok(Ok(_))) {
        return 0;
    }
    let text = String::from_utf8_lossy(&head);
    text.split(' ').nth(1).unwrap().parse().unwrap()
}

/// Head of a request with the headers of a websocket's handshake.
fn upgrade(method: &str, path: &str, more: &str) -> String {
    format!(
        "{method} {path} HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\nconnection: upgrade\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n{more}\r\n"
    )
}

/// Sends as many of these requests at once; returns their statuses, and asserts that honest requests beside them are served.
async fn crowd(scene: &Scene, request: String) -> Vec<u16> {
    let address = scene.envoy.listener("weir").unwrap();
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        crowd.spawn(status_of(address, request.clone()));
    }
    for _ in 0..20 {
        let seen = see(scene.infer_within(5000)).await.unwrap();
        assert_eq!(seen.refusal(), (200, ""));
    }
    crowd.join_all().await
}

#[tokio::test]
async fn posts_that_claim_to_upgrade_reach_no_server() {
    let scene = scene(EIGHT).await;
    for more in [
        "content-length: 200\r\n",
        "transfer-encoding: chunked\r\n",
        "",
    ] {
        let before = scene.backends[0].executions().len();
        let request = upgrade("POST", "/v2/models/model/infer", more);
        let statuses = crowd(&scene, request).await;
        assert!(
            statuses.iter().all(|status| *status == 403),
            "{more}: {statuses:?}"
        );
        let honest = scene.backends[0].executions().len() - before;
        assert_eq!(honest, 20, "{more}");
    }
}

/// With Envoy configured to send websockets through the filter too.
#[tokio::test]
async fn posts_that_claim_to_upgrade_take_no_slot_in_the_filter() {
    let scene = Scene::start(&[EIGHT], 1, |bootstrap, _| {
        let pointer = format!("{MANAGER}/upgrade_configs");
        bootstrap.amend(&pointer, json!([{ "upgrade_type": "websocket" }]))
    });
    let scene = scene.await.unwrap();
    let more = "x-slo-ms: 700\r\ncontent-length: 200\r\n";
    let request = upgrade("POST", "/v2/models/model/infer", more);
    let statuses = crowd(&scene, request).await;
    assert!(statuses.iter().all(|status| *status == 504), "{statuses:?}");
    assert_eq!(scene.backends[0].executions().len(), 20);
    echo(&scene).await;
}

/// A server executes a GET with the headers of a handshake. No slot counts it; the cluster's limit does.
#[tokio::test]
async fn handshakes_hold_at_most_half_of_the_slots() {
    let scene = scene(EIGHT).await;
    // None of them ends, and leaves its place to another, before all have come, on a busy machine too.
    scene.backends[0].slow_by(80.0).unwrap();
    let address = scene.envoy.listener("weir").unwrap();
    let mut crowd = JoinSet::new();
    for _ in 0..CROWD {
        crowd.spawn(status_of(
            address,
            upgrade("GET", "/v1/stream?events=1", ""),
        ));
    }
    let mut statuses = Vec::new();
    while statuses.len() < CROWD - WEBSOCKETS_MAX {
        statuses.push(crowd.join_next().await.unwrap().unwrap());
    }
    assert!(statuses.iter().all(|status| *status == 503), "{statuses:?}");
    let (_, most) = scene.backends[0].load();
    assert!(most <= WEBSOCKETS_MAX, "{most} at once");
    let mut refused = 0;
    for counter in OVERFLOWS {
        refused += scene.envoy.counter(counter).await.unwrap();
    }
    assert_eq!(refused as usize, CROWD - WEBSOCKETS_MAX);
    scene.backends[0].slow_by(20.0).unwrap();
    // The other half is for the requests that have slots.
    let honest: Vec<_> = (0..SLOTS / 2)
        .map(|_| Scene::spawn(scene.infer_within(10_000)))
        .collect();
    for one in honest {
        assert_eq!(one.await.unwrap().unwrap().refusal(), (200, ""));
    }
    crowd.join_all().await;
    echo(&scene).await;
}

/// Over HTTP/2 a websocket begins with CONNECT (RFC 8441), where Envoy is configured to allow it.
#[tokio::test]
async fn websocket_over_http2_passes() {
    let scene = Scene::start(&[ONE], 1, |bootstrap, _| {
        let pointer = format!("{MANAGER}/http2_protocol_options/allow_connect");
        bootstrap.amend(&pointer, json!(true))
    });
    let scene = scene.await.unwrap();
    let address = scene.envoy.listener("weir").unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    let (client, connection) = h2::client::handshake(stream).await.unwrap();
    let running = tokio::spawn(connection);
    wait::until("extended CONNECT", weir_bed::scene::PATIENCE, || {
        client.is_extended_connect_protocol_enabled()
    })
    .await
    .unwrap();
    let mut client = client.ready().await.unwrap();
    let request = axum::http::Request::builder()
        .method("CONNECT")
        .uri(format!("http://{address}/ws"))
        .extension(Protocol::from_static("websocket"))
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .body(())
        .unwrap();
    let (answer, mut send) = client.send_request(request, false).unwrap();
    let answer = answer.await.unwrap();
    assert_eq!(answer.status(), 200);
    // A masked frame of text, and the same without the mask.
    send.send_data(Bytes::from_static(b"\x81\x82\0\0\0\0hi"), false)
        .unwrap();
    let mut body = answer.into_body();
    let echoed = body.data().await.unwrap().unwrap();
    assert_eq!(&echoed[..], b"\x81\x02hi");
    running.abort();
}

/// A method that needs no slot has no body.
#[tokio::test]
async fn options_with_a_body_is_an_ordinary_request() {
    let scene = scene(EIGHT).await;
    let request =
        |body: &str| format!("OPTIONS /predict HTTP/1.1\r\nhost: a\r\nx-slo-ms: 700\r\n{body}\r\n");
    let statuses = crowd(&scene, request("content-length: 200\r\n")).await;
    assert!(statuses.iter().all(|status| *status == 504), "{statuses:?}");
    let address = scene.envoy.listener("weir").unwrap();
    assert_eq!(status_of(address, request("")).await, 204);
}
