//! Connections: how many, how long a request's head may take, and how they end. It never looks into
//! a request.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Most connections: one for each poll that may be held, and some for people and Prometheus. Further
/// ones wait until one ends.
pub const CONNECTIONS_MAX: usize = super::POLLS_MAX + 256;
/// Longest that a request's head may take, and longest that a connection may idle.
pub const HEAD_MAX: Duration = Duration::from_secs(30);
/// Largest head of a request, in bytes: any poll fits 20 times.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long open connections have to end once the planner is to.
pub const GRACE: Duration = Duration::from_secs(1);
/// The pause after a connection could not be accepted (no descriptor left, most likely).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

// A connection is not taken for idle while its poll is held.
const _: () = assert!(HEAD_MAX.as_secs() > super::HOLD.as_secs());

/// Answers on `listener` until `stop`, on at most `connections_max` at a time; then lets what is open
/// end for [`GRACE`].
pub async fn answer(
    listener: TcpListener,
    router: Router,
    connections_max: usize,
    mut stop: watch::Receiver<bool>,
) {
    let mut builder = Builder::new(TokioExecutor::new()).http1_only();
    let timer = TokioTimer::new();
    builder
        .http1()
        .timer(timer)
        .header_read_timeout(HEAD_MAX)
        .max_buf_size(HEAD_BYTES_MAX);
    let graceful = GracefulShutdown::new();
    let places = Arc::new(Semaphore::new(connections_max));
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stop.wait_for(|stop| *stop) => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let Some((stream, place)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = builder
            .serve_connection(TokioIo::new(stream), service)
            .into_owned();
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that hangs up is its own affair.
            let _ = connection.await;
            drop(place);
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(GRACE, graceful.shutdown()).await;
}

type Accepted = (tokio::net::TcpStream, tokio::sync::OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> Option<Accepted> {
    let place = Arc::clone(places).acquire_owned().await.ok()?;
    let (stream, _) = listener.accept().await.ok()?;
    // Answers are small and wanted at once.
    let _ = stream.set_nodelay(true);
    Some((stream, place))
}
