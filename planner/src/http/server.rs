//! Connection handling: places, TLS, time limits of connections, requests and answers, and shutdown. Every
//! connection is accepted at once, so that health checks and polls need not wait for others to end.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::body::{Bytes, HttpBody};
use axum::http::{HeaderValue, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsAcceptor;
use tower::Service;

use super::places::{Occupied, Place, PlaceLimits, Places};
use super::problem::{Problem, ProblemKind};
use super::request_id::RequestId;
use super::tls::{HANDSHAKE_MAX, TlsState};
use super::write_limit::WriteLimit;
use super::{App, router};
use crate::file_reload::Reloaded;
use crate::key::Keys;

/// Timeout of a request's head, and idle timeout of a connection with a key.
pub const HEAD_MAX: Duration = Duration::from_secs(30);
/// Maximum size of a request's head, in bytes: 20 times that of any poll.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum time from a request's head to the begin of its answer; polls are held for less.
pub const REQUEST_MAX: Duration = Duration::from_secs(30);
/// Time in which open connections may finish on shutdown.
pub const GRACE: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted, most likely for lack of file descriptors, and no connection
/// without a key could be ended.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The same, after one was ended.
const EVICTED_PAUSE: Duration = Duration::from_millis(1);

// A connection must not count as idle while its poll is held.
const _: () = assert!(HEAD_MAX.as_secs() > super::HOLD.as_secs());
const _: () =
    assert!(REQUEST_MAX.as_secs() > super::HOLD.as_secs() + super::forward::ANSWER_GRACE.as_secs());
const _: () = assert!(
    REQUEST_MAX.as_secs() > super::BODY_TIME_MAX.as_secs() + super::solve::LIMIT_MAX.as_secs()
);

/// Listener of the endpoints, with their keys and certificate.
#[derive(Debug)]
pub struct Endpoint {
    /// Accepts the connections.
    pub listener: TcpListener,
    /// Keys that requests carry.
    pub keys: Arc<Reloaded<Keys>>,
    /// Certificate; without one, connections are not encrypted.
    pub tls: Option<Arc<Reloaded<TlsState>>>,
}

/// Limits of a server.
#[derive(Debug, Clone, Copy)]
pub struct ServerLimits {
    /// Limits of the places.
    pub places: PlaceLimits,
    /// Time limit of an answer to a slow reader.
    pub answer_max: Duration,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        ServerLimits {
            places: PlaceLimits::default(),
            answer_max: super::write_limit::ANSWER_MAX,
        }
    }
}

impl Endpoint {
    /// Serves `app` until `stop`, and follows the files of keys and certificate.
    pub async fn answer(self, app: Arc<App>, limits: ServerLimits, stop: watch::Receiver<bool>) {
        let Endpoint {
            listener,
            keys,
            tls,
        } = self;
        let followed = tls.clone();
        let follow_tls = async {
            match followed {
                Some(tls) => tls.follow().await,
                None => std::future::pending().await,
            }
        };
        let server = Server {
            router: router(app),
            tls,
            limits,
        };
        tokio::select! {
            () = server.run(listener, stop) => {}
            () = keys.follow() => {}
            () = follow_tls => {}
        }
    }
}

struct Server {
    router: Router,
    tls: Option<Arc<Reloaded<TlsState>>>,
    limits: ServerLimits,
}

impl Server {
    /// Runs until `stop`. Open requests then get [`GRACE`] to finish.
    async fn run(self, listener: TcpListener, mut stop: watch::Receiver<bool>) {
        let graceful = GracefulShutdown::new();
        let places = Places::new(self.limits.places);
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, _)) = accepted else {
                match places.evict_oldest() {
                    true => sleep(EVICTED_PAUSE).await,
                    false => sleep(ACCEPT_PAUSE).await,
                }
                continue;
            };
            // Responses are small and must not be delayed.
            let _ = stream.set_nodelay(true);
            let connection = self.connection(stream, places.enter(), graceful.watcher());
            tokio::spawn(connection);
        }
        drop(listener);
        let _ = timeout(GRACE, graceful.shutdown()).await;
    }

    /// Serves one connection; dropping the future closes it.
    fn connection(
        &self,
        stream: TcpStream,
        occupied: Occupied,
        watcher: Watcher,
    ) -> impl Future<Output = ()> + 'static {
        let tls = self
            .tls
            .as_ref()
            .map(|tls| Arc::clone(&tls.current().server));
        let answer_max = self.limits.answer_max;
        let service = ConnectionService {
            router: self.router.clone(),
            place: Arc::clone(occupied.place()),
        };
        async move {
            let served = async {
                let Some(tls) = tls else {
                    return serve(WriteLimit::new(stream, answer_max), service, watcher).await;
                };
                let handshake = TlsAcceptor::from(tls).accept(stream);
                // A client that breaks off or fails is no error of the planner.
                if let Ok(Ok(stream)) = timeout(HANDSHAKE_MAX, handshake).await {
                    serve(WriteLimit::new(stream, answer_max), service, watcher).await;
                }
            };
            tokio::select! {
                () = served => {}
                () = occupied.place().wait_ended() => {}
            }
        }
    }
}

async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    service: ConnectionService,
    watcher: Watcher,
) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    let service = TowerToHyperService::new(service);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    // A disconnecting client is no error of the planner.
    let _ = watcher.watch(connection.into_owned()).await;
}

/// The routes, for the requests of one connection.
#[derive(Clone)]
struct ConnectionService {
    router: Router,
    place: Arc<Place>,
}

impl<B> Service<Request<B>> for ConnectionService
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<axum::BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let place = Arc::clone(&self.place);
        request.extensions_mut().insert(Arc::clone(&place));
        let id = RequestId::of(request.headers_mut());
        let answer = self.router.call(request);
        Box::pin(async move {
            let mut response = match timeout(REQUEST_MAX, answer).await {
                Ok(answer) => answer?,
                Err(_) => {
                    let message = format!("not answered within {REQUEST_MAX:?}");
                    Problem::new(ProblemKind::Unavailable, message).into_response()
                }
            };
            id.add_to(&mut response);
            let refused = response.status() == StatusCode::UNAUTHORIZED;
            if refused || !place.is_keyed() {
                // Its place is for others.
                let close = HeaderValue::from_static("close");
                response.headers_mut().insert(header::CONNECTION, close);
            }
            Ok(response)
        })
    }
}
