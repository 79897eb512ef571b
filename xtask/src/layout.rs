//! Paths of the workspace, its build folder, the fetched tools, and cargo's outputs.
//!
//! Only names paths; never creates or removes anything.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Compilation target of the filter.
pub(crate) const WASM_TARGET: &str = "wasm32-wasip1";
/// Compilation target of solvers and replay for browsers.
pub(crate) const BROWSER_TARGET: &str = "wasm32-unknown-unknown";
/// File name of the filter module.
const MODULE: &str = "weir_filter.wasm";

/// Folders of a task.
pub(crate) struct Layout {
    /// Root of the workspace.
    pub(crate) root: PathBuf,
    /// Cargo's build folder, which may be configured.
    target: PathBuf,
    /// Folder of the profile in it, with the programs.
    binaries: PathBuf,
}

impl Layout {
    /// Finds the workspace in which this program was compiled, and its build folder.
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

    /// Folder of the fetched tools, with a folder for each package.
    pub(crate) fn tools(&self) -> PathBuf {
        self.target.join("tools")
    }

    /// Path of the replay for browsers.
    pub(crate) fn browser_module(&self) -> PathBuf {
        let folder = self.target.join(BROWSER_TARGET);
        folder.join("debug/weir-browser.wasm")
    }

    /// Path of the report that it must give.
    pub(crate) fn browser_report(&self) -> PathBuf {
        self.target.join("browser.json")
    }

    /// Folder of the planner whose API is tested.
    pub(crate) fn api(&self) -> PathBuf {
        self.target.join("api")
    }

    /// Folder of the console's module and its bindings.
    pub(crate) fn console(&self) -> PathBuf {
        self.target.join("console-module")
    }

    /// Path of the console's module before its bindings are made.
    pub(crate) fn console_module(&self) -> PathBuf {
        let folder = self.target.join(BROWSER_TARGET);
        folder.join("console/weir_console.wasm")
    }

    /// Folder of the console's page as the book has it.
    pub(crate) fn console_book(&self) -> PathBuf {
        self.target.join("console-book")
    }

    /// Path of that page.
    pub(crate) fn console_page(&self) -> PathBuf {
        self.console_book().join("console.html")
    }

    /// Folder of the experiments' report.
    pub(crate) fn experiments(&self) -> PathBuf {
        self.target.join("experiments")
    }

    /// Path of a program of the workspace.
    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// Path of the filter module for Envoy.
    pub(crate) fn filter(&self) -> PathBuf {
        self.target.join("filter").join(MODULE)
    }

    /// Separate build folder of the fuzz targets, whose flags differ, with what they find.
    pub(crate) fn fuzz(&self) -> PathBuf {
        self.target.join("fuzz")
    }

    /// The book, as HTML.
    pub(crate) fn book(&self) -> PathBuf {
        self.target.join("book")
    }

    /// Folder of the images, with a folder for each.
    pub(crate) fn images(&self) -> PathBuf {
        self.target.join("image")
    }

    /// Folder of the counts by which `weir` is compiled for release.
    pub(crate) fn counts(&self) -> PathBuf {
        self.target.join("counts")
    }

    /// Folder of the shipped scenarios.
    pub(crate) fn scenarios(&self) -> PathBuf {
        self.root.join("planner/scenarios")
    }

    /// Path of the planner for its image, and of the command line for release.
    pub(crate) fn released_planner(&self) -> PathBuf {
        self.target.join("release/weir")
    }

    /// Path of the filter module before trimming.
    pub(crate) fn filter_untrimmed(&self) -> PathBuf {
        self.target.join(WASM_TARGET).join("wasm").join(MODULE)
    }

    /// Path of the preloaded wall clock that jumps.
    pub(crate) fn clock(&self) -> PathBuf {
        self.tools().join("clock/libclock.so")
    }

    /// Separate build folder of the module that traps on demand, so that it is never mistaken for the real
    /// one.
    pub(crate) fn trap(&self) -> PathBuf {
        self.target.join("trap")
    }

    /// Path of the filter module that traps on demand.
    pub(crate) fn trapping_filter(&self) -> PathBuf {
        self.trap().join("filter").join(MODULE)
    }

    /// Path of that module before trimming.
    pub(crate) fn trapping_filter_untrimmed(&self) -> PathBuf {
        self.trap().join(WASM_TARGET).join("wasm").join(MODULE)
    }
}
