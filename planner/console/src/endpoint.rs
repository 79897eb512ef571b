//! The planner's endpoints in tests, to compare answers with.

use std::sync::Arc;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use tokio::sync::watch;
use tower::ServiceExt as _;
use weir_planner::clock::Clock;
use weir_planner::file_reload::Reloaded;
use weir_planner::http::{App, router};
use weir_planner::key::Keys;
use weir_planner::registry::ServiceRegistry;

const KEY: &str = "secret-key";

/// Text of the answer of `POST /v1/solve` to a problem.
pub(crate) async fn post(problem: &str) -> String {
    let keys = Arc::new(Reloaded::fixed(Keys::parse(KEY).unwrap()));
    let services = Arc::new(ServiceRegistry::default());
    let (_stop, stopped) = watch::channel(false);
    let app = App::new(services, keys, Clock::start(), stopped).unwrap();
    let request = Request::post("/v1/solve")
        .header("authorization", format!("Bearer {KEY}"))
        .body(Body::from(problem.to_owned()))
        .unwrap();
    let answer = router(Arc::new(app)).oneshot(request).await.unwrap();
    let status = answer.status();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    assert_eq!(status, 200, "{problem}: {body}");
    body
}
