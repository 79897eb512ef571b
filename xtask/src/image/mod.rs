//! `cargo xtask image`: writes images of the filter and the planner as OCI layouts that any tool can push.
//!
//! Never contacts a registry, and needs neither a daemon nor root. Equal files give equal bytes:
//! see [`oci`].

mod libraries;
mod oci;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::compile;
use crate::layout::Layout;
use crate::setup::Tools;
use oci::{Entry, Image};

/// File name of the filter in its image, which Istio and Envoy Gateway require.
const MODULE: &str = "plugin.wasm";
/// Path of the planner in its image.
const PLANNER: &str = "usr/local/bin/weir";
/// Unprivileged user of the planner, as in `k8s/base/deployment.yaml`.
const USER: &str = "65532:65532";

/// Programs to pack; those not given are built.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Filter module to pack, instead of building one.
    #[arg(long, value_name = "FILE")]
    filter: Option<PathBuf>,
    /// Planner to pack, instead of building one without debug assertions.
    #[arg(long, value_name = "FILE")]
    planner: Option<PathBuf>,
}

/// Writes `target/image/filter` and `target/image/planner`, and prints their digests.
pub(crate) fn make(layout: &Layout, arguments: &Arguments) -> Result<()> {
    let (filter, planner) = match (&arguments.filter, &arguments.planner) {
        (Some(filter), Some(planner)) => (filter.clone(), planner.clone()),
        (filter, planner) => {
            let tools = Tools::ensure(layout)?;
            let sh = tools.shell(layout)?;
            if filter.is_none() {
                compile::filter(&sh, layout)?;
            }
            if planner.is_none() {
                compile::planner_for_release(&sh, layout)?;
            }
            (
                filter.clone().unwrap_or_else(|| layout.filter()),
                planner.clone().unwrap_or_else(|| layout.released_planner()),
            )
        }
    };
    for (name, image) in [
        ("filter", filter_image(&filter)?),
        ("planner", planner_image(&planner)?),
    ] {
        let folder = layout.images().join(name);
        let digest = image.write(&folder)?;
        println!("{} sha256:{digest}", folder.display());
    }
    Ok(())
}

/// Image of the filter in the *compat* variant of the Wasm image specification: one layer, an archive with the
/// module. Istio's fetcher, which Envoy Gateway shares, refuses an image whose only layer is the module itself.
fn filter_image(module: &Path) -> Result<Image> {
    let bytes = read(module)?;
    ensure!(
        bytes.starts_with(b"\0asm"),
        "{} is no wasm module",
        module.display()
    );
    Ok(Image {
        entries: vec![Entry::new(MODULE, bytes, 0o644)],
        entrypoint: Vec::new(),
        user: None,
        annotations: vec![("module.wasm.image/variant", "compat")],
        title: "weir-filter",
    })
}

/// Image of the planner with only the program and its shared libraries: no shell, package manager or certificates
/// (the API server's come with the service account). Statically linked glibc would need files for name resolution that
/// the image does not have.
fn planner_image(program: &Path) -> Result<Image> {
    let mut entries = vec![Entry::new(PLANNER, read(program)?, 0o755)];
    for library in libraries::of(program)? {
        let path = library.to_str().context("a library's path is not UTF-8")?;
        let path = path.trim_start_matches('/').to_owned();
        entries.push(Entry::new(path, read(&library)?, 0o755));
    }
    Ok(Image {
        entries,
        entrypoint: vec![format!("/{PLANNER}")],
        user: Some(USER),
        annotations: Vec::new(),
        title: "weir-planner",
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

#[cfg(test)]
mod tests;
