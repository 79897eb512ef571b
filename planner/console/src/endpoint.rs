//! The planner's endpoints in tests, to compare answers with.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tower::ServiceExt as _;
use weir_planner::clock::Clock;
use weir_planner::file_reload::Reloaded;
use weir_planner::http::{App, router};
use weir_planner::key::Keys;
use weir_planner::registry::ServiceRegistry;

const KEY: &str = "secret-key";

/// An answer, received.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8(self.body.clone()).unwrap()
    }
}

/// Text of the answer of `POST /v1/solve` to a problem.
pub(crate) async fn post(problem: &str) -> String {
    let request = Request::post("/v1/solve")
        .header("authorization", format!("Bearer {KEY}"))
        .body(Body::from(problem.to_owned()))
        .unwrap();
    let answer = answer(request).await;
    let text = answer.text();
    assert_eq!(answer.status, StatusCode::OK, "{problem}: {text}");
    text
}

/// Answer of a path without a key, to a client that may have it with a tag.
pub(crate) async fn get(path: &str, tag: Option<&str>) -> Answer {
    let request = Request::get(path).header("if-none-match", tag.unwrap_or_default());
    answer(request.body(Body::empty()).unwrap()).await
}

async fn answer(request: Request<Body>) -> Answer {
    let keys = Arc::new(Reloaded::fixed(Keys::parse(KEY).unwrap()));
    let services = Arc::new(ServiceRegistry::default());
    let (_stop, stopped) = watch::channel(false);
    let app = App::new(services, keys, Clock::start(), stopped).unwrap();
    let answer = router(Arc::new(app)).oneshot(request).await.unwrap();
    let (head, body) = answer.into_parts();
    Answer {
        status: head.status,
        headers: head.headers,
        body: body.collect().await.unwrap().to_bytes().to_vec(),
    }
}
