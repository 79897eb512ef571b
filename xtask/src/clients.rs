//! Programs of the tests that cargo does not build: tritonclient, h2load, curl, node, Chromium, promtool, model servers.
//!
//! Uses the system's, or fetches them into the build folder. Never needs root. A missing client is an error
//! that names the package to install; no test is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::chromium::Browser;
use crate::layout::Layout;
use crate::node::Node;
use crate::pinned::{Pinned, python_with_pip};
use crate::{debian, promtool, version_of};

const TRITONCLIENT: Pinned = Pinned {
    name: "tritonclient",
    what: "tritonclient 2.73.0",
    instead: "install Python 3.11 to 3.14 with pip (Debian: python3 python3-pip)",
    compiled: true,
};
/// Model servers, each with a script that imports it.
const MODEL_SERVERS: [(Pinned, &str); 5] = [
    (
        model_server("mlserver", "MLServer 1.7.1 with scikit-learn"),
        "import mlserver, mlserver_sklearn",
    ),
    // The package's own import needs more than the server does.
    (
        model_server("triton", "Triton of nvidia-pytriton 0.7.0"),
        "import numpy, importlib.util; assert importlib.util.find_spec('pytriton')",
    ),
    (model_server("mosec", "mosec 0.9.8"), "import mosec"),
    (model_server("ray", "Ray Serve 2.60.0"), "import ray.serve"),
    (
        model_server("kserve", "the model server of KServe 0.21.0"),
        "import kserve",
    ),
];

const fn model_server(name: &'static str, what: &'static str) -> Pinned {
    Pinned {
        name,
        what,
        instead: "install Python 3.11 or 3.12 with pip (Debian: python3 python3-pip)",
        compiled: true,
    }
}
/// Environment variable with the path of an h2load.
const H2LOAD: &str = "WEIR_H2LOAD";

/// Clients of the tests.
pub(crate) struct Clients {
    /// Python interpreter that finds tritonclient.
    pub(crate) tritonclient: PathBuf,
    /// nghttp2's load generator.
    pub(crate) h2load: PathBuf,
    /// Node.
    pub(crate) node: PathBuf,
    /// Browser, with the packages that drive it.
    pub(crate) browser: Browser,
}

impl Clients {
    /// Fetches missing clients.
    pub(crate) fn ensure(layout: &Layout) -> Result<Self> {
        let curl = version_of(Path::new("curl")).context("install curl (Debian: curl)")?;
        anyhow::ensure!(curl.starts_with("curl "), "curl --version says '{curl}'");
        let node = Node::ensure(layout)?;
        promtool::ensure(layout)?;
        Ok(Self {
            tritonclient: tritonclient(layout)?,
            h2load: h2load(layout)?,
            browser: Browser::ensure(layout, &node)?,
            node: node.program,
        })
    }
}

/// Returns a Python that can import tritonclient.
fn tritonclient(layout: &Layout) -> Result<PathBuf> {
    with_packages(
        &TRITONCLIENT,
        "import tritonclient.http, tritonclient.grpc",
        layout,
    )
}

/// Fetches the model servers that a measurement with these arguments needs. Returns the name of each and a Python that can
/// import it.
pub(crate) fn model_servers(
    layout: &Layout,
    arguments: &[String],
) -> Result<Vec<(&'static str, PathBuf)>> {
    let needed = needed_servers(arguments);
    let needed = |name: &str| needed.iter().any(|one| one == name);
    let chosen = MODEL_SERVERS.iter().filter(|(one, _)| needed(one.name));
    chosen
        .map(|(one, script)| Ok((one.name, with_packages(one, script, layout)?)))
        .collect()
}

/// Returns the packages of the servers that these arguments select: see `weir-measure real-server --help`.
fn needed_servers(arguments: &[String]) -> Vec<String> {
    let value = |option: &str| {
        let of_option = |(index, one): (usize, &String)| match one.strip_prefix(option)? {
            "" => arguments.get(index + 1).cloned(),
            value => value.strip_prefix('=').map(str::to_owned),
        };
        arguments.iter().enumerate().rev().find_map(of_option)
    };
    let parts = value("--parts");
    let parts: Vec<&str> = parts.iter().flat_map(|parts| parts.split(',')).collect();
    let is_of_kinds = |part: &&str| matches!(*part, "batching" | "curves");
    let mut needed = Vec::new();
    if parts.is_empty() || !parts.iter().all(is_of_kinds) {
        needed.push("mlserver".to_owned());
    }
    if parts.iter().any(is_of_kinds) {
        match value("--servers") {
            // Kinds of one package are named after it, as in `triton-delay`.
            Some(kinds) => needed.extend(kinds.split(',').map(|kind| {
                let package = kind.split('-').next();
                package.unwrap_or(kind).to_owned()
            })),
            None => needed.extend(MODEL_SERVERS.iter().map(|(one, _)| one.name.to_owned())),
        }
    }
    needed
}

/// Returns a Python that sees only the fetched packages and its own; `script` imports them.
pub(crate) fn with_packages(packages: &Pinned, script: &str, layout: &Layout) -> Result<PathBuf> {
    let check = |folder: &Path| {
        let program = python(folder)?;
        let output = Command::new(program).args(["-c", script]).output();
        let output = output.context("cannot run Python")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(output.status.success(), "it cannot be imported: {stderr}");
        Ok(())
    };
    let folder = packages.ensure(layout, check)?;
    Ok(folder.join("python"))
}

/// Writes the interpreter's script into the folder; it finds the packages relative to itself.
fn python(folder: &Path) -> Result<PathBuf> {
    let python = python_with_pip()?;
    let set = "PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=\"$here\"";
    debian::script(
        &folder.join("python"),
        &format!("{set} exec {python} \"$@\""),
    )
}

/// Returns the named h2load, the system's, or one unpacked from Debian's package.
fn h2load(layout: &Layout) -> Result<PathBuf> {
    if let Some(given) = std::env::var_os(H2LOAD).filter(|given| !given.is_empty()) {
        let path = std::path::absolute(&given).context("where is this folder?")?;
        version_of(&path).with_context(|| format!("{H2LOAD}={} cannot be used", path.display()))?;
        return Ok(path);
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&on_path).map(|folder| folder.join("h2load"));
    if let Some(found) = places.find(|path| version_of(path).is_ok()) {
        return Ok(found);
    }
    let folder = layout.tools().join("h2load");
    let program = folder.join("h2load");
    if fs::read_to_string(folder.join("stamp")).is_ok() && version_of(&program).is_ok() {
        return Ok(program);
    }
    debian::unpack(layout, "nghttp2-client", "usr/bin/h2load", &folder).context(
        "h2load could not be fetched; instead you can install it (Debian: nghttp2-client) or set \
         WEIR_H2LOAD=/path/to/h2load",
    )?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needed(arguments: &str) -> String {
        let arguments: Vec<String> = arguments.split_whitespace().map(str::to_owned).collect();
        needed_servers(&arguments).join(" ")
    }

    #[test]
    fn only_selected_model_servers_are_fetched() {
        assert_eq!(needed("--seeds 2"), "mlserver");
        assert_eq!(needed("--parts loads,burst --servers ray"), "mlserver");
        assert_eq!(
            needed("--parts curves --servers triton,triton-delay"),
            "triton triton"
        );
        assert_eq!(
            needed("--parts=batching --servers=mosec,mlserver-batching"),
            "mosec mlserver"
        );
        assert_eq!(
            needed("--parts batching"),
            "mlserver triton mosec ray kserve"
        );
        assert_eq!(
            needed("--parts loads,curves --servers kserve"),
            "mlserver kserve"
        );
    }
}
