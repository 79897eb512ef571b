//! A pod and the name of a container → what is known of its CPU: wanted, allocated, really there, and how a
//! resize stands. Pure.
//!
//! A resize is over once the kubelet has seen the spec (`observedGeneration`), says nothing more of it in a
//! condition, and `status.containerStatuses[].resources` is what the spec says. Cores are requests: what a
//! node keeps for the container. It never says what a pod is to have.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, ResourceRequirements};
use kube::ResourceExt;
use weir_api::Cores;

use crate::quantity;

/// The annotation of a pod that a kubelet has of a file: its image in the API cannot be resized.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A container's CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    /// What its node keeps for it.
    pub request: Cores,
    /// What it may use at most, if that is limited.
    pub limit: Option<Cores>,
}

/// Quality-of-service classes with a CPU request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// All requests equal their limits.
    Guaranteed,
    /// Some do not.
    Burstable,
}

/// What the container has by its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Actual {
    /// It runs with this.
    Has(Cpu),
    /// It runs, and the node does not say with what: it cannot resize.
    Untold,
    /// It has not run yet.
    Starting,
    /// It has run and is being started again.
    Restarting,
}

/// How a resize stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resizing {
    /// The container has what its spec says.
    Settled,
    /// There is no room now; the kubelet tries again by itself.
    Deferred {
        /// In the kubelet's words.
        why: String,
    },
    /// It will never be, until the spec changes.
    Infeasible {
        /// In the kubelet's words.
        why: String,
    },
    /// Seen or not, it is not done yet.
    InProgress,
    /// The kubelet tried and could not.
    Failed {
        /// In the kubelet's words.
        why: String,
    },
}

/// Why a pod's cores cannot be read, let alone changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum NotResizable {
    #[error("it has no container {wanted}, only {}", there.join(", "))]
    NoContainer { wanted: String, there: Vec<String> },
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

/// What is known of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodState {
    /// Its name.
    pub name: String,
    /// Its uid: a pod of the same name may follow it.
    pub uid: String,
    /// The version of the object this was read of.
    pub version: String,
    /// The container that is resized.
    pub container: String,
    /// Its node, once it has one.
    pub node: Option<String>,
    /// Whether it serves.
    pub ready: bool,
    /// Whether it has served before, even where it does not now: it is restarted, or unready for a moment.
    pub served: bool,
    /// Whether it is to end; its cores are the node's until it is gone.
    pub ending: bool,
    /// Whether all of it has ended, so that it holds no cores any more.
    pub ended: bool,
    /// Its class, which no resize may change.
    pub class: Class,
    /// Of its spec.
    pub generation: i64,
    /// Of the spec that the kubelet has seen; `None` before 1.34.
    pub observed: Option<i64>,
    /// How often the container has been started again.
    pub restarts: i32,
    /// What the spec says.
    pub desired: Cpu,
    /// The request that the kubelet has granted.
    pub allocated: Option<Cores>,
    /// What the container has.
    pub actual: Actual,
    /// How that stands.
    pub resizing: Resizing,
    /// Where it is reached.
    pub address: Option<std::net::IpAddr>,
    /// The cores that its server has been told to use, where it is told.
    pub tuned: Option<Cores>,
    /// The request it may have been given by a patch whose answer never came; no pod tells of that.
    pub maybe: Option<Cores>,
    /// Whether it is to be replaced, and is counted on no more; no pod tells of that.
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
                wanted: container.to_owned(),
                there: containers.iter().map(|one| one.name.clone()).collect(),
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
            tuned: None,
            maybe: None,
            retired: false,
        };
        state.resizing = state.resizing(pod);
        Ok(state)
    }

    /// The cores it serves with, and goes on to: what is about to be taken away does not count.
    pub fn cores(&self) -> Cores {
        let stays = self.has().min(self.desired.request);
        let used = self.tuned.map_or(stays, |tuned| tuned.min(stays));
        self.maybe.map_or(used, |maybe| maybe.min(used))
    }

    /// The cores its container has.
    pub fn has(&self) -> Cores {
        match self.actual {
            Actual::Has(cpu) => cpu.request,
            // Where nothing is resized, the spec is what there is.
            _ => self.allocated.unwrap_or(self.desired.request),
        }
    }

    /// The cores it may hold of its node at most.
    pub fn at_most(&self) -> Cores {
        if self.ended {
            return Cores::ZERO;
        }
        let actual = match self.actual {
            Actual::Has(cpu) => cpu.request,
            _ => Cores::ZERO,
        };
        let allocated = self.allocated.unwrap_or(Cores::ZERO);
        let maybe = self.maybe.unwrap_or(Cores::ZERO);
        self.desired.request.max(allocated).max(actual).max(maybe)
    }

    /// Whether it is one of the replicas that are to be.
    pub fn stays(&self) -> bool {
        !self.ending && !self.ended && !self.retired
    }

    /// As it would be if it had never been asked to have more than it has.
    #[must_use]
    pub fn without_wish(&self) -> PodState {
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
            Actual::Has(cpu) if cpu != self.desired => Resizing::InProgress,
            _ => Resizing::Settled,
        }
    }
}

/// The condition of that name, if it holds.
fn condition<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    told(pod, name).filter(|condition| condition.status == "True")
}

/// The condition of that name, whether it holds or not.
fn told<'a>(pod: &'a Pod, name: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == name)
}

/// Ready, or no longer: of a pod that only starts, "not ready" is older than its running container.
fn served(pod: &Pod, own: &ContainerStatus) -> bool {
    let Some(ready) = told(pod, "Ready") else {
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

/// Request and limit; `None` without a request. Requests of 0 are none.
pub(super) fn cpu(resources: &ResourceRequirements) -> Option<Cpu> {
    let read = |amounts: &Option<std::collections::BTreeMap<String, _>>| {
        let amount: &k8s_openapi::apimachinery::pkg::api::resource::Quantity =
            amounts.as_ref()?.get("cpu")?;
        quantity::cores(&amount.0).filter(|cores| *cores > Cores::ZERO)
    };
    let limit = read(&resources.limits);
    // The API server fills in a missing request; a workload's template may be without.
    let request = read(&resources.requests).or(limit)?;
    Some(Cpu { request, limit })
}

fn actual(status: Option<&ContainerStatus>) -> Actual {
    let Some(status) = status else {
        return Actual::Starting;
    };
    let running = status.state.as_ref().and_then(|s| s.running.as_ref());
    let ended = status.state.as_ref().and_then(|s| s.terminated.as_ref());
    match (running, &status.resources) {
        (Some(_), Some(resources)) => cpu(resources).map_or(Actual::Untold, Actual::Has),
        (Some(_), None) => Actual::Untold,
        (None, _) if status.restart_count > 0 || ended.is_some() => Actual::Restarting,
        (None, _) => Actual::Starting,
    }
}

#[cfg(test)]
mod tests;
