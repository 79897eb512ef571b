//! Reconfigure requests, which tell model servers their cores or their batch size.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reconfigure request to a pod's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reconfigure {
    /// Port that the server listens on.
    pub port: u16,
    /// Path; it or the body contains `{cores}`, `{millicores}` or `{batch}`.
    pub path: String,
    /// POST or PUT.
    pub method: ReconfigureMethod,
    /// Body, usually JSON.
    pub body: String,
    /// Maximum batch size that is sent before a plan has chosen one.
    pub batch: u32,
}

impl Reconfigure {
    /// Whether the request contains the cores.
    pub fn contains_cores(&self) -> bool {
        let has_placeholder =
            |text: &str| text.contains("{cores}") || text.contains("{millicores}");
        has_placeholder(&self.path) || has_placeholder(&self.body)
    }

    /// Whether the request contains the batch size.
    pub fn contains_batch(&self) -> bool {
        self.path.contains(BATCH) || self.body.contains(BATCH)
    }
}

/// Placeholder of the batch size in the path and body of a reconfigure request.
pub const BATCH: &str = "{batch}";

/// HTTP method of a reconfigure request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum ReconfigureMethod {
    /// POST.
    #[default]
    Post,
    /// PUT.
    Put,
}
