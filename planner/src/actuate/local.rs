//! Reads and changes cores over HTTP, backend by backend: `GET` and `PUT {"cores": 4.0}` at the
//! variant's `resize` address, answered with `{"cores": 4.0, …}`, what is then in force. Bounded in
//! time and size; a change counts once it is confirmed. One without an answer may come to be in force later: both
//! are counted with until the backend says so, or has answered another, for a minute at most.
//!
//! A variant of several replicas has them behind that one address: `{"cores": 4.0, "parallelism": 2}`
//! are the cores of all together, dealt out evenly, and how many there are.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;
use weir_api::Cores;

use super::{Actuate, ActuateError, Allocation, Doubts, InForce, Resize};
use crate::kube::replace::Kept;

/// Largest answer of a backend.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// From a change without an answer until it is not expected any more.
const DOUBT_MAX: Duration = Duration::from_secs(60);

/// Changes the cores of real backends.
#[derive(Debug, Clone)]
pub struct Local {
    http: reqwest::Client,
    backends: Vec<Backend>,
    timeout: Duration,
    doubts: Arc<Mutex<ByVariant>>,
}

type ByVariant = BTreeMap<usize, Doubts<Instant>>;

/// Where a variant's cores are read and changed.
#[derive(Debug, Clone)]
pub struct Backend {
    /// `None` where they cannot be.
    pub address: Option<reqwest::Url>,
    /// Whether it may have several replicas.
    pub replicated: bool,
}

/// Reads the cores of real backends and cannot change them.
#[derive(Debug, Clone)]
pub struct Advisory(Local);

#[derive(Debug, Serialize, Deserialize)]
struct Resources {
    cores: Cores,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parallelism: Option<NonZeroU32>,
}

impl Local {
    /// One backend for each variant, in their order.
    pub fn new(http: reqwest::Client, backends: Vec<Backend>, timeout: Duration) -> Local {
        Local {
            http,
            backends,
            timeout,
            doubts: Arc::default(),
        }
    }

    /// The same without the means to act.
    pub fn advisory(self) -> Advisory {
        Advisory(self)
    }

    fn doubts(&self) -> MutexGuard<'_, ByVariant> {
        self.doubts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// With what it may come to have besides.
    fn with_doubt(&self, variant: usize, there: InForce) -> InForce {
        let mut doubts = self.doubts();
        match doubts.get_mut(&variant) {
            Some(doubts) => doubts.with(there, Instant::now()),
            None => there,
        }
    }

    /// Begins to ask that backend, or to have it change; `None` where it has no address.
    fn ask(&self, backend: &Backend, change: Option<&Resize>) -> Option<Asked> {
        let address = backend.address.clone()?;
        let request = match change {
            None => self.http.get(address),
            Some(change) => self.http.put(address).json(&Resources {
                cores: change.cores(),
                parallelism: NonZeroU32::new(change.goal.replicas).filter(|_| backend.replicated),
            }),
        };
        let (timeout, replicated) = (self.timeout, backend.replicated);
        Some(tokio::spawn(async move {
            let answer = tokio::time::timeout(timeout, answer(request)).await;
            let resources = answer.unwrap_or(Err(ActuateError::Timeout(timeout)))?;
            Ok(resources.in_force(replicated))
        }))
    }
}

type Asked = tokio::task::JoinHandle<Result<InForce, ActuateError>>;

async fn answered(asked: Asked) -> Result<InForce, ActuateError> {
    asked.await.unwrap_or_else(|error| Err(broken(&error)))
}

impl Resources {
    fn in_force(&self, replicated: bool) -> InForce {
        let replicas = self.parallelism.filter(|_| replicated);
        let replicas = replicas.map_or(1, NonZeroU32::get);
        let each = Cores::from_millis(self.cores.millis() / replicas);
        InForce {
            at_most: self.cores,
            ..InForce::certain(Allocation::new(replicas, each))
        }
    }
}

