//! Profiles that resources refer to, read from their ConfigMaps, each by its name. The right to list
//! ConfigMaps would show the planner all configuration of a namespace.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::Api;

use crate::service::ConfigError;
use crate::spec::{RawReference, ServiceSpec};

/// Interval at which the ConfigMaps that a resource refers to are read again.
pub const PROFILES_AGAIN: Duration = Duration::from_secs(60);

/// ConfigMaps as last read, by namespace and name. One that cannot be read now keeps its previous content.
#[derive(Debug, Default)]
pub(super) struct Profiles(Mutex<BTreeMap<(String, String), Found>>);

/// Content of a ConfigMap, or the reason why there is none.
type Found = Result<BTreeMap<String, String>, String>;

impl Profiles {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(String, String), Found>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads all ConfigMaps that the resource refers to.
    pub(super) async fn read(&self, client: &kube::Client, namespace: &str, spec: &ServiceSpec) {
        let names = spec.references().into_iter();
        let names = names.filter_map(|(_, reference)| reference.config_map.clone());
        let names: std::collections::BTreeSet<String> = names.collect();
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for name in names {
            let found = match api.get_opt(&name).await {
                Ok(Some(map)) => Ok(map.data.unwrap_or_default()),
                Ok(None) => Err(format!("there is no ConfigMap {name}")),
                Err(error) => Err(format!("ConfigMap {name} cannot be read: {error}")),
            };
            let mut all = self.all();
            let before = all.get(&(namespace.to_owned(), name.clone()));
            match (&found, before) {
                (Err(why), Some(Ok(_))) => {
                    tracing::warn!("{namespace}: {why}; what was read of it last holds");
                }
                _ => drop(all.insert((namespace.to_owned(), name), found)),
            }
        }
    }

    /// Returns the spec with its profiles resolved.
    ///
    /// # Errors
    /// Fails if a profile is missing or invalid.
    pub(super) fn resolve(
        &self,
        namespace: &str,
        spec: &ServiceSpec,
    ) -> Result<ServiceSpec, ConfigError> {
        let mut spec = spec.clone();
        spec.resolve(|at, reference| self.text(namespace, at, reference))?;
        Ok(spec)
    }

    fn text(
        &self,
        namespace: &str,
        at: &str,
        reference: &RawReference,
    ) -> Result<String, ConfigError> {
        let wrong = |key: &str, value: &str, right: &str| ConfigError::Value {
            path: format!("{at}.{key}"),
            value: value.to_owned(),
            right: right.to_owned(),
        };
        if let Some(file) = &reference.file {
            let right = "left out: it is for service files, a resource has profile.configMap";
            return Err(wrong("file", file, right));
        }
        let right = "the name of a ConfigMap of the resource's namespace";
        let name = reference.config_map.as_deref();
        let name = name.ok_or_else(|| wrong("configMap", "missing", right))?;
        let all = self.all();
        let found = all.get(&(namespace.to_owned(), name.to_owned()));
        let missing = || Err(format!("ConfigMap {name} has not been read yet"));
        let data = found.cloned().unwrap_or_else(missing);
        let data = data.map_err(|why| wrong("configMap", &why, "one that holds a profile"))?;
        let text = data.get(&reference.key).cloned();
        text.ok_or_else(|| {
            let keys: Vec<&str> = data.keys().map(String::as_str).collect();
            let right = format!("a key of ConfigMap {name}: {}", keys.join(", "));
            wrong("key", &reference.key, &right)
        })
    }
}
