//! The written files, and the commands that follow.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use reqwest::Url;
use serde_json::{Value, json};
use weir_planner::manifests::ServerAt;
use weir_planner::spec::{RawDuration, ServiceFile, ServiceSpec};

use super::metadata::Batches;
use super::path_style::path_style;

/// Variant with a running server.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) name: String,
    /// Address of its inference.
    pub(super) url: Url,
    /// Name of its model at the server, if it is in the path.
    pub(super) model: Option<String>,
    /// Body of one request.
    pub(super) request: String,
    /// Batches that the server forms, if it says so.
    pub(super) batches: Option<Batches>,
    /// Port of its servers for gRPC, if it is known.
    pub(super) grpc: Option<ServerAt>,
    /// Time of the answer to that request, if it was sent.
    pub(super) answer: Option<Duration>,
}

const SERVICE: &str = "\
# Service file, written by `weir init`. Before use:
#   - run `weir profile` as printed: latency, capacity and, with labels, accuracy come from the files that it writes;
#   - an `accuracy` of 100 is unknown: put the percentage of your evaluation there;
#   - `cores` and `budget`: sizes of your servers; here each has one core, and nobody changes it;
#   - `proxies.stats`: the admin address of your Envoy.
# docs/reference/service-file.md explains every key.
";

const SCENARIO: &str = "\
# Replay of the service with the measured profiles, written by `weir init`:
#   weir replay scenario.yaml --of-capacity 1.3
# docs/reference/scenarios.md explains every key.
";

/// Address of a planner that runs beside Envoy on one machine.
const PLANNER_AT: &str = "127.0.0.1:8080";

/// Returns the name of a variant's request file.
pub(crate) fn request_file(name: &str) -> String {
    format!("{name}.request.json")
}

fn profile_file(name: &str) -> String {
    format!("{name}.profile.yaml")
}

/// Returns the service file.
///
/// # Errors
/// A name or the objective is wrong.
pub(super) fn service(
    name: &str,
    slo: &str,
    variants: &[Variant],
    has_labels: bool,
) -> anyhow::Result<String> {
    let first = variants.first().map(|variant| &variant.model);
    let alike = variants.iter().all(|variant| Some(&variant.model) == first);
    let paths_differ = paths_differ(variants);
    let delay = |batches: &Batches| RawDuration(Duration::from_micros(batches.delay_us));
    let variant = |variant: &Variant| {
        let mut value = json!({
            "name": variant.name,
            "cluster": variant.name,
            "cores": { "initial": 1, "min": 1, "max": 1 },
            "profile": { "file": profile_file(&variant.name) },
        });
        let more = [
            (
                "grpcCluster",
                variant.grpc.as_ref().map(|port| json!(grpc_cluster(port))),
            ),
            (
                "model",
                variant
                    .model
                    .as_ref()
                    .filter(|_| !alike)
                    .map(|model| json!(model)),
            ),
            ("path", paths_differ.then(|| json!(variant.url.path()))),
            ("batch", variant.batches.map(|batches| json!(batches.max))),
            (
                "batchDelay",
                (variant
                    .batches
                    .as_ref()
                    .filter(|batches| batches.delay_us > 0))
                .map(|batches| json!(delay(batches))),
            ),
            ("accuracy", (!has_labels).then(|| json!(100))),
        ];
        for (key, given) in more {
            if let (Some(keys), Some(given)) = (value.as_object_mut(), given) {
                keys.insert(key.to_owned(), given);
            }
        }
        value
    };
    let file = json!({
        "service": name,
        "listen": "127.0.0.1:8080",
        "keyEnv": "WEIR_KEY",
        "slo": slo,
        "mode": "advisory",
        "budget": { "cores": variants.len() },
        "proxies": { "stats": ["http://127.0.0.1:9901/stats/prometheus?filter=weir_"] },
        "variants": variants.iter().map(variant).collect::<Vec<Value>>(),
    });
    let text = serde_saphyr::to_string(&file)?;
    check(&text).context("--service, --slo or a NAME")?;
    Ok(format!("{SERVICE}{text}"))
}

