//! Paths: the workspace, its build folder, the tools fetched into it, the programs that cargo built.
//!
//! Decides names of folders only; never creates or removes anything.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The target the filter is compiled for.
pub(crate) const WASM_TARGET: &str = "wasm32-wasip1";
/// Target of a browser; the solvers must compile for it too.
pub(crate) const BROWSER_TARGET: &str = "wasm32-unknown-unknown";
/// The filter module's name.
const MODULE: &str = "weir_filter.wasm";

/// The folders a task works with.
pub(crate) struct Layout {
    /// The workspace's top level.
    pub(crate) root: PathBuf,
    /// Cargo's build folder, wherever it was told to put it.
    target: PathBuf,
    /// The profile's folder in it, which holds the programs.
    binaries: PathBuf,
}

impl Layout {
    /// The workspace this program was compiled in, and the build folder it lies in.
    pub(crate) fn find() -> Result<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .context("xtask lies at the top of a file system")?
            .to_owned();
        let program = std::env::current_exe().context("where is this program?")?;
        let binaries = program
            .parent()
            .context("this program lies in no folder")?
            .to_owned();
        // Cargo marks its build folder; the profile's folder is one or two levels below it.
        let target = binaries
            .ancestors()
            .find(|folder| folder.join("CACHEDIR.TAG").is_file())
            .map_or_else(|| root.join("target"), Path::to_owned);
        Ok(Self {
            root,
            target,
            binaries,
        })
    }

    /// Tools that setup fetched, one folder per package.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// A program of the workspace.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// The filter module, as Envoy is to load it.
    pub(crate) fn filter(&self) -> PathBuf {
        self.target.join("filter").join(MODULE)
    }

    /// The book, as HTML.
    pub(crate) fn book(&self) -> PathBuf {
        self.target.join("book")
    }

    /// The images, a folder each.
    pub(crate) fn images(&self) -> PathBuf {
        self.target.join("image")
    }

    /// The planner as it is packed into its image.
    pub(crate) fn released_planner(&self) -> PathBuf {
        self.target.join("release/weir")
    }

    /// The filter module, as cargo leaves it.
    pub(crate) fn filter_untrimmed(&self) -> PathBuf {
        self.target.join(WASM_TARGET).join("wasm").join(MODULE)
    }

    /// The wall clock that jumps, to be preloaded.
    pub(crate) fn clock(&self) -> PathBuf {
        self.tools().join("clock/libclock.so")
    }

    /// The build folder of the module that traps on demand: one of its own, so that it can never be
    /// taken for the other.
    pub(crate) fn trap(&self) -> PathBuf {
        self.target.join("trap")
    }

    /// The filter module that traps on demand.
    pub(crate) fn trapping_filter(&self) -> PathBuf {
        self.trap().join("filter").join(MODULE)
    }

    /// The same, as cargo leaves it.
    pub(crate) fn trapping_filter_untrimmed(&self) -> PathBuf {
        self.trap().join(WASM_TARGET).join("wasm").join(MODULE)
    }
}
