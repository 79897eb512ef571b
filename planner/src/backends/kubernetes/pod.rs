//! Reads the CPU state of a container from its pod: desired, allocated and actual amounts, and the state of a resize.
//! Pure.
//!
//! A resize is over once the kubelet has seen the spec (`observedGeneration`), reports no condition about it, and
//! `status.containerStatuses[].resources` equals the spec. Cores are requests: the amount that a node reserves for
//! the container. This module never decides a target.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, ResourceRequirements};
use kube::ResourceExt;
use weir_api::Cores;

use crate::quantity;

/// Annotation of a static pod, which a kubelet runs from a file: its mirror in the API cannot be resized.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// CPU amounts of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// Amount that the node reserves for it.
    pub request: Cores,
    /// Upper limit of its use, if there is one.
    pub limit: Option<Cores>,
}

/// Quality-of-service classes with a CPU request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// All requests equal their limits.
    Guaranteed,
    /// Some requests do not equal their limits.
    Burstable,
}

/// Resources of the container by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActuatedCpu {
    /// It runs with these amounts.
    Has(Cpu),
    /// It runs, and the node does not report its amounts: the node cannot resize.
    Untold,
    /// It has not run yet.
    Starting,
    /// It has run and is restarting.
    Restarting,
}

/// State of a resize.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resizing {
    /// The container has what its spec says.
    Settled,
    /// The node has no capacity now; the kubelet retries by itself.
    Deferred {
        /// Message of the kubelet.
        why: String,
    },
    /// The node can never hold it; final until the spec changes.
    Infeasible {
        /// Message of the kubelet.
        why: String,
    },
    /// In progress, or not yet seen by the kubelet.
    InProgress,
    /// The kubelet tried and failed.
    Failed {
        /// Message of the kubelet.
        why: String,
    },
}

/// Requests of pending patches, any of which may still be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingRequests {
    /// Smallest one.
    pub min: Cores,
    /// Largest one.
    pub max: Cores,
}

impl PendingRequests {
    /// Range of one request.
    pub fn one(request: Cores) -> PendingRequests {
        PendingRequests {
            min: request,
            max: request,
        }
    }

    /// Range of these requests and one more.
    #[must_use]
    pub fn or(self, request: Cores) -> PendingRequests {
        PendingRequests {
            min: self.min.min(request),
            max: self.max.max(request),
        }
    }
}

/// Reasons why a pod's cores can be neither read nor changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum NotResizable {
    #[error("it has no container {container}, only {}", containers.join(", "))]
    NoContainer {
        container: String,
        containers: Vec<String>,
    },
    #[error(
        "it is BestEffort, without any request, and such a pod cannot be resized; give its container {container} a CPU request"
    )]
    BestEffort { container: String },
    #[error(
        "its container {container} has no CPU request, and none can be added by resizing; give it one"
    )]
    NoRequest { container: String },
    #[error("it is a static pod, of a file on its node, and cannot be resized")]
    Static,
}

/// State of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Name.
    pub name: String,
    /// Uid: another pod may later have the same name.
    pub uid: String,
    /// Resource version of the object that was read.
    pub version: String,
    /// Container that is resized.
    pub container: String,
    /// Node, once it is scheduled.
    pub node: Option<String>,
    /// Whether it serves.
    pub ready: bool,
    /// Whether it has served before; true also while it restarts or is unready for a moment.
    pub served: bool,
    /// Whether it is ending; it occupies its cores on the node until it has ended.
    pub ending: bool,
    /// Whether all its containers have ended, so that it occupies no cores.
    pub ended: bool,
    /// QoS class, which a resize cannot change.
    pub class: Class,
    /// Generation of the spec.
    pub generation: i64,
    /// Generation of the spec that the kubelet has seen; `None` before Kubernetes 1.34.
    pub observed: Option<i64>,
    /// Number of restarts of the container.
    pub restarts: i32,
    /// Amounts in the spec.
    pub desired: Cpu,
    /// Request that the kubelet has granted.
    pub allocated: Option<Cores>,
    /// Amounts that the container has.
    pub actual: ActuatedCpu,
    /// State of the resize.
    pub resizing: Resizing,
    /// IP address.
    pub address: Option<std::net::IpAddr>,
    /// Cores that its server was last configured with, if it is reconfigured.
    pub configured_cores: Option<Cores>,
    /// Requests of pending patches. Not part of the pod object.
    pub pending: Option<PendingRequests>,
    /// Whether it is to be replaced, so that plans no longer count on it. Not part of the pod object.
    pub retired: bool,
}