impl Actuate for Local {
    async fn in_force(&self) -> Vec<Option<Result<InForce, ActuateError>>> {
        let asked: Vec<Option<Asked>> = self.backends.iter().map(|b| self.ask(b, None)).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (variant, asked) in asked.into_iter().enumerate() {
            answers.push(match asked {
                Some(asked) => {
                    let there = answered(asked).await;
                    Some(there.map(|there| self.with_doubt(variant, there)))
                }
                None => None,
            });
        }
        answers
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<InForce, ActuateError>> {
        let ask = |change: &Resize| {
            let backend = self.backends.get(change.variant)?;
            self.ask(backend, Some(change))
        };
        let asked: Vec<Option<Asked>> = changes.iter().map(ask).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for (change, asked) in changes.iter().zip(asked) {
            let answer = match asked {
                Some(asked) => answered(asked).await,
                None => Err(ActuateError::NoAddress),
            };
            match &answer {
                Ok(_) => self.doubts().entry(change.variant).or_default().clear(),
                Err(error) if error.leaves_doubt() => {
                    let until = Instant::now() + DOUBT_MAX;
                    let mut doubts = self.doubts();
                    doubts.entry(change.variant).or_default().add(change, until);
                }
                Err(_) => {}
            }
            answers.push(answer);
        }
        answers
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<InForce, Kept>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<InForce, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

impl Actuate for Advisory {
    async fn in_force(&self) -> Vec<Option<Result<InForce, ActuateError>>> {
        self.0.in_force().await
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<InForce, ActuateError>> {
        changes
            .iter()
            .map(|_| Err(ActuateError::Advisory))
            .collect()
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<InForce, Kept>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<InForce, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Resources, ActuateError> {
    let mut answer = request.send().await.map_err(|error| unreachable(&error))?;
    let mut body = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| unreachable(&error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(ActuateError::Answer(format!(
                "more than {ANSWER_BYTES_MAX} bytes"
            )));
        }
        body.extend_from_slice(&chunk);
    }
    if answer.status() != reqwest::StatusCode::OK {
        let beginning: String = String::from_utf8_lossy(&body).chars().take(200).collect();
        return Err(ActuateError::Status(answer.status().as_u16(), beginning));
    }
    serde_json::from_slice(&body).map_err(|error| ActuateError::Answer(error.to_string()))
}

fn unreachable(error: &reqwest::Error) -> ActuateError {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    ActuateError::Unreachable(cause.to_string())
}

fn broken(error: &tokio::task::JoinError) -> ActuateError {
    ActuateError::Unreachable(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;
    use crate::actuate::Goal;

    const TIMEOUT: Duration = Duration::from_millis(200);

    /// Backends that answer in every way but one wrongly; counts the changes asked for.
    async fn backends() -> (String, Arc<AtomicU32>) {
        let changes = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&changes);
        let changed = move |body: String| async move {
            counted.fetch_add(1, Ordering::SeqCst);
            body
        };
        let router = Router::new()
            .route(
                "/good",
                get(|| async { r#"{"cores":2.5,"parallelism":null}"# }).put(changed),
            )
            .route(
                "/replicas",
                get(|| async { r#"{"cores":5,"parallelism":2}"# })
                    .put(|body: String| async { body }),
            )
            .route(
                "/refusing",
                get(|| async { (StatusCode::CONFLICT, "Deferred") }),
            )
            .route("/garbage", get(|| async { "ready" }))
            .route("/negative", get(|| async { r#"{"cores":-1}"# }))
            .route("/vast", get(|| async { " ".repeat(ANSWER_BYTES_MAX + 1) }))
            .route("/silent", get(std::future::pending::<&str>));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (format!("http://{address}"), changes)
    }

    fn local(addresses: &[&str]) -> Local {
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let backend = |text: &&str| Backend {
            address: (!text.is_empty()).then(|| text.parse().unwrap()),
            replicated: text.ends_with("/replicas"),
        };
        Local::new(http, addresses.iter().map(backend).collect(), TIMEOUT)
    }

    #[tokio::test]
    async fn what_is_no_answer_is_an_error_and_says_whether_it_leaves_doubt() {
        let (base, _) = backends().await;
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let nobody = format!("http://{port}/");
        let table: &[(&str, &str, bool)] = &[
            ("/refusing", "status 409, not 200: Deferred", false),
            ("/garbage", "does not say the cores in force", true),
            ("/negative", "cores must be a number from 0", true),
            ("/vast", "more than 65536 bytes", true),
            ("/silent", "no answer within 200ms", true),
        ];
        for (path, says, doubt) in table {
            let answers = local(&[&format!("{base}{path}")]).in_force().await;
            let error = answers[0].clone().unwrap().unwrap_err();
            assert!(error.to_string().contains(says), "{path}: {error}");
            assert_eq!(error.leaves_doubt(), *doubt, "{path}");
        }
        let answers = local(&[&nobody, &format!("{base}/good"), ""])
            .in_force()
            .await;
        assert!(
            matches!(answers[0], Some(Err(ActuateError::Unreachable(_)))),
            "{answers:?}"
        );
        assert_eq!(answers[1], Some(Ok(one(2500))));
        assert_eq!(answers[2], None);
    }

    fn one(millis: u32) -> InForce {
        InForce::certain(Allocation::one(Cores::from_millis(millis)))
    }

    #[tokio::test]
    async fn several_replicas_are_their_cores_and_how_many() {
        let (base, _) = backends().await;
        let local = local(&[&format!("{base}/replicas")]);
        let each = Cores::from_millis(2500);
        let there = InForce::certain(Allocation::new(2, each));
        assert_eq!(local.in_force().await, [Some(Ok(there))]);
        let goal = Goal {
            replicas: 4,
            each,
            start: Cores::whole(1),
        };
        let change = Resize {
            variant: 0,
            goal,
            ready: there.ready,
            bound: false,
        };
        // Two keep 2.5 cores, two start with one: dealt out evenly 1.75 each.
        let dealt = Allocation::new(4, Cores::from_millis(1750));
        assert_eq!(local.resize(&[change]).await, [Ok(InForce::certain(dealt))]);
    }

    #[tokio::test]
    async fn changes_are_confirmed_in_order_and_advisory_asks_for_none() {
        let (base, changes) = backends().await;
        let local = local(&["", &format!("{base}/good")]);
        let change = |variant, cores| Resize {
            variant,
            goal: Goal::one(Cores::whole(cores)),
            ready: Allocation::NONE,
            bound: false,
        };
        let wishes = [change(1, 4), change(0, 1), change(7, 1)];
        let none = Err(ActuateError::NoAddress);
        assert_eq!(
            local.resize(&wishes).await,
            [Ok(one(4000)), none.clone(), none]
        );
        assert_eq!(changes.load(Ordering::SeqCst), 1);
        let advisory = local.advisory();
        assert_eq!(advisory.in_force().await[1], Some(Ok(one(2500))));
        assert_eq!(
            advisory.resize(&wishes).await,
            vec![Err(ActuateError::Advisory); 3]
        );
        assert_eq!(changes.load(Ordering::SeqCst), 1, "nothing was asked for");
    }

    #[tokio::test]
    async fn a_change_without_an_answer_is_reckoned_with_until_it_comes() {
        let cores = Arc::new(AtomicU32::new(2));
        let told = Arc::clone(&cores);
        let says = move || async move { format!("{{\"cores\":{}}}", told.load(Ordering::SeqCst)) };
        let late = get(says).put(std::future::pending::<&str>);
        let router = Router::new().route("/late", late);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        let local = local(&[&format!("http://{address}/late")]);
        let one = |cores| Allocation::one(Cores::whole(cores));
        let now = async || local.in_force().await.remove(0).unwrap().unwrap();
        assert_eq!(now().await, InForce::certain(one(2)));
        for (asked, fewest, most) in [(4, 2, 4), (1, 1, 4)] {
            let change = Resize {
                variant: 0,
                goal: Goal::of(one(asked)),
                ready: one(2),
                bound: false,
            };
            let answer = local.resize(&[change]).await.remove(0);
            assert_eq!(answer, Err(ActuateError::Timeout(TIMEOUT)));
            let there = now().await;
            let expected = (one(fewest), Cores::whole(most));
            assert_eq!((there.ready, there.at_most), expected, "asked for {asked}");
        }
        // It comes; what was asked before that is past.
        cores.store(1, Ordering::SeqCst);
        assert_eq!(now().await, InForce::certain(one(1)));
        cores.store(2, Ordering::SeqCst);
        assert_eq!(now().await, InForce::certain(one(2)));
    }
}
