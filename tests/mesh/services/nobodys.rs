//! A server that is no service's.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Headers of the answer of nobody's server, all of which a filter could change.
const ANSWER_HEADERS: [(&str, &str); 4] = [
    ("x-slo-expected-ms", "5"),
    ("x-slo-served-by", "somebody"),
    ("x-slo-dropped-reason", "a-reason"),
    ("server-timing", "mine;dur=1"),
];

/// A server of nobody's, which answers at once, whatever the request, and remembers its headers.
#[derive(Debug, Clone, Default)]
pub(super) struct Nobodys {
    received: Arc<Mutex<Vec<HeaderMap>>>,
}

impl Nobodys {
    pub(super) async fn start(&self) -> SocketAddr {
        let received = Arc::clone(&self.received);
        let answer = async move |headers: HeaderMap| {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            received.push(headers);
            let headers = ANSWER_HEADERS.map(|(name, value)| {
                (
                    HeaderName::from_static(name),
                    HeaderValue::from_static(value),
                )
            });
            (StatusCode::IM_A_TEAPOT, HeaderMap::from_iter(headers))
        };
        let routes = Router::new().fallback(answer);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, routes).await });
        address
    }

    /// Headers of the latest request.
    pub(super) fn latest(&self) -> HeaderMap {
        let received = self.received.lock().unwrap();
        received.last().expect("a request").clone()
    }
}