impl PodState {
    /// Reads a pod.
    ///
    /// # Errors
    /// It can never be resized.
    pub fn of(pod: &Pod, container: &str) -> Result<PodState, NotResizable> {
        let spec = pod.spec.as_ref();
        let containers = spec.map_or(&[][..], |spec| &spec.containers);
        let Some(own) = containers.iter().find(|one| one.name == container) else {
            return Err(NotResizable::NoContainer {
                container: container.to_owned(),
                containers: containers.iter().map(|one| one.name.clone()).collect(),
            });
        };
        if pod.annotations().contains_key(MIRROR) {
            return Err(NotResizable::Static);
        }
        let status = pod.status.as_ref();
        let class = status.and_then(|status| status.qos_class.as_deref());
        let desired = own.resources.as_ref().and_then(cpu);
        let container = container.to_owned();
        let (class, desired) = match (class, desired) {
            (Some("BestEffort"), _) => return Err(NotResizable::BestEffort { container }),
            (_, None) => return Err(NotResizable::NoRequest { container }),
            (Some("Guaranteed"), Some(desired)) => (Class::Guaranteed, desired),
            (_, Some(desired)) => (Class::Burstable, desired),
        };
        let statuses = status.and_then(|status| status.container_statuses.as_ref());
        let own = statuses
            .into_iter()
            .flatten()
            .find(|status| status.name == container);
        let allocated = own.and_then(|status| status.allocated_resources.as_ref());
        let phase = status.and_then(|status| status.phase.as_deref());
        let mut state = PodState {
            name: pod.name_any(),
            uid: pod.uid().unwrap_or_default(),
            version: pod.resource_version().unwrap_or_default(),
            container,
            node: spec.and_then(|spec| spec.node_name.clone()),
            ready: condition(pod, "Ready").is_some(),
            served: own.is_some_and(|own| served(pod, own)),
            ending: pod.metadata.deletion_timestamp.is_some(),
            ended: matches!(phase, Some("Succeeded" | "Failed")),
            class,
            generation: pod.metadata.generation.unwrap_or(0),
            observed: status.and_then(|status| status.observed_generation),
            restarts: own.map_or(0, |status| status.restart_count),
            desired,
            allocated: allocated
                .and_then(|all| all.get("cpu"))
                .and_then(|amount| quantity::cores(&amount.0)),
            actual: actual(own),
            resizing: Resizing::Settled,
            address: status
                .and_then(|status| status.pod_ip.as_ref())
                .and_then(|ip| ip.parse().ok()),
            configured_cores: None,
            pending: None,
            retired: false,
        };
        state.resizing = state.resizing(pod);
        Ok(state)
    }

    /// Returns the cores it serves with now and after all changes in progress.
    pub fn cores(&self) -> Cores {
        let stays = self.has().min(self.desired.request);
        let used = self
            .configured_cores
            .map_or(stays, |configured_cores| configured_cores.min(stays));
        self.pending.map_or(used, |pending| pending.min.min(used))
    }

    /// Returns the cores its container has.
    pub fn has(&self) -> Cores {
        match self.actual {
            ActuatedCpu::Has(cpu) => cpu.request,
            // Without a resize in progress, the spec is the actual amount.
            _ => self.allocated.unwrap_or(self.desired.request),
        }
    }

    /// Returns the cores reserved on its node: the maximum that it may use now or after pending changes.
    pub fn reserved(&self) -> Cores {
        if self.ended {
            return Cores::ZERO;
        }
        let actual = match self.actual {
            ActuatedCpu::Has(cpu) => cpu.request,
            _ => Cores::ZERO,
        };
        let allocated = self.allocated.unwrap_or(Cores::ZERO);
        let pending = self.pending.map_or(Cores::ZERO, |pending| pending.max);
        self.desired.request.max(allocated).max(actual).max(pending)
    }

