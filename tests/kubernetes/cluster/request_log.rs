//! Log of a planner's API requests, recorded in its own client, so that it works with any cluster.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::http::{Method, Request, Response};
use kube::client::{Body, ClientBuilder};
use tower::{BoxError, Layer, Service};

/// An answered request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnsweredRequest {
    pub(crate) method: Method,
    /// Path without the query.
    pub(crate) path: String,
    pub(crate) status: u16,
    /// Warnings sent by the API server.
    pub(crate) warnings: Vec<String>,
}

/// All requests of one client.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestLog(Arc<Mutex<Vec<AnsweredRequest>>>);

impl RequestLog {
    /// Creates a client with that configuration, and the log of its requests from now on.
    pub(crate) fn client(config: kube::Config) -> (kube::Client, RequestLog) {
        let log = RequestLog::default();
        let client = ClientBuilder::try_from(config).unwrap();
        (client.with_layer(&log).build(), log)
    }

    /// Returns the writing requests, in the order of their answers.
    pub(crate) fn writes(&self) -> Vec<AnsweredRequest> {
        self.filter(|one| one.method != Method::GET)
    }

    /// Returns the successful patches of pods' `resize` subresource.
    pub(crate) fn resizes(&self) -> Vec<AnsweredRequest> {
        self.filter(|one| {
            one.method == Method::PATCH && one.path.ends_with("/resize") && one.status == 200
        })
    }

    /// Returns the requests refused with 403.
    pub(crate) fn forbidden(&self) -> Vec<AnsweredRequest> {
        self.filter(|one| one.status == 403)
    }

    /// Returns all warnings.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.filter(|one| !one.warnings.is_empty()).into_iter();
        all.flat_map(|one| one.warnings).collect()
    }

    fn filter(&self, accepts: impl Fn(&AnsweredRequest) -> bool) -> Vec<AnsweredRequest> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|one| accepts(one)).cloned().collect()
    }
}

impl<S> Layer<S> for RequestLog {
    type Service = LoggedService<S>;

    fn layer(&self, inner: S) -> LoggedService<S> {
        LoggedService {
            inner,
            log: self.clone(),
        }
    }
}

pub(crate) struct LoggedService<S> {
    inner: S,
    log: RequestLog,
}

impl<S, B> Service<Request<Body>> for LoggedService<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = BoxError>,
    S::Future: Send + 'static,
{
    type Response = Response<B>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let (answer, log) = (self.inner.call(request), self.log.clone());
        Box::pin(async move {
            let answer = answer.await?;
            let warnings = answer.headers().get_all("warning").iter();
            let warnings = warnings.map(|one| String::from_utf8_lossy(one.as_bytes()).into_owned());
            log.0.lock().unwrap().push(AnsweredRequest {
                method,
                path,
                status: answer.status().as_u16(),
                warnings: warnings.collect(),
            });
            Ok(answer)
        })
    }
}
