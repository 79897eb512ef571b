//! Dynamic configuration of a running Envoy: listeners, or the filter alone, from a watched file.
//!
//! Knows where in the files each belongs; the bootstrap provides the content.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::listeners;
use super::pointer::at;

const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";
const EXTENSION: &str = "type.googleapis.com/envoy.config.core.v3.TypedExtensionConfig";
const WASM: &str = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm";

/// The part of the configuration that is dynamic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discovery {
    /// All listeners, filters included (LDS).
    Listeners,
    /// The configuration of the first listener's filter alone (ECDS), as Istio does it.
    Filter,
}

impl Discovery {
    /// Removes the dynamic part from `config`, leaves a reference to the watched file, and returns that part.
    pub(super) fn take_from(self, config: &mut Value, folder: &Path) -> Result<Value> {
        let source = json!({ "path_config_source": { "path": self.file(folder) } });
        match self {
            Discovery::Listeners => {
                let taken = at(config, "/static_resources/listeners")?.take();
                *at(config, "/static_resources/listeners")? = json!([]);
                let config = config.as_object_mut().context("not an object")?;
                let lds = json!({ "lds_config": source });
                config.insert("dynamic_resources".to_owned(), lds);
                let mut resources = taken;
                for listener in resources.as_array_mut().into_iter().flatten() {
                    let listener = listener.as_object_mut().context("not an object")?;
                    listener.insert("@type".to_owned(), json!(LISTENER));
                }
                Ok(resources)
            }
            Discovery::Filter => {
                let listener = at(config, "/static_resources/listeners/0")?;
                let filter = listeners::filter(listener)?;
                let filter = filter.as_object_mut().context("not an object")?;
                let taken = filter.remove("typed_config");
                let discovered = json!({ "config_source": source, "type_urls": [WASM] });
                filter.insert("config_discovery".to_owned(), discovered);
                let name = filter.get("name").cloned().unwrap_or_default();
                Ok(json!([{ "@type": EXTENSION, "name": name, "typed_config": taken }]))
            }
        }
    }

    /// Writes the watched file. Renames it into place, so that Envoy never reads half of it.
    pub(super) fn write(self, resources: &Value, folder: &Path) -> Result<()> {
        let file = self.file(folder);
        let draft = file.with_extension("draft");
        std::fs::write(&draft, json!({ "resources": resources }).to_string())?;
        std::fs::rename(&draft, &file)?;
        Ok(())
    }

    fn file(self, folder: &Path) -> PathBuf {
        folder.join(match self {
            Discovery::Listeners => "listeners.json",
            Discovery::Filter => "filter.json",
        })
    }
}
