//! Tests of connection limits and of shutdown.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn shutdown_is_quick_and_answers_held_polls() {
    let endpoints = Endpoints::open(LONG, 64, 128).await;
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

#[tokio::test]
async fn connections_beyond_limit_wait() {
    let endpoints = Endpoints::open(LONG, 64, 1).await;
    let request = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
    let mut first = TcpStream::connect(endpoints.address).await.unwrap();
    first.write_all(request).await.unwrap();
    let mut answer = [0; 15];
    first.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
    let mut second = TcpStream::connect(endpoints.address).await.unwrap();
    second.write_all(request).await.unwrap();
    let early =
        tokio::time::timeout(Duration::from_millis(50), second.read_exact(&mut answer)).await;
    assert!(early.is_err(), "the only place is taken");
    drop(first);
    second.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200 OK");
}

#[tokio::test]
async fn oversized_request_head_is_refused() {
    let endpoints = Endpoints::open(LONG, 64, 128).await;
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
