//! Tests of the endpoints over real HTTP on free ports.

mod authentication;
mod creations;
mod description;
mod events;
mod health;
mod history;
mod leaders;
mod modes;
mod proxies;
mod replays;
mod server;
mod solves;
mod specifications;
mod status;
mod tls;

use std::net::SocketAddr;

use reqwest::{Client, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use weir_api::{Plan, Revision};

use super::*;
use crate::capacity::Allocation;
use crate::distribution::{AFTER_MAX, Publishers};
use crate::spec::tests::service;
use crate::telemetry::status::{CYCLES_MAX, Status};

const KEY: &str = "secret-key";
/// Hold time of polls that must not end by themselves.
const LONG: Duration = Duration::from_secs(60);
/// Maximum time that a test waits for a condition, and the interval between checks of it.
const PATIENCE: Duration = Duration::from_secs(30);
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// Settings of the endpoints in a test.
struct Setup {
    hold: Duration,
    polls_max: usize,
    keys: String,
    limits: ServerLimits,
    leadership: Leadership,
    replay: Option<ReplayRunner>,
    /// Folder of service files.
    folder: Option<std::path::PathBuf>,
}

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            hold: LONG,
            polls_max: 64,
            keys: KEY.to_owned(),
            limits: ServerLimits::default(),
            leadership: Leadership::alone(),
            replay: None,
            folder: None,
        }
    }
}

struct Endpoints {
    app: Arc<App>,
    handle: Arc<ServiceHandle>,
    address: SocketAddr,
    stop: watch::Sender<bool>,
    serving: tokio::task::JoinHandle<()>,
    client: Client,
}

impl Endpoints {
    async fn open(hold: Duration, polls_max: usize) -> Endpoints {
        Endpoints::with(Setup {
            hold,
            polls_max,
            ..Setup::default()
        })
        .await
    }

    async fn with(setup: Setup) -> Endpoints {
        let (hold, polls_max) = (setup.hold, setup.polls_max);
        let (stop, stopped) = watch::channel(false);
        let clock = Clock::start();
        let publishers = Arc::new(Publishers::new(&service(8)));
        let handle = Arc::new(ServiceHandle::with_publishers(service(8), publishers).unwrap());
        let services = Arc::new(ServiceRegistry::single(Arc::clone(&handle)));
        let keys = Arc::new(Reloaded::fixed(Keys::parse(&setup.keys).unwrap()));
        let app = Arc::new(App {
            catalog: creations::catalog(setup.folder, &services, clock),
            hold,
            polls: Semaphore::new(polls_max),
            polls_max,
            leadership: setup.leadership,
            replay_runner: setup.replay,
            ..App::new(services, Arc::clone(&keys), clock, stopped.clone()).unwrap()
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = Endpoint {
            listener,
            keys,
            tls: None,
        };
        let serving = tokio::spawn(endpoint.answer(Arc::clone(&app), setup.limits, stopped));
        let timed = Arc::clone(&handle.publishers);
        tokio::spawn(async move { timed.run_ticks(clock).await });
        let client = Client::builder().no_proxy().timeout(LONG).build().unwrap();
        Endpoints {
            app,
            handle,
            address,
            stop,
            serving,
            client,
        }
    }

    fn publish(&self, cores: u32) -> Revision {
        let allocations = [cores, 1].map(|n| Allocation::one(weir_api::Cores::whole(n)));
        let draft = crate::plan::draft(&self.handle.service, &allocations, None).unwrap();
        self.handle
            .publishers
            .entry()
            .publish(draft, self.app.clock.now())
            .unwrap()
            .revision
    }

    async fn get(&self, path: &str) -> Response {
        self.client
            .get(format!("http://{}{path}", self.address))
            .send()
            .await
            .unwrap()
    }

    async fn poll(&self, query: &str) -> Response {
        self.with_key(&format!("/v1/plans/demo{query}")).await
    }

    async fn status(&self, query: &str) -> Response {
        self.with_key(&format!("/v1/services/demo{query}")).await
    }

    async fn with_key(&self, path: &str) -> Response {
        let url = format!("http://{}{path}", self.address);
        self.client.get(url).bearer_auth(KEY).send().await.unwrap()
    }

    fn poll_beside(&self, query: String) -> tokio::task::JoinHandle<Response> {
        let url = format!("http://{}/v1/plans/demo{query}", self.address);
        let request = self.client.get(url).bearer_auth(KEY);
        tokio::spawn(async move { request.send().await.unwrap() })
    }

    /// Waits until that many polls are held.
    async fn until_held(&self, polls: usize) {
        let what = format!("{polls} held polls");
        until(&what, async || self.app.waiting() == polls).await;
    }
}

/// Checks again and again until the condition holds, for [`PATIENCE`] at most.
async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    };
    let held = tokio::time::timeout(PATIENCE, holds).await;
    assert!(held.is_ok(), "waited in vain for {what}");
}

