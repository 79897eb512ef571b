//! Pods in the API server: defaults, requests, QoS class, and the fields an update may change.
//!
//! The scheduler chooses a pod's node, and the kubelet its actual resources.

use std::cmp::max;

use serde_json::{Map, Value, json};

use super::object::{at, list, map, set, text};
use super::quantity::{PATTERN, Quantity};
use super::status::Cause;

/// Default grace period, in seconds.
const GRACE_S: i64 = 30;

/// An amount of CPU and memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Thousandths of a core.
    pub cpu_m: i64,
    /// Bytes.
    pub memory: i64,
}

impl Amount {
    /// Reads cpu and memory from a map of quantities.
    pub(super) fn of(quantities: &Value) -> Amount {
        let read = |name: &str| Quantity::parse(text(quantities, name));
        Amount {
            cpu_m: read("/cpu").map_or(0, Quantity::millis),
            memory: read("/memory").map_or(0, Quantity::units),
        }
    }

    pub(super) fn plus(self, other: Amount) -> Amount {
        Amount {
            cpu_m: self.cpu_m.saturating_add(other.cpu_m),
            memory: self.memory.saturating_add(other.memory),
        }
    }

    pub(super) fn minus(self, other: Amount) -> Amount {
        Amount {
            cpu_m: self.cpu_m.saturating_sub(other.cpu_m),
            memory: self.memory.saturating_sub(other.memory),
        }
    }

    pub(super) fn most(self, other: Amount) -> Amount {
        Amount {
            cpu_m: max(self.cpu_m, other.cpu_m),
            memory: max(self.memory, other.memory),
        }
    }

    /// The first resource that exceeds `capacity`: its name, the amount and the capacity.
    pub(super) fn beyond(self, capacity: Amount) -> Option<(&'static str, i64, i64)> {
        if self.cpu_m > capacity.cpu_m {
            return Some(("cpu", self.cpu_m, capacity.cpu_m));
        }
        (self.memory > capacity.memory).then_some(("memory", self.memory, capacity.memory))
    }
}

/// Requests and limits of a container, or their sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// Requests.
    pub requests: Amount,
    /// Limits; 0 if there is none.
    pub limits: Amount,
}

impl Resources {
    /// Reads a container's `resources`.
    pub(super) fn of(resources: &Value) -> Resources {
        Resources {
            requests: Amount::of(at(resources, "/requests")),
            limits: Amount::of(at(resources, "/limits")),
        }
    }

    /// Total actual resources of a pod's containers, from its status.
    pub(super) fn of_status(pod: &Value) -> Resources {
        let statuses = list(pod, "/status/containerStatuses").iter();
        let all = statuses.map(|status| Resources::of(at(status, "/resources")));
        all.fold(Resources::default(), |sum, own| Resources {
            requests: sum.requests.plus(own.requests),
            limits: sum.limits.plus(own.limits),
        })
    }

    /// Usable cores: the limit, or the request if there is none.
    pub fn cores(&self) -> f64 {
        let millis = if self.limits.cpu_m > 0 {
            self.limits.cpu_m
        } else {
            self.requests.cpu_m
        };
        millis as f64 / 1e3
    }
}

/// Total requests of a pod's spec.
pub(super) fn requests(pod: &Value) -> Amount {
    let of = |container: &Value| Amount::of(at(container, "/resources/requests"));
    let main = list(pod, "/spec/containers").iter().map(of);
    let main = main.fold(Amount::default(), Amount::plus);
    // Init containers run one after another, before the others.
    let init = list(pod, "/spec/initContainers").iter().map(of);
    init.fold(main, Amount::most)
}

/// Resources allocated to a pod, from its status; its requests if the status has none.
pub(super) fn allocated(pod: &Value) -> Amount {
    let statuses = list(pod, "/status/containerStatuses");
    let mut found = statuses
        .iter()
        .filter_map(|status| status.get("allocatedResources"))
        .map(Amount::of)
        .peekable();
    if found.peek().is_none() {
        return requests(pod);
    }
    found.fold(Amount::default(), Amount::plus)
}

