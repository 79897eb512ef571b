//! Specification of a service that is planned for: as its file or resource has it, and whether it may be replaced while
//! the planner runs.
//!
//! The file is the source of truth ([`WritableFile`], [`ServiceFolder`]). A specification has no secrets of its own: keys are named by their file or variable.
//! Passwords in addresses are hidden ([`HIDDEN`]).

mod file;
mod folder;

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use crate::service::{ConfigError, FILE_BYTES_MAX, Service};
use crate::spec::{RawBudget, ServiceFile, ServiceSpec};

pub use file::{ReplaceError, WritableFile};
pub use folder::{DELETED_MAX, ServiceFolder};

/// Text in place of a password.
pub const HIDDEN: &str = "***";

/// Specification of a service.
#[derive(Debug, Clone)]
pub struct Specification {
    spec: ServiceSpec,
    source: SpecificationSource,
    hash: u64,
}

/// Source of a specification.
#[derive(Debug, Clone)]
pub enum SpecificationSource {
    /// A resource of Kubernetes.
    Resource,
    /// A file that is only read.
    File(PathBuf),
    /// A file that may be replaced.
    Writable(Arc<WritableFile>),
}

impl Specification {
    /// Creates the specification of a resource, or of a file as it was read.
    pub fn new(spec: ServiceSpec, source: SpecificationSource) -> Specification {
        let mut hasher = DefaultHasher::new();
        let text = serde_json::to_string(&spec);
        text.unwrap_or_default().hash(&mut hasher);
        Specification {
            spec,
            source,
            hash: hasher.finish(),
        }
    }

    /// Returns the source.
    pub fn source(&self) -> &SpecificationSource {
        &self.source
    }

    /// Returns a number that is another one for another specification.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Returns the specification as written, all defaults included, without passwords.
    pub fn shown(&self) -> Value {
        shown(&self.spec)
    }

    /// Returns the same with the profiles that `service` plans with in place of their references.
    pub fn shown_inline(&self, service: &Service) -> Value {
        let mut spec = self.spec.clone();
        spec.inline(service);
        shown(&spec)
    }

    /// Reads and checks a text that is to replace this specification, and the files that it names.
    ///
    /// # Errors
    /// The first thing that is wrong, or that cannot change while the planner runs.
    pub fn successor(
        &self,
        text: &str,
        path: &Path,
    ) -> Result<(Specification, Service), ConfigError> {
        let spec = parse(text)?;
        let (before, after) = (&self.spec, &spec);
        let [budget, successor] = [before, after].map(ServiceSpec::sizes);
        // In a shared budget, parts are counted in steps.
        let step = |of: &RawBudget| budget.shared.as_ref().map(|_| of.step.0.to_string());
        for (key, before, after) in [
            ("service", &before.service, &after.service),
            ("listen", &before.listen, &after.listen),
            ("keyEnv", &before.key_env, &after.key_env),
            ("keyFile", &before.key_file, &after.key_file),
            ("budget.shared", &budget.shared, &successor.shared),
            ("budget.step", &step(&budget), &step(&successor)),
        ] {
            if before != after {
                return Err(ConfigError::Value {
                    path: key.to_owned(),
                    value: after.clone().unwrap_or_else(|| "missing".to_owned()),
                    right: match before {
                        Some(before) => format!("{before} while the planner runs"),
                        None => "left out while the planner runs".to_owned(),
                    },
                });
            }
        }
        let file = read_sent(&spec, text, path)?;
        Ok((Specification::new(spec, self.source.clone()), file.service))
    }
}

/// Reads and checks a text of which a service is to be created, and the files that it names.
///
/// # Errors
/// The first thing that is wrong.
pub(crate) fn read_new(text: &str, path: &Path) -> Result<(ServiceSpec, ServiceFile), ConfigError> {
    let spec = parse(text)?;
    let file = read_sent(&spec, text, path)?;
    Ok((spec, file))
}

fn parse(text: &str) -> Result<ServiceSpec, ConfigError> {
    match text.len() > FILE_BYTES_MAX {
        true => Err(ConfigError::TooLarge(text.len())),
        false => ServiceSpec::from_yaml(text),
    }
}

/// Reads the service of a text that a client sent, and the files that it names, below the folder of `path`.
fn read_sent(spec: &ServiceSpec, text: &str, path: &Path) -> Result<ServiceFile, ConfigError> {
    for (at, file) in spec.files() {
        let inside = |part| matches!(part, Component::Normal(_) | Component::CurDir);
        if !Path::new(&file).components().all(inside) {
            let right = "a path below the service file's folder, without ..".to_owned();
            return Err(ConfigError::Value {
                path: at,
                value: file,
                right,
            });
        }
    }
    if let Some((at, address)) = hidden(&serde_json::to_value(spec).unwrap_or_default()) {
        return Err(ConfigError::Value {
            path: at,
            value: address,
            right: format!("an address with its password in place of {HIDDEN}"),
        });
    }
    ServiceSpec::from_file(path, text)?.try_into()
}

