//! Profiles that resources refer to, read from their ConfigMaps, each by its name. The right to list
//! ConfigMaps would show the planner all configuration of a namespace.
//!
//! Only the keys that resources refer to are kept, and no longer than they do. Their number and size are limited,
//! because whoever may write a resource chooses what is read here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::Api;
use tokio::time::timeout;

use super::ownership::Name;
use crate::service::ConfigError;
use crate::spec::resource::SloService;
use crate::spec::{PROFILE_BYTES_MAX, RawReference, ServiceSpec};

/// Interval at which the ConfigMaps that a resource refers to are read again.
pub const PROFILES_AGAIN: Duration = Duration::from_secs(60);
/// Maximum size of all profiles that a planner keeps, in bytes.
pub const PROFILES_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Timeout of reading one ConfigMap.
pub const PROFILE_TIMEOUT: Duration = Duration::from_secs(5);

/// Namespace, ConfigMap and key of a profile.
type Place = (String, String, String);

/// Profiles as last read. One that cannot be read now keeps its previous content.
#[derive(Debug, Default)]
pub(super) struct Profiles(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    found: BTreeMap<Place, Found>,
    /// Number of changes of any content.
    version: u64,
}

/// Text of a profile, or the reason why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Found {
    Text(Arc<str>),
    NoKey,
    NoMap(String),
    TooLarge(usize),
    NoSpace,
}

impl Found {
    fn bytes(&self) -> usize {
        match self {
            Found::Text(text) => text.len(),
            _ => 0,
        }
    }
}

/// Keys of each ConfigMap that a resource refers to.
fn keys(spec: &ServiceSpec) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (_, reference) in spec.references() {
        if let Some(map) = &reference.config_map {
            let keys = all.entry(map.clone()).or_default();
            keys.insert(reference.key.clone());
        }
    }
    all
}

impl Profiles {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of changes of any profile.
    pub(super) fn version(&self) -> u64 {
        self.state().version
    }

    /// Reads all ConfigMaps that the resource refers to.
    pub(super) async fn read(&self, client: &kube::Client, namespace: &str, spec: &ServiceSpec) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for (map, keys) in keys(spec) {
            let answer = match timeout(PROFILE_TIMEOUT, api.get_opt(&map)).await {
                Ok(Ok(Some(found))) => Ok(found.data.unwrap_or_default()),
                Ok(Ok(None)) => Err(format!("there is no ConfigMap {map}")),
                Ok(Err(error)) => Err(format!("ConfigMap {map} cannot be read: {error}")),
                Err(_) => Err(format!(
                    "ConfigMap {map} cannot be read: no answer within {PROFILE_TIMEOUT:?}"
                )),
            };
            self.state().record(namespace, &map, keys, &answer);
        }
    }

    /// Forgets the profiles that none of these resources refers to.
    pub(super) fn retain(&self, resources: &[Arc<SloService>]) {
        let mut referenced = BTreeSet::new();
        for resource in resources {
            let namespace = resource.namespace().unwrap_or_default();
            for (map, keys) in keys(&resource.spec) {
                let places = keys.into_iter();
                referenced.extend(places.map(|key| (namespace.clone(), map.clone(), key)));
            }
        }
        let mut state = self.state();
        state.found.retain(|place, _| referenced.contains(place));
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
        let key = reference.key.as_str();
        let place = (namespace.to_owned(), name.to_owned(), key.to_owned());
        let found = self.state().found.get(&place).cloned();
        let missing = || Found::NoMap(format!("ConfigMap {name} has not been read yet"));
        match found.unwrap_or_else(missing) {
            Found::Text(text) => Ok(text.to_string()),
            // The other keys are for those who may read the ConfigMap.
            Found::NoKey => {
                let right = format!("a key of ConfigMap {name}, which has none of that name");
                Err(wrong("key", key, &right))
            }
            Found::NoMap(why) => Err(wrong("configMap", &why, "one that holds a profile")),
            Found::TooLarge(bytes) => {
                let value = format!("{key}, of {bytes} bytes");
                let right = format!("the key of a profile of at most {PROFILE_BYTES_MAX} bytes");
                Err(wrong("key", &value, &right))
            }
            Found::NoSpace => {
                let right = format!(
                    "one of fewer: all profiles of this planner have {PROFILES_BYTES_MAX} bytes at most"
                );
                Err(wrong("key", key, &right))
            }
        }
    }
}

impl State {
    /// Records the answer to a read of a ConfigMap.
    fn record(
        &mut self,
        namespace: &str,
        map: &str,
        keys: BTreeSet<String>,
        answer: &Result<BTreeMap<String, String>, String>,
    ) {
        for key in keys {
            let place = (namespace.to_owned(), map.to_owned(), key);
            let before = self.found.get(&place);
            let new = match (answer, before) {
                (Err(why), Some(Found::Text(_))) => {
                    tracing::warn!("{namespace}: {why}; what was read of it last holds");
                    continue;
                }
                (Err(why), _) => Found::NoMap(why.clone()),
                (Ok(data), _) => match data.get(&place.2) {
                    None => Found::NoKey,
                    Some(text) if text.len() > PROFILE_BYTES_MAX => Found::TooLarge(text.len()),
                    Some(text) => {
                        let others = self.found.iter().filter(|(other, _)| **other != place);
                        let others: usize = others.map(|(_, found)| found.bytes()).sum();
                        match others + text.len() > PROFILES_BYTES_MAX {
                            true => Found::NoSpace,
                            false => Found::Text(text.as_str().into()),
                        }
                    }
                },
            };
            if before != Some(&new) {
                self.found.insert(place, new);
                self.version = self.version.wrapping_add(1);
            }
        }
    }
}

/// Services as parsed last, so that the reconciliation of one resource does not parse all others again.
#[derive(Debug)]
pub(super) struct ParsedServices<T>(Mutex<BTreeMap<Name, (Source, T)>>);

/// Everything that the parsed service depends on.
type Source = (String, i64, Option<u64>);

impl<T> Default for ParsedServices<T> {
    fn default() -> ParsedServices<T> {
        ParsedServices(Mutex::default())
    }
}

impl<T: Clone> ParsedServices<T> {
    /// Returns the parsed service of a resource; parses it only if the resource or a profile has changed since.
    pub(super) fn get(
        &self,
        name: &Name,
        resource: &SloService,
        profiles: &Profiles,
        parse: impl FnOnce() -> T,
    ) -> T {
        let refers = !resource.spec.references().is_empty();
        let uid = resource.uid().unwrap_or_default();
        let generation = resource.metadata.generation.unwrap_or(0);
        let source = (uid, generation, refers.then(|| profiles.version()));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, parsed)) = all.get(name)
            && *of == source
        {
            return parsed.clone();
        }
        let parsed = parse();
        all.insert(name.clone(), (source, parsed.clone()));
        parsed
    }

    /// Forgets resources that do not exist any more.
    pub(super) fn retain(&self, exists: impl Fn(&Name) -> bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|name, _| exists(name));
    }
}

#[cfg(test)]
mod tests;
