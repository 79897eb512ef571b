//! Connection to the collector, on the program's own runtime and within limits. A failure is logged once.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use tokio::runtime::Handle;
use weir_planner::error_log::ErrorLog;
use weir_planner::http::ApiClient;

use super::export::QUEUE_SPANS_MAX;

/// Maximum time of a request to the collector.
const SEND_TIME_MAX: Duration = Duration::from_secs(10);
/// Maximum size of the collector's answer, in bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// Collector of traces.
#[derive(Debug)]
pub(super) struct Collector {
    client: ApiClient,
    runtime: Handle,
    /// Name in the log.
    name: String,
    troubles: Mutex<ErrorLog>,
}

impl Collector {
    /// Creates the connection to the collector at `url`; it is opened on the current runtime.
    pub(super) fn new(client: ApiClient, url: &str) -> Collector {
        Collector {
            client,
            runtime: Handle::current(),
            name: format!("traces to {url}"),
            troubles: Mutex::default(),
        }
    }

    fn log(&self, failure: Option<&str>) {
        let mut troubles = self.troubles.lock().unwrap_or_else(PoisonError::into_inner);
        match failure {
            None => troubles.went_well(&self.name),
            Some(why) => {
                let fallback = format!(
                    "cycles go on; spans are lost, at {QUEUE_SPANS_MAX} that wait new ones too"
                );
                troubles.failed(&self.name, &why, &fallback);
            }
        }
    }
}

#[async_trait]
impl HttpClient for Collector {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // The caller is a thread without a runtime.
        let sent = self.runtime.spawn(async move {
            let sent = client.send(request, ANSWER_BYTES_MAX, SEND_TIME_MAX);
            sent.await
        });
        let answer = sent.await?;
        match &answer {
            Ok(response) if response.status().is_success() => self.log(None),
            Ok(response) => self.log(Some(&format!("status {}", response.status().as_u16()))),
            Err(why) => self.log(Some(why)),
        }
        Ok(answer?)
    }
}
