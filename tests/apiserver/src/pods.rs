//! Pods as the API server sees them: defaults, what they ask for, QoS class, what an update may change.
//!
//! It never decides where a pod runs or what it really has; that is the scheduler's and the kubelet's.

use std::cmp::max;

use serde_json::{Map, Value, json};

use super::object::{at, list, map, set, text};
use super::quantity::{PATTERN, Quantity};
use super::status::Cause;

/// Seconds a pod has to end, where it does not say.
const GRACE_S: i64 = 30;

/// CPU and memory, added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    /// Thousandths of a core.
    pub cpu_m: i64,
    /// Bytes.
    pub memory: i64,
}

impl Amount {
    /// What a map of quantities says of cpu and memory.
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

    /// The first resource of which there is not enough: its name, how much is wanted, how much there is.
    pub(super) fn beyond(self, room: Amount) -> Option<(&'static str, i64, i64)> {
        if self.cpu_m > room.cpu_m {
            return Some(("cpu", self.cpu_m, room.cpu_m));
        }
        (self.memory > room.memory).then_some(("memory", self.memory, room.memory))
    }
}

/// What containers have, or are to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Resources {
    /// What is kept for them.
    pub requests: Amount,
    /// What they may use; 0 where nothing limits it.
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

    /// What a pod's containers really have, by its status, added up.
    pub(super) fn of_status(pod: &Value) -> Resources {
        let statuses = list(pod, "/status/containerStatuses").iter();
        let all = statuses.map(|status| Resources::of(at(status, "/resources")));
        all.fold(Resources::default(), |sum, own| Resources {
            requests: sum.requests.plus(own.requests),
            limits: sum.limits.plus(own.limits),
        })
    }

    /// Cores that may be used: the limit, or what is requested where there is none.
    pub fn cores(&self) -> f64 {
        let millis = if self.limits.cpu_m > 0 {
            self.limits.cpu_m
        } else {
            self.requests.cpu_m
        };
        millis as f64 / 1e3
    }
}

/// What a pod's spec requests.
pub(super) fn requests(pod: &Value) -> Amount {
    let of = |container: &Value| Amount::of(at(container, "/resources/requests"));
    let main = list(pod, "/spec/containers").iter().map(of);
    let main = main.fold(Amount::default(), Amount::plus);
    // Init containers run one after another, before the others.
    let init = list(pod, "/spec/initContainers").iter().map(of);
    init.fold(main, Amount::most)
}

/// What a pod has been allotted, by its status; what it requests where the status does not say.
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

/// What a new pod is given that it did not say.
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

/// Defaults of a spec; the same on every write.
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
    let wanted: Vec<&str> = ["cpu", "memory"]
        .into_iter()
        .filter(|name| names(name))
        .collect();
    let mut policies = list(container, "/resizePolicy").to_vec();
    for name in wanted {
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

/// Quantities in their canonical form, CPU in whole thousandths.
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

/// The first quantity of a spec that is none.
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

/// Puts what Kubernetes' own types always write into a pod's status.
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

/// The QoS class that a pod's resources make.
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

/// What is wrong with a pod's spec, new or changed.
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
            if let (Some(wanted), Some(most)) = (read(request), limit.and_then(read))
                && wanted.nanos > most.nanos
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

/// What a plain update of a pod may not change.
const FIXED: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// What a plain update changes although it may not. Kubernetes adds a diff of its internal types to the
/// message; here the lines that differ stand in its place.
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
        // A pod may be bound here too: nothing else would bind it where no scheduler runs.
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
    let gone = before
        .iter()
        .filter(|line| !after.contains(line))
        .map(|line| format!("\n-{line}"));
    let come = after
        .iter()
        .filter(|line| !before.contains(line))
        .map(|line| format!("\n+{line}"));
    why.extend(gone.chain(come));
    vec![Cause::forbidden("spec", &why)]
}