async fn plan(response: Response) -> Plan {
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["content-type"], "application/json");
    let plan: Plan = response.json().await.unwrap();
    assert_eq!(plan.check(), Ok(()));
    plan
}

/// Returns the problem document of a refused request, and checks what all of them have.
async fn problem(response: Response) -> Value {
    let status = response.status().as_u16();
    let headers = response.headers().clone();
    assert_eq!(headers["content-type"], "application/problem+json");
    let json: Value = response.json().await.unwrap();
    assert_eq!(json["status"], status);
    assert_eq!(
        json["request_id"],
        headers["x-request-id"].to_str().unwrap()
    );
    let kind = json["type"].as_str().unwrap();
    assert!(kind.starts_with("urn:problem-type:weir:"), "{kind}");
    json
}

async fn error(response: Response, status: u16) -> String {
    assert_eq!(response.status(), status);
    problem(response).await["detail"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[tokio::test]
async fn existing_plan_is_returned_at_once_and_newer_plan_wakes_all_polls() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let first = endpoints.publish(1);
    for query in [
        "",
        "?after=0",
        "?after=5&proxy=envoy-1&incarnation=7&workers=2&role=both&novelty=x",
    ] {
        assert_eq!(
            plan(endpoints.poll(query).await).await.revision,
            first,
            "{query}"
        );
    }
    let waiting: Vec<_> = (0..32)
        .map(|_| endpoints.poll_beside(format!("?after={first}")))
        .collect();
    endpoints.until_held(32).await;
    let second = endpoints.publish(2);
    assert!(second > first);
    for poll in waiting {
        assert_eq!(plan(poll.await.unwrap()).await.revision, second);
    }
    endpoints.until_held(0).await;
}

#[tokio::test]
async fn first_plan_answers_earlier_polls() {
    let endpoints = Endpoints::open(LONG, 64).await;
    assert_eq!(
        error(endpoints.get("/readyz").await, 503).await,
        "no plan is published yet"
    );
    assert_eq!(
        endpoints.get("/healthz").await.text().await.unwrap(),
        "ok\n"
    );
    let early = endpoints.poll_beside(String::new());
    endpoints.until_held(1).await;
    let first = endpoints.publish(1);
    assert_eq!(plan(early.await.unwrap()).await.revision, first);
    assert_eq!(endpoints.get("/readyz").await.status(), 200);
}

#[tokio::test]
async fn poll_without_newer_plan_returns_204_after_hold() {
    let endpoints = Endpoints::open(Duration::from_millis(50), 64).await;
    let first = endpoints.publish(1);
    let begin = tokio::time::Instant::now();
    assert_eq!(
        endpoints.poll(&format!("?after={first}")).await.status(),
        204
    );
    assert!(begin.elapsed() >= Duration::from_millis(50), "it was held");
}

#[tokio::test]
async fn requests_without_key_are_refused() {
    let endpoints = Endpoints::open(LONG, 64).await;
    endpoints.publish(1);
    let url = |path: &str| format!("http://{}{path}", endpoints.address);
    for path in [
        "/v1/plans/demo",
        "/v1/plans/other",
        "/v1/plans/demo?after=nonsense",
        "/v1/services/demo",
        "/v1/services/other",
        "/v1/services/demo?cycles=nonsense",
    ] {
        for value in [
            None,
            Some(""),
            Some("Bearer"),
            Some("Bearer wrong-key"),
            Some("Basic secret-key"),
            Some(KEY),
        ] {
            let mut request = endpoints.client.get(url(path));
            if let Some(value) = value {
                request = request.header("authorization", value);
            }
            let refused = error(request.send().await.unwrap(), 401).await;
            assert!(refused.contains("Bearer"), "{path} {value:?}: {refused}");
        }
    }
    for path in ["/v1/plans/demo", "/v1/services/demo"] {
        let lower = endpoints
            .client
            .get(url(path))
            .header("authorization", "bearer secret-key");
        assert_eq!(lower.send().await.unwrap().status(), 200);
    }
    // The endpoints for probes and Prometheus need no key.
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(endpoints.get(path).await.status(), 200);
    }
}

