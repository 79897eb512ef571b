//! What a planner asks its API server for, seen at its own client: any cluster shows it so.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::http::{Method, Request, Response};
use kube::client::{Body, ClientBuilder};
use tower::{BoxError, Layer, Service};

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) method: Method,
    /// Without the query.
    pub(crate) path: String,
    pub(crate) status: u16,
    /// What the API server warned of.
    pub(crate) warnings: Vec<String>,
}

/// All that one client asked for.
#[derive(Debug, Clone, Default)]
pub(crate) struct Asked(Arc<Mutex<Vec<Answered>>>);

impl Asked {
    /// A client of that configuration, and what it asks for from now on.
    pub(crate) fn client(config: kube::Config) -> (kube::Client, Asked) {
        let asked = Asked::default();
        let client = ClientBuilder::try_from(config).unwrap();
        (client.with_layer(&asked).build(), asked)
    }

    /// Requests that were to change something, in the order of their answers.
    pub(crate) fn writes(&self) -> Vec<Answered> {
        self.those(|one| one.method != Method::GET)
    }

    /// Patches of pods that were taken.
    pub(crate) fn resizes(&self) -> Vec<Answered> {
        self.those(|one| {
            one.method == Method::PATCH && one.path.ends_with("/resize") && one.status == 200
        })
    }

    /// Requests for which a right was missing.
    pub(crate) fn forbidden(&self) -> Vec<Answered> {
        self.those(|one| one.status == 403)
    }

    /// All that it was warned of.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let all = self.those(|one| !one.warnings.is_empty()).into_iter();
        all.flat_map(|one| one.warnings).collect()
    }

    fn those(&self, are: impl Fn(&Answered) -> bool) -> Vec<Answered> {
        let all = self.0.lock().unwrap();
        all.iter().filter(|one| are(one)).cloned().collect()
    }
}

impl<S> Layer<S> for Asked {
    type Service = Seen<S>;

    fn layer(&self, inner: S) -> Seen<S> {
        Seen {
            inner,
            asked: self.clone(),
        }
    }
}

pub(crate) struct Seen<S> {
    inner: S,
    asked: Asked,
}

impl<S, B> Service<Request<Body>> for Seen<S>
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
        let (answer, asked) = (self.inner.call(request), self.asked.clone());
        Box::pin(async move {
            let answer = answer.await?;
            let warnings = answer.headers().get_all("warning").iter();
            let warnings = warnings.map(|one| String::from_utf8_lossy(one.as_bytes()).into_owned());
            asked.0.lock().unwrap().push(Answered {
                method,
                path,
                status: answer.status().as_u16(),
                warnings: warnings.collect(),
            });
            Ok(answer)
        })
    }
}
