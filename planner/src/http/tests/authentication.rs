//! Tests of keys: before any body is read, and of one service alone.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn request_without_key_is_refused_before_its_body() {
    let endpoints = Endpoints::with(Setup::default()).await;
    for (request, key) in [
        ("POST /v1/solve", ""),
        ("POST /v1/solve", "authorization: Bearer wrong-key\r\n"),
        ("GET /v1/plans/demo", ""),
        ("GET /v1/services/demo", ""),
    ] {
        let mut stream = TcpStream::connect(endpoints.address).await.unwrap();
        let head = format!(
            "{request} HTTP/1.1\r\nhost: x\r\n{key}content-length: {}\r\n\r\n",
            solve::BODY_MAX
        );
        // The body never comes.
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let read = tokio::time::timeout(Duration::from_secs(5), stream.read_to_string(&mut answer));
        read.await.expect("no answer").unwrap();
        assert!(answer.starts_with("HTTP/1.1 401"), "{request}: {answer}");
    }
}

#[tokio::test]
async fn key_of_another_service_opens_neither_plans_nor_status() {
    let endpoints = Endpoints::with(Setup {
        keys: "other-key\ndemo secret-key\nb key-of-service-b\n".to_owned(),
        ..Setup::default()
    })
    .await;
    endpoints.publish(1);
    let with = async |method: reqwest::Method, path: &str, key: &str| {
        let url = format!("http://{}{path}", endpoints.address);
        let request = endpoints.client.request(method, url).bearer_auth(key);
        request.body("{}").send().await.unwrap().status().as_u16()
    };
    use reqwest::Method;
    for (path, key, status) in [
        ("/v1/plans/demo?proxy=a&incarnation=1", "secret-key", 200),
        (
            "/v1/plans/demo?proxy=b&incarnation=1",
            "key-of-service-b",
            401,
        ),
        ("/v1/plans/demo?proxy=b&incarnation=1", "other-key", 401),
        ("/v1/services/demo", "secret-key", 200),
        ("/v1/services/demo", "key-of-service-b", 401),
        ("/v1/services/demo", "other-key", 401),
        // No such service, but a key for it; and a key of a service for another.
        ("/v1/plans/b", "key-of-service-b", 404),
        ("/v1/plans/c", "other-key", 404),
        ("/v1/plans/c", "secret-key", 401),
    ] {
        let answer = with(Method::GET, path, key).await;
        assert_eq!(answer, status, "{path} {key}");
    }
    // The polls that were refused took no slots.
    let shown: Value = endpoints.status("").await.json().await.unwrap();
    let proxies: Vec<_> = shown["proxies"].as_object().unwrap().keys().collect();
    assert_eq!(proxies, ["a"]);
    for key in ["secret-key", "key-of-service-b", "other-key"] {
        assert_eq!(with(Method::POST, "/v1/solve", key).await, 400, "{key}");
    }
    assert_eq!(with(Method::POST, "/v1/solve", "wrong-key").await, 401);
}
