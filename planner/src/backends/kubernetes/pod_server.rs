//! Server in one container of a pod that is resized in place while it is measured, and restored at the end.
//!
//! The loop reads the pod, decides ([`decision`], pure) and acts, until the kubelet has confirmed the cores and the pod is
//! ready. Its limit must equal its request: without a limit, or with a higher one, a server uses idle cores of its node
//! beyond those that it is measured with.

mod decision;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout};
use weir_api::Cores;

use self::decision::{Next, Progress, check_limit, check_support, next};
use super::actuate::PodBlocker;
use super::api_failure::ApiFailure;
use super::patch::{self, STEP_MILLIS};
use super::pod::{ActuatedCpu, NotResizable, PodState};
use crate::quantity::format_cores;

/// Maximum time until the kubelet has confirmed a resize and the pod is ready.
pub const CONFIRM_TIME_MAX: Duration = Duration::from_secs(60);
/// Maximum time of an answer of the API server.
pub const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Pause between readings of the pod.
const READ_EVERY: Duration = Duration::from_millis(200);
/// Verbs and resources as RBAC names them.
const GET: &str = "get pods";
const RESIZE: &str = "patch pods/resize";

/// Reasons why a pod does not get its cores.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum PodServerError {
    #[error("{0}")]
    NotReadable(ApiFailure),
    #[error("{0}")]
    NotResizable(NotResizable),
    #[error("it has several containers; it must be one of pod/NAME/CONTAINER: {0}")]
    SeveralContainers(String),
    #[error(
        "its container {container} has a CPU request of {request} and {limit}; they must be equal, or the server uses more cores than it is measured with"
    )]
    Unlimited {
        container: String,
        request: Cores,
        limit: String,
    },
    #[error("{0} cores; it must be a multiple of {step}", step = Cores::from_millis(STEP_MILLIS))]
    Step(f64),
    #[error("another pod has its name now")]
    Replaced,
    #[error(
        "something else resized it to {0} cores; end that, such as a planner in mode active or a VerticalPodAutoscaler"
    )]
    OtherWriter(Cores),
    #[error("{cores} cores: {why}")]
    Blocked { cores: Cores, why: PodBlocker },
    #[error("it has {cores} cores, and was not ready within {within:?}")]
    NotReady { cores: Cores, within: Duration },
    #[error("{why}; it had {before} cores, which it gets back by: {command}")]
    NotRestored {
        why: Box<PodServerError>,
        before: Cores,
        command: String,
    },
}

/// Port to one pod; tests emulate it.
pub trait PodPort {
    /// Reads the pod.
    fn read(&self) -> impl Future<Output = Result<Pod, ApiFailure>> + Send;

    /// Patches its subresource `resize`.
    fn patch(&self, body: &Value) -> impl Future<Output = Result<(), ApiFailure>> + Send;
}

/// Pod of an API server.
#[derive(Clone)]
pub struct ApiPod {
    api: Api<Pod>,
    name: String,
}

impl ApiPod {
    /// Names a pod of a namespace.
    pub fn new(client: &kube::Client, namespace: &str, name: &str) -> ApiPod {
        ApiPod {
            api: Api::namespaced(client.clone(), namespace),
            name: name.to_owned(),
        }
    }
}

impl PodPort for ApiPod {
    async fn read(&self) -> Result<Pod, ApiFailure> {
        let read = in_time(self.api.get(&self.name), GET).await;
        read.map_err(ApiFailure::of_read)
    }

    async fn patch(&self, body: &Value) -> Result<(), ApiFailure> {
        let (params, patch) = (PatchParams::default(), Patch::Strategic(body));
        let request = self.api.patch_resize(&self.name, &params, &patch);
        in_time(request, RESIZE).await.map(drop)
    }
}

async fn in_time<T>(
    request: impl Future<Output = kube::Result<T>>,
    verb: &'static str,
) -> Result<T, ApiFailure> {
    match timeout(ANSWER_TIME_MAX, request).await {
        Ok(answer) => answer.map_err(|error| ApiFailure::of(&error, verb)),
        Err(_) => Err(ApiFailure::Unreachable {
            why: format!("not within {ANSWER_TIME_MAX:?}"),
            indeterminate: true,
        }),
    }
}

/// Server in a container of a pod.
#[derive(Debug)]
pub struct PodServer<P = ApiPod> {
    port: P,
    name: String,
    namespace: String,
    container: String,
    uid: String,
    before: Cores,
    /// Requests that the pod may have by this program's patches.
    possible: Mutex<Vec<Cores>>,
    within: Duration,
}

impl std::fmt::Debug for ApiPod {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "pod {}", self.name)
    }
}

impl<P: PodPort> PodServer<P> {
    /// Reads the pod; `container` may be left out if it has one. A change may take up to `within`.
    ///
    /// # Errors
    /// It cannot be read, can never be resized, or its limit is not its request.
    pub async fn open(
        port: P,
        container: Option<&str>,
        within: Duration,
    ) -> Result<PodServer<P>, PodServerError> {
        let pod = port.read().await.map_err(PodServerError::NotReadable)?;
        let container = match container {
            Some(container) => container.to_owned(),
            None => only_container(&pod)?,
        };
        let state = PodState::of(&pod, &container).map_err(PodServerError::NotResizable)?;
        let before = state.desired.request;
        check_limit(&state)?;
        check_support(&state)?;
        Ok(PodServer {
            port,
            name: state.name,
            namespace: pod.metadata.namespace.unwrap_or_default(),
            container,
            uid: state.uid,
            before,
            possible: Mutex::new(vec![before]),
            within,
        })
    }

