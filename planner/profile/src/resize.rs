//! Change of a server's cores between points.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use reqwest::Url;
use serde_json::json;

use crate::ProfileError;
use crate::cgroup::Cgroup;

/// Maximum time of an answer to a change.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

/// Answer of a [`ResizePort`].
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), ProfileError>> + Send + 'a>>;

/// Port to a server whose cores are changed while it is measured, such as a pod.
pub trait ResizePort: Debug + Send + Sync {
    /// Gives the server `cores`, and returns once it has them.
    fn set(&self, cores: f64) -> Answer<'_>;

    /// Gives the server the cores that it had at first.
    fn restore(&self) -> Answer<'_>;
}

/// Way in which a server gets its cores.
#[derive(Debug)]
pub enum Resize {
    /// Nobody changes them.
    None,
    /// CPU quota of its control group.
    Group(Cgroup),
    /// Port that another crate implements.
    Port(Box<dyn ResizePort>),
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
            Resize::Port(port) => port.set(cores).await,
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
    /// Gives the server the cores that it had at first, where they are known. May be repeated.
    ///
    /// # Errors
    /// The change is refused.
    pub async fn restore(&self) -> Result<(), ProfileError> {
        match self {
            Resize::Group(group) => group.restore(),
            Resize::Port(port) => port.restore().await,
            Resize::None | Resize::Address { .. } => Ok(()),
        }
    }

    /// Restores the server and returns the result of its measurement, with both errors if both fail.
    ///
    /// # Errors
    /// The measurement failed, or the server could not be restored.
    pub async fn restored<T>(&self, measured: Result<T, ProfileError>) -> Result<T, ProfileError> {
        match (self.restore().await, measured) {
            (Ok(()), measured) => measured,
            (Err(error), Ok(_)) => Err(error),
            // A group that nobody may write refuses both alike.
            (Err(restore), Err(measured)) if restore == measured => Err(measured),
            (Err(ProfileError(restore)), Err(ProfileError(measured))) => {
                Err(ProfileError(format!("{measured}; and {restore}")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    /// Port that records its calls; `None` stands for [`ResizePort::restore`]. It refuses more than `max` cores.
    #[derive(Debug)]
    struct Recorder {
        calls: Arc<Mutex<Vec<Option<f64>>>>,
        max: f64,
        restores: bool,
    }

    impl ResizePort for Recorder {
        fn set(&self, cores: f64) -> Answer<'_> {
            self.calls.lock().unwrap().push(Some(cores));
            let text = match cores {
                10.0 => "not restored".to_owned(),
                _ => format!("{cores} cores: too many"),
            };
            let refused = || ProfileError(text.clone());
            let answer = (cores <= self.max).then_some(()).ok_or_else(refused);
            Box::pin(async { answer })
        }

        fn restore(&self) -> Answer<'_> {
            self.calls.lock().unwrap().push(None);
            let refused = || ProfileError("not restored".to_owned());
            let answer = self.restores.then_some(()).ok_or_else(refused);
            Box::pin(async { answer })
        }
    }

    #[tokio::test]
    async fn port_is_restored_whatever_the_measurement_is() {
        for (cores, restores, expected) in [
            (2.0, true, Ok(1)),
            (9.0, true, Err("9 cores: too many")),
            (2.0, false, Err("not restored")),
            (9.0, false, Err("9 cores: too many; and not restored")),
            (10.0, false, Err("not restored")),
        ] {
            let calls = Arc::default();
            let port = Recorder {
                calls: Arc::clone(&calls),
                max: 8.0,
                restores,
            };
            let resize = Resize::Port(Box::new(port));
            let measured = resize.set(cores, 1).await.map(|()| 1);
            let result = resize.restored(measured).await;
            let expected = expected.map_err(|text| ProfileError(text.to_owned()));
            assert_eq!(result, expected);
            assert_eq!(*calls.lock().unwrap(), [Some(cores), None]);
        }
    }

    #[tokio::test]
    async fn server_that_nobody_resizes_is_left_as_it_is() {
        assert_eq!(Resize::None.set(2.0, 1).await, Ok(()));
        assert_eq!(Resize::None.restore().await, Ok(()));
    }
}