/// Fills in the defaults of a new pod.
pub(super) fn default_new(pod: &mut Value) {
    default_spec(pod);
    super::object::remove(pod, "/status");
    let class = qos_class(pod);
    set(
        pod,
        "/status",
        json!({"phase": "Pending", "qosClass": class}),
    );
}

/// Fills in the defaults of a spec, on every write.
pub(super) fn default_spec(pod: &mut Value) {
    let fill = |pod: &mut Value, path: &str, value: Value| {
        if at(pod, path).is_null() {
            set(pod, path, value);
        }
    };
    fill(pod, "/spec/restartPolicy", json!("Always"));
    fill(pod, "/spec/terminationGracePeriodSeconds", json!(GRACE_S));
    fill(pod, "/spec/schedulerName", json!("default-scheduler"));
    for containers in ["/spec/containers", "/spec/initContainers"] {
        let Some(Value::Array(containers)) = pod.pointer_mut(containers) else {
            continue;
        };
        for container in containers {
            default_container(container);
        }
    }
}

fn default_container(container: &mut Value) {
    for kind in ["limits", "requests"] {
        if let Some(Value::Object(amounts)) = container.pointer_mut(&format!("/resources/{kind}")) {
            canonical(amounts);
        }
    }
    let limits = map(container, "/resources/limits").cloned();
    for (name, limit) in limits.into_iter().flatten() {
        let path = format!("/resources/requests/{}", name.replace('/', "~1"));
        if at(container, &path).is_null() {
            set(container, &path, limit);
        }
    }
    let Some(resources) = container
        .get("resources")
        .filter(|r| r.as_object().is_some_and(|r| !r.is_empty()))
    else {
        set(container, "/resources", json!({}));
        return;
    };
    let names = |name: &str| {
        let path = |kind| format!("/{kind}/{name}");
        !at(resources, &path("limits")).is_null() || !at(resources, &path("requests")).is_null()
    };
    let resized: Vec<&str> = ["cpu", "memory"]
        .into_iter()
        .filter(|name| names(name))
        .collect();
    let mut policies = list(container, "/resizePolicy").to_vec();
    for name in resized {
        if !policies
            .iter()
            .any(|policy| text(policy, "/resourceName") == name)
        {
            policies.push(json!({"resourceName": name, "restartPolicy": "NotRequired"}));
        }
    }
    if !policies.is_empty() {
        set(container, "/resizePolicy", Value::Array(policies));
    }
}

/// Converts quantities to their canonical form, CPU in whole thousandths.
fn canonical(amounts: &mut Map<String, Value>) {
    for (name, amount) in amounts.iter_mut() {
        let Some(quantity) = amount.as_str().and_then(Quantity::parse) else {
            continue;
        };
        let quantity = if name == "cpu" {
            quantity.to_millis()
        } else {
            quantity
        };
        *amount = json!(quantity.canonical());
    }
}

/// The first invalid quantity of a spec.
pub(super) fn bad_quantity(pod: &Value) -> Option<&'static str> {
    let containers = ["/spec/containers", "/spec/initContainers"];
    let mut amounts = containers
        .iter()
        .flat_map(|path| list(pod, path))
        .flat_map(|container| {
            ["/resources/limits", "/resources/requests"].map(|path| map(container, path))
        })
        .flatten()
        .flat_map(Map::values);
    let is_bad = |amount: &Value| {
        amount
            .as_str()
            .is_none_or(|text| Quantity::parse(text).is_none())
    };
    amounts.any(is_bad).then_some(PATTERN)
}

/// Adds the status fields that Kubernetes' own types always serialize.
pub(super) fn fill_status(pod: &mut Value) {
    if let Some(Value::Array(conditions)) = pod.pointer_mut("/status/conditions") {
        for condition in conditions {
            for time in ["lastProbeTime", "lastTransitionTime"] {
                if let Some(condition) = condition.as_object_mut() {
                    condition.entry(time).or_insert(Value::Null);
                }
            }
        }
    }
    if let Some(Value::Array(statuses)) = pod.pointer_mut("/status/containerStatuses") {
        for status in statuses {
            if let Some(status) = status.as_object_mut() {
                status.entry("lastState").or_insert_with(|| json!({}));
            }
        }
    }
}

