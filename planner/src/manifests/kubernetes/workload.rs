//! The planner's namespace, key, Deployment, Service and PodDisruptionBudget.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde_json::{Value, json};

use super::super::options::{PLANNER, PLANNER_PORT};
use super::super::planner_tls;
use super::super::plugin::KEY;
use super::super::typed::typed;
use super::{Document, Frame, ManifestError, labels, selector};

/// Secret with the planner's keys, of which one is shared with the proxies.
pub(super) const KEY_SECRET: &str = "weir-key";
/// Headless Service of all planners.
const PEERS: &str = "weir-planner-peers";
/// Two replicas: one plans, the other takes over if it fails.
const REPLICAS: u32 = 2;
/// User id for images that set none.
const USER: u32 = 65_532;
/// Directory in which the key is mounted.
const KEY_FOLDER: &str = "/etc/weir";

const KEY_WHY: &str = "The keys of the planner, one in each line, of 8 to 256 printable characters: change them here, and nowhere else. \
    With `poll` behind it: the proxies' own, by which they get plans and can neither read nor change anything else. The overlays copy \
    the first line's to where filters read it, so no name is before it. With `read`: yours, for weir status, doctor and the console; without a \
    word it also solves problems, with `write` it also changes the mode. Further lines are keys that the planner accepts too. \
    Better still, have your secrets' operator make this Secret, and the copy with it: the planner reads it from the mounted file.";
const PEERS_WHY: &str = "By it Istio knows the planners' own addresses, ready or not: polls that one planner forwards to another use mutual TLS \
    then, also where STRICT demands it or only registered hosts may be called.";
const DEPLOYMENT: &str = "Nothing of it is in a request's path: while it is gone, proxies go by the last plan. No limit of \
    CPU: a solve that is throttled misses its cycle. Root's file system is read-only and nothing is written. k8s/services adds a \
    --namespace for each service: without any, it would plan for all namespaces. \
    All replicas may be unavailable in an update: one that does not lead, and does not reach the leader, is not ready.";
const DEPLOYMENT_TLS: &str = " The Secret of --planner-tls-secret has tls.crt, tls.key and ca.crt; they are read again when they change.";

pub(super) fn namespace(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let mut body = frame.object_in("", "v1", "Namespace", &frame.options.namespace, json!({}));
    let labels = body
        .pointer_mut("/metadata/labels")
        .and_then(Value::as_object_mut);
    if let Some(labels) = labels {
        let level = "pod-security.kubernetes.io/warn".to_owned();
        labels.insert(level, json!("restricted"));
    }
    Ok(vec![Document::new("", typed::<Namespace>(body)?)])
}

pub(super) fn key(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let lines = format!("{KEY} poll\n{KEY} read\n");
    let rest = json!({ "type": "Opaque", "stringData": { "key": lines } });
    let body = frame.object("v1", "Secret", KEY_SECRET, rest);
    Ok(vec![Document::new(KEY_WHY, typed::<Secret>(body)?)])
}

pub(super) fn deployment(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let spread = json!([{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": { "matchLabels": selector() },
    }]);
    let mut volumes = vec![json!({ "name": "key", "secret": {
        "secretName": KEY_SECRET, "defaultMode": 0o440, "items": [{ "key": "key", "path": "key" }],
    } })];
    let tls = frame.options.planner_tls.as_ref();
    volumes.extend(tls.map(|tls| json!({ "name": planner_tls::VOLUME, "secret": tls.volume() })));
    let pod = json!({
        "serviceAccountName": PLANNER,
        "terminationGracePeriodSeconds": 30,
        "topologySpreadConstraints": spread,
        "securityContext": {
            "runAsNonRoot": true, "runAsUser": USER, "runAsGroup": USER, "fsGroup": USER,
            "seccompProfile": { "type": "RuntimeDefault" },
        },
        "containers": [container(frame)],
        "volumes": volumes,
    });
    let rest = json!({ "spec": {
        "replicas": REPLICAS,
        "strategy": { "rollingUpdate": { "maxUnavailable": "100%" } },
        "selector": { "matchLabels": selector() },
        "template": { "metadata": { "labels": labels() }, "spec": pod },
    } });
    let body = frame.object("apps/v1", "Deployment", PLANNER, rest);
    let why = match tls {
        Some(_) => format!("{DEPLOYMENT}{DEPLOYMENT_TLS}"),
        None => DEPLOYMENT.to_owned(),
    };
    Ok(vec![Document::new(why, typed::<Deployment>(body)?)])
}

