//! Configuration of the source of plans.

use serde::Deserialize;
use weir_api::json::Misread;
use weir_api::plan::is_cluster;

use super::error::wrong;
use super::{ConfigError, KEY_MAX, Planner};

/// Planner as written. Each key that a service leaves out is the one that all services share, if there is one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawPlanner {
    cluster: Option<String>,
    authority: Option<String>,
    key: Option<String>,
}

impl RawPlanner {
    /// Takes from `shared` each key that is left out.
    pub(super) fn or(self, shared: RawPlanner) -> RawPlanner {
        RawPlanner {
            cluster: self.cluster.or(shared.cluster),
            authority: self.authority.or(shared.authority),
            key: self.key.or(shared.key),
        }
    }

    pub(super) fn check(self) -> Result<Planner, ConfigError> {
        let planner = Planner {
            cluster: self.cluster.ok_or_else(|| missing("cluster"))?,
            authority: self.authority.unwrap_or_else(|| "weir-planner".to_owned()),
            key: self.key.ok_or_else(|| missing("key"))?,
        };
        for (path, value) in [
            ("planner.cluster", &planner.cluster),
            ("planner.authority", &planner.authority),
        ] {
            if !is_cluster(value) {
                let right = "1 to 256 printable ASCII characters without spaces";
                return Err(wrong(path, format!("'{value}'"), right));
            }
        }
        let printable = planner.key.bytes().all(|b| b.is_ascii_graphic());
        if !printable || !(1..=KEY_MAX).contains(&planner.key.len()) {
            let right = format!("1 to {KEY_MAX} printable ASCII characters without spaces");
            return Err(wrong("planner.key", "(not shown)", right));
        }
        Ok(planner)
    }
}

fn missing(key: &str) -> ConfigError {
    ConfigError::Shape(Misread {
        path: "planner".to_owned(),
        what: format!("missing field `{key}`"),
    })
}
