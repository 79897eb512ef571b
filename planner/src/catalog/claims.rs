//! Names and backends that each service has for itself: no other service of the planner has the same. Pure.

use std::collections::BTreeMap;

use crate::service::rule::refusal;
use crate::service::{ConfigError, Service, Variant};

/// Names and backends of services, each with the file of its service.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    plans: BTreeMap<String, String>,
    backends: BTreeMap<String, String>,
}

impl Claims {
    /// Adds those of a service.
    ///
    /// # Errors
    /// The first that another service has, with the key, the value and the other one's file.
    pub(crate) fn add(&mut self, service: &Service, path: &str) -> Result<(), ConfigError> {
        let own = |name: &&String| **name != service.name;
        let stages = service.stages.iter().map(|stage| &stage.name).filter(own);
        let stages = stages.map(|name| ("stages[].name", name));
        for (key, name) in [("service", &service.name)].into_iter().chain(stages) {
            if let Some(before) = self.plans.insert(name.clone(), path.to_owned()) {
                let right = format!("another name: {before} has it already");
                return Err(refusal(key, name, &right));
            }
        }
        for variant in &service.variants {
            for (key, backend) in backends(variant) {
                let before = self.backends.insert(backend.clone(), path.to_owned());
                if let Some(before) = before.filter(|before| before != path) {
                    let right = format!("that of one service: {before} has it already");
                    let key = format!("variants[].{key} of {}", variant.name);
                    return Err(refusal(key, backend, &right));
                }
            }
        }
        Ok(())
    }

    /// Whether a variant has a backend.
    pub(crate) fn is_any(variant: &Variant) -> bool {
        backends(variant).next().is_some()
    }

    /// Whether a service has a backend of this variant.
    pub(crate) fn has(&self, variant: &Variant) -> bool {
        backends(variant).any(|(_, backend)| self.backends.contains_key(&backend))
    }
}

/// Returns the key and the value of each backend of a variant.
fn backends(variant: &Variant) -> impl Iterator<Item = (&'static str, String)> {
    let resize = variant.resize.as_ref();
    let resize = resize.map(|url| ("resize", url.to_string()));
    let cgroup = variant.cgroup.clone().map(|group| ("cgroup", group));
    resize.into_iter().chain(cgroup)
}
