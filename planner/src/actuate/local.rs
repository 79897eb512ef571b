//! Reads and changes cores over HTTP, backend by backend: `GET` and `PUT {"cores": 4.0}` at the
//! variant's `resize` address, answered with `{"cores": 4.0, …}`, what is then in force. Bounded in
//! time and size; a change counts once it is confirmed.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_api::Cores;

use super::{Actuate, ActuateError, Resize};

/// Largest answer of a backend.
pub const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Changes the cores of real backends.
#[derive(Debug, Clone)]
pub struct Local {
    http: reqwest::Client,
    addresses: Vec<Option<reqwest::Url>>,
    timeout: Duration,
}

/// Reads the cores of real backends and cannot change them.
#[derive(Debug, Clone)]
pub struct Advisory(Local);

#[derive(Debug, Serialize, Deserialize)]
struct Resources {
    cores: Cores,
}

impl Local {
    /// One address for each variant, in their order.
    pub fn new(
        http: reqwest::Client,
        addresses: Vec<Option<reqwest::Url>>,
        timeout: Duration,
    ) -> Local {
        Local {
            http,
            addresses,
            timeout,
        }
    }

    /// The same without the means to act.
    pub fn advisory(self) -> Advisory {
        Advisory(self)
    }

    async fn ask(self, address: reqwest::Url, cores: Option<Cores>) -> Result<Cores, ActuateError> {
        let request = match cores {
            None => self.http.get(address),
            Some(cores) => self.http.put(address).json(&Resources { cores }),
        };
        let answer = tokio::time::timeout(self.timeout, answer(request));
        answer
            .await
            .unwrap_or(Err(ActuateError::Timeout(self.timeout)))
    }
}

impl Actuate for Local {
    async fn cores(&self) -> Vec<Option<Result<Cores, ActuateError>>> {
        let ask = |address: &Option<reqwest::Url>| {
            address
                .clone()
                .map(|address| tokio::spawn(self.clone().ask(address, None)))
        };
        let asked: Vec<_> = self.addresses.iter().map(ask).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for asked in asked {
            answers.push(match asked {
                Some(asked) => Some(asked.await.unwrap_or_else(|error| Err(broken(&error)))),
                None => None,
            });
        }
        answers
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Cores, ActuateError>> {
        let ask = |change: &Resize| {
            let address = self.addresses.get(change.variant).cloned().flatten();
            address.map(|address| tokio::spawn(self.clone().ask(address, Some(change.cores))))
        };
        let asked: Vec<_> = changes.iter().map(ask).collect();
        let mut answers = Vec::with_capacity(asked.len());
        for asked in asked {
            answers.push(match asked {
                Some(asked) => asked.await.unwrap_or_else(|error| Err(broken(&error))),
                None => Err(ActuateError::NoAddress),
            });
        }
        answers
    }
}

impl Actuate for Advisory {
    async fn cores(&self) -> Vec<Option<Result<Cores, ActuateError>>> {
        self.0.cores().await
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Cores, ActuateError>> {
        changes
            .iter()
            .map(|_| Err(ActuateError::Advisory))
            .collect()
    }
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Cores, ActuateError> {
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
    let resources: Resources =
        serde_json::from_slice(&body).map_err(|error| ActuateError::Answer(error.to_string()))?;
    Ok(resources.cores)
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
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::Router;
    use axum::http::StatusCode;
    use axum::routing::get;

    use super::*;

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
        let url = |text: &&str| (!text.is_empty()).then(|| text.parse().unwrap());
        Local::new(http, addresses.iter().map(url).collect(), TIMEOUT)
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
            let answers = local(&[&format!("{base}{path}")]).cores().await;
            let error = answers[0].clone().unwrap().unwrap_err();
            assert!(error.to_string().contains(says), "{path}: {error}");
            assert_eq!(error.leaves_doubt(), *doubt, "{path}");
        }
        let answers = local(&[&nobody, &format!("{base}/good"), ""]).cores().await;
        assert!(
            matches!(answers[0], Some(Err(ActuateError::Unreachable(_)))),
            "{answers:?}"
        );
        assert_eq!(answers[1], Some(Ok(Cores::from_millis(2500))));
        assert_eq!(answers[2], None);
    }

    #[tokio::test]
    async fn changes_are_confirmed_in_order_and_advisory_asks_for_none() {
        let (base, changes) = backends().await;
        let local = local(&["", &format!("{base}/good")]);
        let change = |variant, cores| Resize {
            variant,
            cores: Cores::whole(cores),
        };
        let wishes = [change(1, 4), change(0, 1), change(7, 1)];
        let none = Err(ActuateError::NoAddress);
        assert_eq!(
            local.resize(&wishes).await,
            [Ok(Cores::whole(4)), none.clone(), none]
        );
        assert_eq!(changes.load(Ordering::SeqCst), 1);
        let advisory = local.advisory();
        assert_eq!(
            advisory.cores().await[1],
            Some(Ok(Cores::from_millis(2500)))
        );
        assert_eq!(
            advisory.resize(&wishes).await,
            vec![Err(ActuateError::Advisory); 3]
        );
        assert_eq!(changes.load(Ordering::SeqCst), 1, "nothing was asked for");
    }
}
