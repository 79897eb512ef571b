//! Specification of a service that is planned for: as its file or resource has it, and whether it may be replaced while
//! the planner runs.
//!
//! The file is the source of truth. A [`WritableFile`] is replaced atomically, and only if it still is as it was read,
//! so that nobody's edit is lost. A specification has no secrets of its own: keys are named by their file or variable.
//! Passwords in addresses are hidden ([`HIDDEN`]).

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{Mutex, MutexGuard};

use crate::service::{ConfigError, FILE_BYTES_MAX, Service};
use crate::spec::{ServiceFile, ServiceSpec};

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

/// Service file that may be replaced.
#[derive(Debug)]
pub struct WritableFile {
    /// Path as named, to which profiles are relative.
    path: PathBuf,
    /// The file itself, behind symbolic links.
    target: PathBuf,
    /// Content as it was last read or written. Locked by the one that replaces it.
    content: Mutex<Vec<u8>>,
}

/// Reason why a file was not replaced.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum ReplaceError {
    #[error("{0}: it was edited since the planner read it; start the planner again with it")]
    Edited(PathBuf),
    #[error("{path}: {error}")]
    Io { path: PathBuf, error: io::Error },
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
        if text.len() > FILE_BYTES_MAX {
            return Err(ConfigError::TooLarge(text.len()));
        }
        let spec = ServiceSpec::from_yaml(text)?;
        let (before, after) = (&self.spec, &spec);
        for (key, before, after) in [
            ("service", &before.service, &after.service),
            ("listen", &before.listen, &after.listen),
            ("keyEnv", &before.key_env, &after.key_env),
            ("keyFile", &before.key_file, &after.key_file),
            ("budget.shared", &before.budget.shared, &after.budget.shared),
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
        if let Some((at, address)) = hidden(&serde_json::to_value(&spec).unwrap_or_default()) {
            return Err(ConfigError::Value {
                path: at,
                value: address,
                right: format!("an address with its password in place of {HIDDEN}"),
            });
        }
        let file: ServiceFile = ServiceSpec::from_file(path, text)?.try_into()?;
        let source = self.source.clone();
        Ok((Specification::new(spec, source), file.service))
    }
}

impl WritableFile {
    /// Creates the file at `path`, of which `content` was read. A symbolic link stays; the file behind it is replaced.
    pub fn new(path: &Path, content: Vec<u8>) -> WritableFile {
        WritableFile {
            path: path.to_owned(),
            target: fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
            content: Mutex::new(content),
        }
    }

    /// Returns the path as named.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the content: one client at a time replaces it.
    pub async fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.content.lock().await
    }

    /// Replaces the file by `new`, if it still has the content `before`.
    ///
    /// # Errors
    /// Fails if it has another content, or cannot be read or written; then it stays as it is.
    pub fn replace(&self, before: &[u8], new: &[u8]) -> Result<(), ReplaceError> {
        let failed = |error| ReplaceError::Io {
            path: self.path.clone(),
            error,
        };
        if fs::read(&self.target).map_err(failed)? != before {
            return Err(ReplaceError::Edited(self.path.clone()));
        }
        let mut beside = self.target.as_os_str().to_owned();
        beside.push(".new");
        let beside = PathBuf::from(beside);
        let written = self.write(&beside, new);
        if written.is_err() {
            // Of a file that could not be written nothing is left.
            let _ = fs::remove_file(&beside);
        }
        written.map_err(failed)
    }

    fn write(&self, beside: &Path, content: &[u8]) -> io::Result<()> {
        let mut file = File::create(beside)?;
        file.set_permissions(fs::metadata(&self.target)?.permissions())?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(beside, &self.target)
    }
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

    #[test]
    fn file_is_replaced_whole_and_only_if_nobody_edited_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("service.yaml");
        fs::write(&path, "a").unwrap();
        let link = folder.path().join("link.yaml");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let file = WritableFile::new(&link, b"a".to_vec());
        file.replace(b"a", b"b").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"b");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        let edited = file.replace(b"a", b"c").unwrap_err();
        assert!(matches!(edited, ReplaceError::Edited(_)), "{edited}");
        // A folder in the place of the file beside it.
        fs::create_dir(folder.path().join("service.yaml.new")).unwrap();
        let failed = file.replace(b"b", b"c").unwrap_err();
        assert!(matches!(failed, ReplaceError::Io { .. }), "{failed}");
        assert_eq!(fs::read(&path).unwrap(), b"b");
    }
}
