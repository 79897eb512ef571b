//! Change of a server's cores between points.

use std::time::Duration;

use reqwest::Url;
use serde_json::json;

use crate::ProfileError;
use crate::cgroup::Cgroup;

/// Maximum time of an answer to a change.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Way in which a server gets its cores.
#[derive(Debug)]
pub enum Resize {
    /// Nobody changes them.
    None,
    /// CPU quota of its control group.
    Group(Cgroup),
    /// Address that takes `PUT {"cores": 4}`, as `resize` of a variant.
    Address {
        /// Address.
        url: Url,
        /// Whether it takes `PUT {"batch": 4}` as well.
        tell_batch: bool,
    },
}

impl Resize {
    /// Gives the server `cores`, and lets it execute up to `batch` requests together.
    ///
    /// # Errors
    /// The change is refused.
    pub async fn set(&self, cores: f64, batch: u32) -> Result<(), ProfileError> {
        match self {
            Resize::None => Ok(()),
            Resize::Group(group) => group.set(cores),
            Resize::Address { url, tell_batch } => {
                let body = match tell_batch {
                    true => json!({"cores": cores, "batch": batch}),
                    false => json!({"cores": cores}),
                };
                let failed = |why: String| ProfileError(format!("{url}: {body}: {why}"));
                let put = reqwest::Client::new()
                    .put(url.clone())
                    .body(body.to_string());
                let put = put
                    .header("content-type", "application/json")
                    .timeout(ANSWER_TIME_MAX);
                let answer = put
                    .send()
                    .await
                    .map_err(|error| failed(error.to_string()))?;
                let status = answer.status();
                match status.is_success() {
                    true => Ok(()),
                    false => Err(failed(status.to_string())),
                }
            }
        }
    }
}