fn shown(spec: &ServiceSpec) -> Value {
    let mut value = serde_json::to_value(spec).unwrap_or_default();
    hide(&mut value);
    value
}

/// Hides passwords in addresses.
fn hide(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Some(mut url) = with_password(text) {
                let _ = url.set_password(Some(HIDDEN));
                *text = url.into();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(fields) => fields.values_mut().for_each(hide),
        _ => {}
    }
}

/// Returns the path and the value of an address whose password is hidden.
fn hidden(value: &Value) -> Option<(String, String)> {
    match value {
        Value::String(text) => {
            let url = with_password(text)?;
            let is_hidden = url.password() == Some(HIDDEN);
            is_hidden.then(|| (String::new(), text.clone()))
        }
        Value::Array(values) => values.iter().enumerate().find_map(|(index, value)| {
            let (path, text) = hidden(value)?;
            Some((format!("[{index}]{}{path}", dot(&path)), text))
        }),
        Value::Object(fields) => fields.iter().find_map(|(key, value)| {
            let (path, text) = hidden(value)?;
            Some((format!("{key}{}{path}", dot(&path)), text))
        }),
        _ => None,
    }
}

/// Returns the dot before the rest of a path.
fn dot(path: &str) -> &'static str {
    match path.starts_with('[') || path.is_empty() {
        true => "",
        false => ".",
    }
}

fn with_password(text: &str) -> Option<url::Url> {
    let url = url::Url::parse(text).ok()?;
    url.password().is_some().then_some(url)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::tests::small;

    fn specification(text: &str) -> Specification {
        let spec = ServiceSpec::from_yaml(text).unwrap();
        Specification::new(spec, SpecificationSource::File("service.yaml".into()))
    }

    #[test]
    fn shown_specification_is_read_again_as_the_same_service() {
        let text = small();
        let shown = specification(&text).shown().to_string();
        let (again, first) = (Service::from_yaml(&shown), Service::from_yaml(&text));
        assert_eq!(again.unwrap(), first.unwrap());
    }

    #[test]
    fn passwords_are_hidden_and_must_be_given_again() {
        let text = small().replace("http://127.0.0.1:3/cores", "http://me:pass@127.0.0.1:3/c");
        let with_password = specification(&text);
        let shown = with_password.shown();
        let address = "http://me:***@127.0.0.1:3/c";
        assert_eq!(shown["variants"][1]["resize"], address);
        let other = specification(&text.replace("me:pass", "me:word"));
        assert_ne!(with_password.hash(), other.hash());
        let path = Path::new("service.yaml");
        let refused = with_password.successor(&shown.to_string(), path);
        let refused = refused.unwrap_err().to_string();
        assert!(
            refused.starts_with("variants[1].resize: http://me:***@"),
            "{refused}"
        );
        with_password.successor(&text, path).unwrap();
    }

    #[test]
    fn successor_keeps_name_address_and_keys_and_reads_below_its_folder() {
        let before = specification(&small());
        let path = Path::new("service.yaml");
        let model = "latency: {";
        assert!(small().contains(model));
        for (from, to, message) in [
            (
                "service: demo",
                "service: other",
                "service: other; it must be demo",
            ),
            ("listen: ", "listen: 1", "listen: 1"),
            ("keyEnv: ", "keyEnv: X", "keyEnv: X"),
            (
                "slo: 1s",
                "slo: 1s\ndemand: {forecaster: lstm, model: ../../etc/passwd}",
                "demand.model: ../../etc/passwd; it must be a path below",
            ),
            (
                "slo: 1s",
                "slo: 1s\ndemand: {forecaster: lstm, model: /etc/passwd}",
                "demand.model: /etc/passwd; it must be a path below",
            ),
            ("slo: 1s", "slo: 2h", "slo: 2h; it must be 1ms to 1h"),
            ("slo: 1s", "slo: [", ""),
        ] {
            let text = small().replacen(from, to, 1);
            assert_ne!(text, small(), "{from}");
            let refused = before.successor(&text, path).unwrap_err().to_string();
            assert!(refused.starts_with(message), "{refused}");
        }
        let text = small().replace("slo: 1s", "slo: 2s");
        let (after, service) = before.successor(&text, path).unwrap();
        assert_eq!(service.slo.as_secs(), 2);
        assert_ne!(after.hash(), before.hash());
    }
}
