//! First error of a document of each kind, by the code that reads it.

use serde_json::Value;
use weir_api::Plan;
use weir_filter::config::{Config, ConfigError as PluginError};
#[cfg(feature = "kubernetes")]
use weir_planner::service::Service;
use weir_planner::solve::problem::Problem;
#[cfg(feature = "kubernetes")]
use weir_planner::spec::{RawReference, SloService};
use weir_planner::spec::{ServiceFile, ServiceSpec, check_profile, from_yaml};

use super::*;

#[cfg(not(feature = "kubernetes"))]
pub(super) fn resource(_: &Node, _: &Around<'_>) -> Option<Complaint> {
    let message = "SloService; this weir was built without the feature `kubernetes`";
    Some(Complaint::new("kind", message))
}

#[cfg(feature = "kubernetes")]
pub(super) fn resource(document: &Node, around: &Around<'_>) -> Option<Complaint> {
    let kind = document
        .get("kind")
        .and_then(Node::text)
        .unwrap_or_default();
    if kind != "SloService" {
        return Some(Complaint::new(
            "kind",
            &format!("{kind}; it must be SloService"),
        ));
    }
    let version = document.get("apiVersion").and_then(Node::text);
    let version = version.unwrap_or_default();
    if version != "weir.dev/v1alpha1" {
        let message = format!("{version}; it must be weir.dev/v1alpha1");
        return Some(Complaint::new("apiVersion", &message));
    }
    let resource = match SloService::from_yaml(&document.line()) {
        Ok(resource) => resource,
        Err(error) => return Some(error.into()),
    };
    let name = resource.metadata.name.unwrap_or_default();
    // A profile in the cluster is not known here. It may have either parallelism.
    let checked = |parallelism: &str| {
        let mut spec = resource.spec.clone();
        spec.resolve(|_, reference: &RawReference| {
            let map = reference.config_map.clone().unwrap_or_default();
            let found = around.profiles.get(&(map, reference.key.clone()));
            let unread = || UNREAD_PROFILE.replace("PARALLELISM", parallelism);
            Ok(found.cloned().unwrap_or_else(unread))
        })?;
        Service::from_resource(&name, spec)
    };
    let error = checked("per-core").or_else(|_| checked("1")).err()?;
    let mut complaint = Complaint::from(error);
    if !complaint.path.starts_with("metadata") {
        let paths = complaint.path.split(", ");
        let paths: Vec<String> = paths.map(|path| format!("spec.{path}")).collect();
        complaint.path = paths.join(", ");
    }
    Some(complaint)
}

pub(super) fn profile(document: &Node) -> Option<Complaint> {
    let text = document.line();
    if let Err(error) = check_profile(&text) {
        return Some(error.into());
    }
    // The ranges of values are those of a variant.
    let has_accuracy = document.get("accuracy").is_some_and(|node| !node.is_null());
    let accuracy = if has_accuracy { "" } else { "accuracy: 1, " };
    let mut spec = match ServiceSpec::from_yaml(&PROFILED.replace("ACCURACY", accuracy)) {
        Ok(spec) => spec,
        Err(error) => return Some(error.into()),
    };
    let error = spec
        .resolve(|_, _| Ok(text.clone()))
        .and_then(|()| ServiceFile::try_from(spec))
        .err()?;
    let Complaint { path, message } = Complaint::from(error);
    let path = path.strip_prefix("variants[0].")?;
    // The service that it is checked with has limits of its own.
    document.get(path.split(['.', '[']).next()?)?;
    let message = message.strip_suffix(", in file a").unwrap_or(&message);
    Some(Complaint::new(path, message))
}

pub(super) fn problem(document: &Node) -> Option<Complaint> {
    let line = document.line();
    let value: Value = match from_yaml(&line, "problem") {
        Ok(value) => value,
        Err(error) => return Some(error.into()),
    };
    let refused = Problem::read(value, None).err()?;
    let message = match refused.right.as_str() {
        "" => refused.value,
        right => format!("{}; it must be {right}", refused.value),
    };
    Some(Complaint::new(refused.field, &message))
}

pub(super) fn plugin(document: &Node) -> Option<Complaint> {
    let error = Config::parse_services(document.line().as_bytes()).err()?;
    Some(match error {
        PluginError::Shape(misread) => Complaint::new(misread.path, &misread.what),
        PluginError::Value { path, value, right } => {
            Complaint::new(path, &format!("{value}; it must be {right}"))
        }
        PluginError::Plan { path, error } => {
            Complaint::of_plan(&format!("{path}."), &error.to_string())
        }
    })
}

pub(super) fn plan(document: &Node) -> Option<Complaint> {
    match weir_api::json::read::<Plan>(document.line().as_bytes()) {
        Err(misread) => Some(Complaint::new(misread.path, &misread.what)),
        Ok(plan) => Some(Complaint::of_plan("", &plan.check().err()?.to_string())),
    }
}