fn container(frame: &Frame) -> Value {
    let (tls, port) = (
        frame.options.planner_tls.as_ref(),
        frame.options.planner_port(),
    );
    let mut get = json!({ "port": port });
    if let (Some(_), Some(get)) = (tls, get.as_object_mut()) {
        get.insert("scheme".to_owned(), json!("HTTPS"));
    }
    let probe = |path: &str, period: u32, failures: u32| {
        let mut get = get.clone();
        if let Some(get) = get.as_object_mut() {
            get.insert("path".to_owned(), json!(path));
        }
        json!({
            "httpGet": get,
            "periodSeconds": period, "timeoutSeconds": 2, "failureThreshold": failures,
        })
    };
    let field = |name: &str, path: &str| json!({ "name": name, "valueFrom": { "fieldRef": { "fieldPath": path } } });
    let mut arguments = vec![
        "operate".to_owned(),
        "--listen".to_owned(),
        format!("0.0.0.0:{PLANNER_PORT}"),
        "--key-file".to_owned(),
        format!("{KEY_FOLDER}/key"),
    ];
    let mut mounts = vec![json!({ "name": "key", "mountPath": KEY_FOLDER, "readOnly": true })];
    if let Some(tls) = tls {
        arguments.extend(tls.flags());
        mounts.push(json!({ "name": planner_tls::VOLUME, "mountPath": planner_tls::FOLDER, "readOnly": true }));
    }
    json!({
        "name": "planner",
        "image": frame.options.image,
        "args": arguments,
        "env": [
            field("POD_NAME", "metadata.name"), field("POD_NAMESPACE", "metadata.namespace"),
            field("POD_IP", "status.podIP"),
        ],
        "ports": [{ "name": port, "containerPort": PLANNER_PORT, "protocol": "TCP" }],
        "startupProbe": probe("/healthz", 1, 30),
        "livenessProbe": probe("/healthz", 10, 3),
        "readinessProbe": probe("/readyz", 2, 2),
        "resources": {
            "requests": { "cpu": "250m", "memory": "128Mi" }, "limits": { "memory": "512Mi" },
        },
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": { "drop": ["ALL"] },
        },
        "volumeMounts": mounts,
    })
}

pub(super) fn service(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let name = frame.options.planner_port();
    let port = json!({
        "name": name, "port": PLANNER_PORT, "targetPort": name, "protocol": "TCP", "appProtocol": name,
    });
    let rest = json!({ "spec": { "selector": selector(), "ports": [port] } });
    let body = frame.object("v1", "Service", PLANNER, rest);
    // As TCP: istiod then makes a listener for each pod's address.
    let port = json!({
        "name": "tcp-peers", "port": PLANNER_PORT, "targetPort": name, "protocol": "TCP", "appProtocol": "tcp",
    });
    let rest = json!({ "spec": {
        "clusterIP": "None", "publishNotReadyAddresses": true, "selector": selector(), "ports": [port],
    } });
    let peers = frame.object("v1", "Service", PEERS, rest);
    Ok(vec![
        Document::new(
            "Polls of the proxies go to a planner that is ready.",
            typed::<Service>(body)?,
        ),
        Document::new(PEERS_WHY, typed::<Service>(peers)?),
    ])
}

pub(super) fn budget(frame: &Frame) -> Result<Vec<Document>, ManifestError> {
    let rest = json!({ "spec": { "minAvailable": 1, "selector": { "matchLabels": selector() } } });
    let body = frame.object("policy/v1", "PodDisruptionBudget", PLANNER, rest);
    Ok(vec![Document::new("", typed::<PodDisruptionBudget>(body)?)])
}
