//! A fake proxy: serves the arrival counter that a planner scrapes from Envoy, and nothing more.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::extract::State;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::time::Instant;

/// A proxy of one service; it answers until its runtime ends.
#[derive(Debug, Clone)]
pub struct Proxy {
    service: &'static str,
    address: SocketAddr,
    counted: Arc<Mutex<Counted>>,
}

#[derive(Debug)]
struct Counted {
    rate_rps: f64,
    since: Instant,
    total: f64,
}

impl Counted {
    fn until_now(&mut self) -> f64 {
        self.total += self.rate_rps * self.since.elapsed().as_secs_f64();
        self.since = Instant::now();
        self.total
    }
}

impl Proxy {
    /// Starts a proxy of the service `demo` without any arrivals.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn start() -> anyhow::Result<Proxy> {
        Proxy::start_of("demo").await
    }

    /// Starts a proxy of that service without any arrivals.
    ///
    /// # Errors
    ///
    /// There is no free port.
    pub async fn start_of(service: &'static str) -> anyhow::Result<Proxy> {
        let counted = Counted {
            rate_rps: 0.0,
            since: Instant::now(),
            total: 0.0,
        };
        let listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await?;
        let proxy = Proxy {
            service,
            address: listener.local_addr()?,
            counted: Arc::new(Mutex::new(counted)),
        };
        let router = Router::new()
            .route("/stats/prometheus", get(stats))
            .with_state(proxy.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        Ok(proxy)
    }

    /// URL of its statistics.
    pub fn url(&self) -> String {
        format!("http://{}/stats/prometheus", self.address)
    }

    /// Its statistics.
    pub fn text(&self) -> String {
        let total = self.counted().until_now().round();
        let name = format!("weir_arrivals_total__service__{}", self.service);
        format!("# TYPE {name} counter\n{name}{{}} {total}\n")
    }

    /// Sets the arrival rate from now on.
    pub fn load(&self, rate_rps: f64) {
        let mut counted = self.counted();
        counted.until_now();
        counted.rate_rps = rate_rps;
    }

    fn counted(&self) -> std::sync::MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn stats(State(proxy): State<Proxy>) -> String {
    proxy.text()
}