/// The QoS class that follows from a pod's resources.
pub(super) fn qos_class(pod: &Value) -> &'static str {
    let all = ["/spec/containers", "/spec/initContainers"];
    let (mut any, mut equal) = (false, true);
    for container in all.iter().flat_map(|path| list(pod, path)) {
        for name in ["cpu", "memory"] {
            let read = |kind: &str| {
                let quantity =
                    Quantity::parse(text(container, &format!("/resources/{kind}/{name}")));
                quantity.filter(|quantity| quantity.nanos > 0)
            };
            let (limit, request) = (read("limits"), read("requests"));
            any |= limit.is_some() || request.is_some();
            equal &= limit.is_some() && limit.map(|l| l.nanos) == request.map(|r| r.nanos);
        }
    }
    match (any, equal) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Violations in a pod's spec, new or changed.
pub(super) fn check_spec(pod: &Value) -> Vec<Cause> {
    let mut causes = Vec::new();
    let containers = list(pod, "/spec/containers");
    if containers.is_empty() {
        causes.push(Cause::required("spec.containers"));
    }
    for (i, container) in containers.iter().enumerate() {
        let field = format!("spec.containers[{i}]");
        if text(container, "/name").is_empty() {
            causes.push(Cause::required(format!("{field}.name")));
        }
        let amounts = |kind: &str| map(container, &format!("/resources/{kind}"));
        for (name, request) in amounts("requests").into_iter().flatten() {
            let limit = amounts("limits").and_then(|limits| limits.get(name));
            let read = |value: &Value| value.as_str().and_then(Quantity::parse);
            if let (Some(requested), Some(most)) = (read(request), limit.and_then(read))
                && requested.nanos > most.nanos
            {
                let why = format!(
                    "must be less than or equal to {name} limit of {}",
                    most.canonical()
                );
                causes.push(Cause::invalid(
                    format!("{field}.resources.requests"),
                    request,
                    &why,
                ));
            }
        }
    }
    causes
}

/// Error message of an update that changes other fields than those allowed.
const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Violations of an update of a pod. Kubernetes appends a diff of its internal types to the
/// message; here the differing lines replace it.
pub(super) fn check_update(old: &Value, new: &Value) -> Vec<Cause> {
    let mut allowed = old.clone();
    for containers in ["/spec/containers", "/spec/initContainers"] {
        for i in 0..list(new, containers).len() {
            let path = format!("{containers}/{i}/image");
            if let (Some(image), true) = (new.pointer(&path), list(old, containers).len() > i) {
                set(&mut allowed, &path, image.clone());
            }
        }
    }
    for field in [
        "/spec/activeDeadlineSeconds",
        "/spec/tolerations",
        "/spec/nodeName",
    ] {
        // Binding a pod by an update is allowed: without a scheduler nothing else would bind it.
        let may = field != "/spec/nodeName" || text(old, field).is_empty();
        if let (Some(value), true) = (new.pointer(field), may) {
            set(&mut allowed, field, value.clone());
        }
    }
    if at(&allowed, "/spec") == at(new, "/spec") {
        return Vec::new();
    }
    let lines =
        |object: &Value| serde_json::to_string_pretty(at(object, "/spec")).unwrap_or_default();
    let (before, after) = (lines(&allowed), lines(new));
    let (before, after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    let mut why = FIXED.to_owned();
    let removed = before
        .iter()
        .filter(|line| !after.contains(line))
        .map(|line| format!("\n-{line}"));
    let added = after
        .iter()
        .filter(|line| !before.contains(line))
        .map(|line| format!("\n+{line}"));
    why.extend(removed.chain(added));
    vec![Cause::forbidden("spec", &why)]
}