/// Name of the cluster of a variant's port for gRPC.
fn grpc_cluster(port: &ServerAt) -> String {
    format!("{}-grpc", port.cluster)
}

/// Checks the file with profiles that are still to be measured.
fn check(text: &str) -> anyhow::Result<()> {
    const PROFILE: &str = "\
accuracy: 50
latency: {meanMs: 1, parallelism: 1}
capacity: {slopeRps: 1, interceptRps: 0}
";
    let mut spec = ServiceSpec::from_yaml(text)?;
    spec.resolve(|_, _| Ok(PROFILE.to_owned()))?;
    let _ = ServiceFile::try_from(spec)?;
    Ok(())
}

/// Returns the scenario that replays it.
pub(super) fn scenario(name: &str, variants: &[Variant]) -> String {
    let waits = |variant: &&Variant| {
        let batches = variant.batches.as_ref();
        batches.is_some_and(|batches| batches.delay_us > 0)
    };
    let mut servers = String::new();
    for variant in variants.iter().filter(waits) {
        if servers.is_empty() {
            servers += "servers:\n";
        }
        servers += &format!("  {}: {{ batch_window: closed }}\n", variant.name);
    }
    format!(
        "{SCENARIO}name: {name}\nservice: service.yaml\nlength_s: 60\nload: {{ generator: poisson, of_capacity: 0.95 }}\n\
         {servers}contenders:\n- {{ plane: weir, control: planner }}\n- {{ plane: fifo-timeout, control: static }}\n\
         - {{ plane: fifo-weights, control: static }}\n"
    )
}

/// Returns a line about a variant's server.
fn about(variant: &Variant) -> String {
    let style = path_style(variant.url.path()).name;
    let answer = variant.answer.map_or_else(String::new, |answer| {
        format!(
            ", answers the request after {:.0} ms",
            answer.as_secs_f64() * 1e3
        )
    });
    let batches = variant.batches.map_or_else(String::new, |batches| {
        let (max, instances) = (batches.max, batches.instances);
        let delay = match batches.delay_us {
            0 => String::new(),
            us => format!(" after at most {}", RawDuration(Duration::from_micros(us))),
        };
        format!(", forms batches of up to {max}{delay}, instances: {instances}")
    });
    format!("{}: {style}{answer}{batches}\n", variant.name)
}

/// Whether the paths differ in more than the model's name, which the filter renames.
fn paths_differ(variants: &[Variant]) -> bool {
    let plain = |variant: &Variant| match &variant.model {
        Some(model) => variant.url.path().replace(model, "NAME"),
        None => variant.url.path().to_owned(),
    };
    let mut all = variants.iter().map(plain);
    let first = all.next();
    all.any(|path| Some(&path) != first.as_ref())
}

/// Returns the commands to type next.
pub(super) fn next(out: &Path, labels: Option<&Path>, variants: &[Variant]) -> String {
    let labels = labels.map(|labels| format!(" --labels {}", labels.display()));
    let labels = labels.unwrap_or_default();
    let service = out.join("service.yaml");
    let service = service.display();
    let mut text: String = variants.iter().map(about).collect();
    if paths_differ(variants) {
        text += "The paths differ: whatever the path of a request, each variant gets its own (`path` in the service file).\n";
    }
    text += &format!("{service} is written. Next:\n\nweir profile {service}");
    for variant in variants {
        text += &format!(" {}={}", variant.name, variant.url);
    }
    let scenario = out.join("scenario.yaml");
    text += &format!("{labels}\nweir replay {}\n", scenario.display());
    text += &format!("weir manifests --envoy {service}");
    for variant in variants {
        // A URL of these schemes has both.
        let host = variant.url.host_str().unwrap_or_default();
        let port = variant.url.port_or_known_default().unwrap_or_default();
        text += &format!(" --server {}={host}:{port}", variant.name);
        if let Some(grpc) = &variant.grpc {
            let host = match grpc.host.contains(':') {
                true => format!("[{}]", grpc.host),
                false => grpc.host.clone(),
            };
            text += &format!(" --server {}={host}:{}", grpc_cluster(grpc), grpc.port);
        }
    }
    text + &format!(" --server planner={PLANNER_AT} --out {}\n", out.display())
}
