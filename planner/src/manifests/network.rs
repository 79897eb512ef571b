//! Network policies, made of the planner's [`calls`](super::calls).

use serde_json::{Value, json};

use super::calls::{Call, Peer, Purpose};
use super::options::PLANNER;

/// Returns the egress rules for these calls: one for each purpose and peer.
pub(super) fn egress(calls: &[Call]) -> Value {
    let mut rules: Vec<(&Call, Vec<Value>)> = Vec::new();
    for call in calls {
        let alike = |of: &Call| (of.purpose, &of.peer) == (call.purpose, &call.peer);
        match rules.iter_mut().find(|(of, _)| alike(of)) {
            Some((_, open)) => open.extend(ports(call)),
            None => rules.push((call, ports(call))),
        }
    }
    let rule = |(of, ports): (&Call, Vec<Value>)| match selector(&of.peer) {
        Some(to) => json!({ "to": [to], "ports": ports }),
        None => json!({ "ports": ports }),
    };
    rules.into_iter().map(rule).collect()
}

/// Returns the rule of the called pods' own policy that admits the planner in that namespace.
pub(super) fn admitted(planner: &str, calls: &[Call]) -> Option<Value> {
    let ports: Vec<Value> = calls.iter().flat_map(ports).collect();
    let from = pods(planner, &json!({ "app.kubernetes.io/name": PLANNER }));
    (!ports.is_empty()).then(|| json!({ "from": [from], "ports": ports }))
}

/// Returns the selector of pods of a namespace.
pub(super) fn pods(namespace: &str, labels: &Value) -> Value {
    let mut selector = json!({
        "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
    });
    let any = labels.as_object().is_none_or(serde_json::Map::is_empty);
    if let Some(selector) = selector.as_object_mut().filter(|_| !any) {
        selector.insert("podSelector".to_owned(), json!({ "matchLabels": labels }));
    }
    selector
}

pub(super) fn tcp(port: u16) -> Value {
    json!({ "port": port, "protocol": "TCP" })
}

fn ports(call: &Call) -> Vec<Value> {
    let mut ports = vec![tcp(call.port)];
    if call.purpose == Purpose::Names {
        ports.push(json!({ "port": call.port, "protocol": "UDP" }));
    }
    ports
}

fn selector(peer: &Peer) -> Option<Value> {
    match peer {
        Peer::Anyone => None,
        Peer::Planners => Some(json!({
            "podSelector": { "matchLabels": { "app.kubernetes.io/name": PLANNER } },
        })),
        Peer::Istiod => Some(json!({
            "namespaceSelector": {}, "podSelector": { "matchLabels": { "app": "istiod" } },
        })),
        Peer::Pods { namespace, labels } => Some(pods(namespace, &json!(labels))),
    }
}
