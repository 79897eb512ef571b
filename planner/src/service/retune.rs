//! Requests by which servers are told what they have and are to make.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A request to a pod's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retune {
    /// Where it listens.
    pub port: u16,
    /// With `{cores}`, `{millicores}` or `{batch}` in it, or in the body.
    pub path: String,
    /// POST or PUT.
    pub method: RetuneMethod,
    /// JSON, most likely.
    pub body: String,
    /// Greatest batch that it is told before any plan has chosen one.
    pub batch: u32,
}

impl Retune {
    /// Whether it says the cores.
    pub fn says_cores(&self) -> bool {
        let says = |text: &str| text.contains("{cores}") || text.contains("{millicores}");
        says(&self.path) || says(&self.body)
    }

    /// Whether it says the batch.
    pub fn says_batch(&self) -> bool {
        self.path.contains(BATCH) || self.body.contains(BATCH)
    }
}

/// Stands for the batch in the path and body of a request to a server.
pub const BATCH: &str = "{batch}";

/// How a server is told.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum RetuneMethod {
    /// POST.
    #[default]
    Post,
    /// PUT.
    Put,
}
