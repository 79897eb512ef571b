//! Programs of the tests that cargo does not build: tritonclient, h2load, curl, node, Chromium, promtool, MLServer.
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
const MLSERVER: Pinned = Pinned {
    name: "mlserver",
    what: "MLServer 1.7.1 with scikit-learn",
    instead: "install Python 3.11 or 3.12 with pip (Debian: python3 python3-pip)",
    compiled: true,
};
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

/// Returns a Python that can import MLServer and its scikit-learn runtime.
pub(crate) fn mlserver(layout: &Layout) -> Result<PathBuf> {
    with_packages(&MLSERVER, "import mlserver, mlserver_sklearn", layout)
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