    /// Returns the cores that it had at first.
    pub fn before(&self) -> Cores {
        self.before
    }

    /// Gives it `cores`, and returns once its kubelet has confirmed them and it is ready.
    ///
    /// # Errors
    /// The node has no capacity for them now or ever, the kubelet has not confirmed them in time, something else
    /// resizes the pod, or the API server refuses it.
    pub async fn set(&self, cores: f64) -> Result<(), PodServerError> {
        self.resize(exact(cores)?).await
    }

    /// Gives it the cores that it had at first.
    ///
    /// # Errors
    /// As of [`PodServer::set`]; the message says how to restore it by hand.
    pub async fn restore(&self) -> Result<(), PodServerError> {
        let restored = self.resize(self.before).await;
        restored.map_err(|why| PodServerError::NotRestored {
            why: Box::new(why),
            before: self.before,
            command: self.command(),
        })
    }

    async fn resize(&self, target: Cores) -> Result<(), PodServerError> {
        let start = Instant::now();
        let mut progress = Progress::default();
        loop {
            let pause = match self.step(target, &mut progress).await? {
                Reading::Done => {
                    *self.possible() = vec![target];
                    return Ok(());
                }
                Reading::Wait => READ_EVERY,
                Reading::Failed(ApiFailure::Throttled { after }) => after.max(READ_EVERY),
                Reading::Failed(_) => READ_EVERY,
            };
            if start.elapsed() + pause >= self.within {
                return Err(self.late(target, progress));
            }
            sleep(pause).await;
        }
    }

    /// Reads the pod, and patches it if it has other cores.
    async fn step(
        &self,
        target: Cores,
        progress: &mut Progress,
    ) -> Result<Reading, PodServerError> {
        let of = |failure: ApiFailure, progress: &mut Progress| {
            if !may_pass(&failure) {
                let why = PodBlocker::Refused(failure);
                return Err(PodServerError::Blocked { cores: target, why });
            }
            progress.failure = Some(failure.clone());
            Ok(Reading::Failed(failure))
        };
        let pod = match self.port.read().await {
            Ok(pod) => pod,
            Err(failure) => return of(failure, progress),
        };
        let pod = PodState::of(&pod, &self.container).map_err(PodServerError::NotResizable)?;
        if pod.uid != self.uid {
            return Err(PodServerError::Replaced);
        }
        let possible = self.possible().clone();
        let next = next(&pod, target, &possible, progress)?;
        progress.failure = None;
        let is_requested = pod.desired.request == target;
        progress.confirmed = is_requested && pod.actual == ActuatedCpu::Has(pod.desired);
        let change = match next {
            Next::Done => return Ok(Reading::Done),
            Next::Wait => return Ok(Reading::Wait),
            Next::Patch(change) => change,
        };
        // It may be carried out though this program hears no answer.
        self.possible().push(target);
        progress.stale = Some(pod.resizing.clone());
        match self.port.patch(&change.body(&pod)).await {
            Ok(()) => {
                progress.accepted = true;
                Ok(Reading::Wait)
            }
            Err(failure) => of(failure, progress),
        }
    }

    fn late(&self, cores: Cores, progress: Progress) -> PodServerError {
        let within = self.within;
        let why = match progress.failure {
            Some(failure) => PodBlocker::Refused(failure),
            None if progress.confirmed => return PodServerError::NotReady { cores, within },
            None => PodBlocker::Late(within),
        };
        PodServerError::Blocked { cores, why }
    }

    fn possible(&self) -> MutexGuard<'_, Vec<Cores>> {
        self.possible.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Command that restores it.
    fn command(&self) -> String {
        let (cpu, container) = (format_cores(self.before), &self.container);
        let resources = format!(r#"{{"requests":{{"cpu":"{cpu}"}},"limits":{{"cpu":"{cpu}"}}}}"#);
        format!(
            "kubectl -n {} patch pod {} --subresource resize -p '{{\"spec\":{{\"containers\":[{{\"name\":\"{container}\",\"resources\":{resources}}}]}}}}'",
            self.namespace, self.name
        )
    }
}

/// Result of one reading of the pod.
enum Reading {
    Done,
    Wait,
    Failed(ApiFailure),
}

/// Whether a later request may be answered otherwise.
fn may_pass(failure: &ApiFailure) -> bool {
    matches!(
        failure,
        ApiFailure::Conflict | ApiFailure::Throttled { .. } | ApiFailure::Unreachable { .. }
    )
}

/// Name of the only container.
fn only_container(pod: &Pod) -> Result<String, PodServerError> {
    let spec = pod.spec.as_ref();
    match spec.map_or(&[][..], |spec| spec.containers.as_slice()) {
        [one] => Ok(one.name.clone()),
        all => {
            let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
            Err(PodServerError::SeveralContainers(names.join(", ")))
        }
    }
}

/// Returns cores in whole steps of a pod's.
///
/// # Errors
/// They are no multiple of a step.
pub fn exact(cores: f64) -> Result<Cores, PodServerError> {
    let refused = || PodServerError::Step(cores);
    let exact = Cores::try_from(cores).map_err(|_| refused())?;
    let is_whole = (exact.as_f64() - cores).abs() < 1e-9 && patch::step(exact) == exact;
    is_whole.then_some(exact).ok_or_else(refused)
}

#[cfg(test)]
mod tests;
