//! Connection handling: connection limit, timeout of the request head, and shutdown. Requests are not
//! inspected here.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};

/// Maximum number of connections: one for each poll that may be held, and some for people and Prometheus.
/// Further ones wait until one ends.
pub const CONNECTIONS_MAX: usize = super::POLLS_MAX + 256;
/// Timeout of a request's head, and idle timeout of a connection.
pub const HEAD_MAX: Duration = Duration::from_secs(30);
/// Maximum size of a request's head, in bytes: 20 times that of any poll.
pub const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Time in which open connections may finish on shutdown.
pub const GRACE: Duration = Duration::from_secs(1);
/// Pause after a connection could not be accepted, most likely for lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

// A connection must not count as idle while its poll is held.
const _: () = assert!(HEAD_MAX.as_secs() > super::HOLD.as_secs());

/// Serves `listener` until `stop`, on at most `connections_max` connections. Open requests then get
/// [`GRACE`] to finish.
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
            // A disconnecting client is no error of the planner.
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
    // Responses are small and must not be delayed.
    let _ = stream.set_nodelay(true);
    Some((stream, place))
}