    /// Whether it is one of the replicas that stay.
    pub fn stays(&self) -> bool {
        !self.ending && !self.ended && !self.retired
    }

    /// Returns the state it would have if its growth had never been requested.
    #[must_use]
    pub fn without_growth(&self) -> PodState {
        let request = self.desired.request.min(self.has());
        PodState {
            desired: Cpu {
                request,
                ..self.desired
            },
            ..self.clone()
        }
    }

    fn resizing(&self, pod: &Pod) -> Resizing {
        let current = |found: &&PodCondition| {
            let of = found.observed_generation;
            of.is_none_or(|of| of >= self.generation)
        };
        let pending = condition(pod, "PodResizePending").filter(current);
        let progress = condition(pod, "PodResizeInProgress").filter(current);
        let reason = |found: Option<&PodCondition>| found.and_then(|c| c.reason.clone());
        let why = |found: Option<&PodCondition>| {
            let message = found.and_then(|c| c.message.clone());
            message.unwrap_or_else(|| "no reason given".to_owned())
        };
        if self.observed.is_some_and(|seen| seen < self.generation) {
            return Resizing::InProgress;
        }
        match reason(pending).as_deref() {
            Some("Infeasible") => return Resizing::Infeasible { why: why(pending) },
            Some(_) => return Resizing::Deferred { why: why(pending) },
            None if pending.is_some() => return Resizing::Deferred { why: why(pending) },
            None => {}
        }
        match reason(progress).as_deref() {
            Some("Error") => return Resizing::Failed { why: why(progress) },
            _ if progress.is_some() => return Resizing::InProgress,
            _ => {}
        }
        match self.actual {
            ActuatedCpu::Has(cpu) if cpu != self.desired => Resizing::InProgress,
            _ => Resizing::Settled,
        }
    }
}

/// Returns the condition of that type, if it is true.
fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    status_of(pod, name).filter(|condition| condition.status == "True")
}

/// Returns the condition of that type, true or not.
fn status_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == name)
}

/// Whether it is ready or has been: in a pod that only starts, "not ready" is older than its running container.
fn served(pod: &Pod, own: &ContainerStatus) -> bool {
    let Some(ready) = status_of(pod, "Ready") else {
        return false;
    };
    let running = own.state.as_ref().and_then(|s| s.running.as_ref());
    let began = running.and_then(|running| running.started_at.as_ref());
    let changed = ready.last_transition_time.as_ref();
    let later = || {
        changed
            .zip(began)
            .is_some_and(|(changed, began)| changed.0 > began.0)
    };
    ready.status == "True" || own.restart_count > 0 || later()
}

/// Reads request and limit; `None` without a request. A request of 0 counts as none.
pub(super) fn cpu(resources: &ResourceRequirements) -> Option<Cpu> {
    let read = |amounts: &Option<std::collections::BTreeMap<String, _>>| {
        let amount: &k8s_openapi::apimachinery::pkg::api::resource::Quantity =
            amounts.as_ref()?.get("cpu")?;
        quantity::cores(&amount.0).filter(|cores| *cores > Cores::ZERO)
    };
    let limit = read(&resources.limits);
    // The API server fills in a missing request; a workload's template may lack it.
    let request = read(&resources.requests).or(limit)?;
    Some(Cpu { request, limit })
}

fn actual(status: Option<&ContainerStatus>) -> ActuatedCpu {
    let Some(status) = status else {
        return ActuatedCpu::Starting;
    };
    let running = status.state.as_ref().and_then(|s| s.running.as_ref());
    let ended = status.state.as_ref().and_then(|s| s.terminated.as_ref());
    match (running, &status.resources) {
        (Some(_), Some(resources)) => cpu(resources).map_or(ActuatedCpu::Untold, ActuatedCpu::Has),
        (Some(_), None) => ActuatedCpu::Untold,
        (None, _) if status.restart_count > 0 || ended.is_some() => ActuatedCpu::Restarting,
        (None, _) => ActuatedCpu::Starting,
    }
}

#[cfg(test)]
mod tests;