#[tokio::test]
async fn invalid_poll_is_refused_with_reason() {
    let endpoints = Endpoints::open(LONG, 64).await;
    endpoints.publish(1);
    let long = format!("?proxy={}", "p".repeat(257));
    let beyond = format!("?after={}", AFTER_MAX.0 + 1);
    for (query, expected) in [
        ("?after=-1", "after: '-1' must be a whole number from 0 to"),
        (&beyond, "after: '4503599627370496' must be"),
        (
            "?workers=5000",
            "workers: '5000' must be a whole number from 0 to 4096",
        ),
        ("?role=king", "role: 'king' must be router, gate or both"),
        ("?incarnation=0x7", "incarnation: '0x7' must be"),
        ("?proxy=", "proxy: '' (0 bytes) must be 1 to 256"),
        ("?after=1&after=2", "after"),
        (&long, "(257 bytes) must be 1 to 256 bytes"),
    ] {
        let refused = error(endpoints.poll(query).await, 400).await;
        assert!(
            refused.contains(expected),
            "{query}: '{refused}' does not say '{expected}'"
        );
    }
    let other = endpoints
        .client
        .get(format!("http://{}/v1/plans/other", endpoints.address))
        .bearer_auth(KEY);
    let refused = error(other.send().await.unwrap(), 404).await;
    assert!(refused.contains("'other'"), "{refused}");
    assert_eq!(error(endpoints.get("/v2").await, 404).await, "no such path");
    let post = endpoints
        .client
        .post(format!("http://{}/readyz", endpoints.address))
        .send()
        .await
        .unwrap();
    assert_eq!(
        error(post, 405).await,
        "this path takes another method; /v1/openapi.json lists them"
    );
}

#[tokio::test]
async fn proxy_with_higher_revision_gets_plan_above_it_at_once() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let first = endpoints.publish(1);
    let level = endpoints.poll_beside(format!("?after={first}"));
    endpoints.until_held(1).await;
    let ahead = first.0 + 1_000_000;
    let answer = plan(endpoints.poll(&format!("?after={ahead}")).await).await;
    assert_eq!(answer.revision, Revision(ahead + 1));
    assert_eq!(
        plan(level.await.unwrap()).await.revision,
        Revision(ahead + 1),
        "all hear of it"
    );
    // The highest revision that can be reported still leaves room above it.
    let answer = plan(endpoints.poll(&format!("?after={AFTER_MAX}")).await).await;
    assert_eq!(answer.revision, Revision(AFTER_MAX.0 + 1));
}

#[tokio::test]
async fn polls_beyond_limit_get_retry_after() {
    let endpoints = Endpoints::open(LONG, 2).await;
    let first = endpoints.publish(1);
    let held: Vec<_> = (0..2)
        .map(|_| endpoints.poll_beside(format!("?after={first}")))
        .collect();
    endpoints.until_held(2).await;
    let full = endpoints.poll(&format!("?after={first}")).await;
    assert_eq!(full.headers()["retry-after"], "1");
    assert_eq!(
        error(full, 503).await,
        "2 polls wait already, no more are held"
    );
    // A disconnected poll frees its permit.
    held[0].abort();
    endpoints.until_held(1).await;
    let next = endpoints.poll_beside(format!("?after={first}"));
    endpoints.until_held(2).await;
    let second = endpoints.publish(2);
    assert_eq!(plan(next.await.unwrap()).await.revision, second);
}
