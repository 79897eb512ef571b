//! Tests of connection limits and of shutdown.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn shutdown_is_quick_and_answers_held_polls() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let first = endpoints.publish(1);
    let held: Vec<_> = (0..8)
        .map(|_| endpoints.poll_beside(format!("?after={first}")))
        .collect();
    endpoints.until_held(8).await;
    // A client that sends half a request and stays must not delay the shutdown.
    let mut half = TcpStream::connect(endpoints.address).await.unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nhost")
        .await
        .unwrap();
    let begin = tokio::time::Instant::now();
    endpoints.stop.send(true).unwrap();
    for poll in held {
        assert_eq!(poll.await.unwrap().status(), 204);
    }
    endpoints.serving.await.unwrap();
    assert!(
        begin.elapsed() < Duration::from_secs(2),
        "{:?}",
        begin.elapsed()
    );
    assert!(
        TcpStream::connect(endpoints.address).await.is_err(),
        "nobody listens any more"
    );
}

/// Limits for tests, with short times.
fn limits(keyed_max: usize, keyless_max: usize, keyless_time: Duration) -> Setup {
    Setup {
        limits: ServerLimits {
            places: PlaceLimits {
                keyed_max,
                keyless_max,
                keyless_time,
            },
            answer_max: Duration::from_millis(200),
        },
        ..Setup::default()
    }
}

/// Waits until the server has closed the connection.
async fn until_closed(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    let closed = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut rest));
    let _ = closed.await.expect("the connection stays open");
}

#[tokio::test]
async fn connection_without_key_gives_way_to_new_one() {
    let endpoints = Endpoints::with(limits(8, 2, LONG)).await;
    endpoints.publish(1);
    let mut idle = Vec::new();
    for _ in 0..2 {
        idle.push(TcpStream::connect(endpoints.address).await.unwrap());
    }
    // The places are taken, and a proxy gets its plan all the same.
    plan(endpoints.poll("").await).await;
    until_closed(&mut idle[0]).await;
    // Its connection has a place of its own now.
    let third = TcpStream::connect(endpoints.address).await.unwrap();
    let _fourth = TcpStream::connect(endpoints.address).await.unwrap();
    until_closed(&mut idle[1]).await;
    drop(third);
    plan(endpoints.poll("").await).await;
}

#[tokio::test]
async fn connection_without_key_is_closed_in_time() {
    let endpoints = Endpoints::with(limits(8, 8, Duration::from_millis(300))).await;
    let first = endpoints.publish(1);
    let mut half = TcpStream::connect(endpoints.address).await.unwrap();
    half.write_all(b"GET /healthz HTTP/1.1\r\nho")
        .await
        .unwrap();
    let held = endpoints.poll_beside(format!("?after={first}"));
    endpoints.until_held(1).await;
    until_closed(&mut half).await;
    // So is one that came after the poll, and the poll with its key is still held.
    let mut later = TcpStream::connect(endpoints.address).await.unwrap();
    until_closed(&mut later).await;
    let second = endpoints.publish(2);
    assert_eq!(plan(held.await.unwrap()).await.revision, second);
}

#[tokio::test]
async fn answer_without_key_closes_connection_and_answer_with_key_does_not() {
    let endpoints = Endpoints::with(Setup::default()).await;
    endpoints.publish(1);
    for path in [
        "/healthz",
        "/metrics",
        "/v1/openapi.json",
        "/v1/plans/demo",
        "/none",
    ] {
        let answer = endpoints.get(path).await;
        assert_eq!(answer.headers()["connection"], "close", "{path}");
    }
    assert!(
        !endpoints
            .poll("")
            .await
            .headers()
            .contains_key("connection")
    );
}

#[tokio::test]
async fn request_with_key_beyond_places_gets_retry_after() {
    let endpoints = Endpoints::with(limits(1, 8, LONG)).await;
    let first = endpoints.publish(1);
    let held = endpoints.poll_beside(format!("?after={first}"));
    endpoints.until_held(1).await;
    let full = endpoints.poll("").await;
    assert_eq!(full.headers()["retry-after"], "1");
    let message = error(full, 503).await;
    assert_eq!(message, "all 1 places of connections with a key are taken");
    assert_eq!(endpoints.get("/healthz").await.status(), 200);
    held.abort();
    endpoints.until_held(0).await;
    until("a free place", async || {
        endpoints.poll("").await.status() == 200
    })
    .await;
}

#[tokio::test]
async fn slow_reader_with_key_is_cut_off() {
    let endpoints = Endpoints::with(limits(1, 8, LONG)).await;
    endpoints.publish(1);
    let report = crate::control_loop::tests::reports(1).await.remove(0);
    for _ in 0..CYCLES_MAX {
        endpoints.handle.status.push(report.clone());
    }
    let mut slow = TcpStream::connect(endpoints.address).await.unwrap();
    let request = format!(
        "GET /v1/services/demo?cycles={CYCLES_MAX} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n\r\n"
    );
    // More answers than any buffer takes. It reads none of them, and has the only place of those with a key.
    slow.write_all(request.repeat(100).as_bytes())
        .await
        .unwrap();
    slow.peek(&mut [0]).await.unwrap();
    until("the slow reader's place", async || {
        endpoints.poll("").await.status() == 200
    })
    .await;
    drop(slow);
}

#[tokio::test]
async fn oversized_request_head_is_refused() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let mut stream = TcpStream::connect(endpoints.address).await.unwrap();
    let head = format!(
        "GET /healthz HTTP/1.1\r\nhost: x\r\npad: {}\r\n\r\n",
        "x".repeat(HEAD_BYTES_MAX)
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 431");
}
