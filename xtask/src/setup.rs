//! Provides the requirements of a task beyond cargo, as an environment.
//!
//! Prefers the user's tools over fetched ones. Never accesses the network if nothing is missing, needs no
//! root, and prints one line for each action.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use xshell::{Shell, cmd};

use crate::clients::Clients;
use crate::layout::{BROWSER_TARGET, Layout, WASM_TARGET};
use crate::native::Native;
use crate::pinned::Pinned;
use crate::version_of;

const ENVOY: Pinned = Pinned {
    name: "envoy",
    what: "Envoy 1.40.0",
    instead: "set WEIR_ENVOY=/path/to/envoy (1.34 or later)",
    compiled: false,
};
/// First version with the Wasm failure policies that `envoy/weir.yaml` uses.
const ENVOY_MIN: (u32, u32) = (1, 34);

/// Tools of a task, all available.
pub(crate) struct Tools {
    envoy: Envoy,
    /// Build tools of HiGHS.
    native: Option<Native>,
    /// Clients of the tests.
    clients: Option<Clients>,
}

/// Envoy that starts.
pub(crate) struct Envoy {
    /// Path of the program.
    pub(crate) path: PathBuf,
    /// Version as in `1.40.0`.
    version: String,
}

impl Tools {
    /// Fetches missing tools.
    pub(crate) fn ensure(layout: &Layout) -> Result<Self> {
        target(layout, WASM_TARGET)?;
        target(layout, BROWSER_TARGET)?;
        let envoy = envoy(layout)?;
        Ok(Self {
            envoy,
            native: None,
            clients: None,
        })
    }

    /// Fetches missing tools, including the build tools of HiGHS.
    pub(crate) fn ensure_with_highs(layout: &Layout) -> Result<Self> {
        let tools = Self::ensure(layout)?;
        let native = Some(Native::ensure(layout)?);
        Ok(Self { native, ..tools })
    }

    /// Fetches missing tools, including the build tools of HiGHS and the clients of the tests.
    pub(crate) fn ensure_for_tests(layout: &Layout) -> Result<Self> {
        let tools = Self::ensure_with_highs(layout)?;
        let clients = Some(Clients::ensure(layout)?);
        Ok(Self { clients, ..tools })
    }

    /// Returns a shell in the workspace's root with the environment of every task.
    pub(crate) fn shell(&self, layout: &Layout) -> Result<Shell> {
        let sh = Shell::new()?;
        sh.change_dir(&layout.root);
        for (name, value) in self.variables(layout) {
            sh.set_var(name, value);
        }
        if let Some(folder) = self.cmake() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let folders = std::iter::once(folder.clone()).chain(std::env::split_paths(&path));
            sh.set_var(
                "PATH",
                std::env::join_paths(folders).context("PATH cannot be extended")?,
            );
        }
        Ok(sh)
    }

    /// Returns the environment as lines for a POSIX shell.
    pub(crate) fn exports(&self, layout: &Layout) -> Result<String> {
        let mut lines = String::new();
        if let Some(folder) = self.cmake() {
            writeln!(lines, "export PATH={}:\"$PATH\"", quoted(folder)?)?;
        }
        for (name, value) in self.variables(layout) {
            writeln!(lines, "export {name}={}", quoted(&value)?)?;
        }
        Ok(lines)
    }

    /// Describes the tools in one line.
    pub(crate) fn summary(&self) -> String {
        let mut summary = format!(
            "Envoy {} ({})",
            self.envoy.version,
            self.envoy.path.display()
        );
        if let Some(native) = &self.native {
            summary += &native.summary();
        }
        summary
    }

    /// Folder for `PATH`.
    fn cmake(&self) -> Option<&PathBuf> {
        self.native.as_ref()?.cmake.as_ref()
    }

    fn variables(&self, layout: &Layout) -> Vec<(&'static str, PathBuf)> {
        let mut variables = vec![
            ("WEIR_ENVOY_BIN", self.envoy.path.clone()),
            ("WEIR_FILTER_WASM", layout.filter()),
            ("WEIR_FILTER_TRAP_WASM", layout.trapping_filter()),
            ("WEIR_CLOCK_LIB", layout.clock()),
            ("WEIR_BIN", layout.binary("weir")),
            ("WEIR_CONSOLE", layout.console()),
        ];
        let libclang = self
            .native
            .as_ref()
            .and_then(|native| native.libclang.clone());
        variables.extend(libclang.map(|folder| ("LIBCLANG_PATH", folder)));
        if let Some(clients) = &self.clients {
            variables.push(("WEIR_TRITONCLIENT", clients.tritonclient.clone()));
            variables.push(("WEIR_H2LOAD", clients.h2load.clone()));
            variables.push(("WEIR_NODE", clients.node.clone()));
            variables.push(("WEIR_CHROMIUM_BIN", clients.browser.chromium.clone()));
            variables.push(("WEIR_NODE_PACKAGES", clients.browser.packages.clone()));
            variables.push(("WEIR_CONSOLE_PAGE", layout.console_page()));
        }
        variables
    }
}

/// Returns a shell in the workspace's root that can compile for browsers, without the other tools.
pub(crate) fn for_browsers(layout: &Layout) -> Result<Shell> {
    target(layout, BROWSER_TARGET)?;
    let sh = Shell::new()?;
    sh.change_dir(&layout.root);
    Ok(sh)
}

/// Returns the user's Envoy if `WEIR_ENVOY` is set, otherwise the pinned one.
pub(crate) fn envoy(layout: &Layout) -> Result<Envoy> {
    if let Some(given) = std::env::var_os("WEIR_ENVOY").filter(|given| !given.is_empty()) {
        let path = std::path::absolute(&given).context("where is this folder?")?;
        let version = envoy_version(&path)
            .with_context(|| format!("WEIR_ENVOY={} cannot be used", path.display()))?;
        eprintln!(
            "setup: using WEIR_ENVOY={} (Envoy {version})",
            path.display()
        );
        return Ok(Envoy { path, version });
    }
    let program = |folder: &Path| folder.join("envoy/_bin/envoy");
    let folder = ENVOY.ensure(layout, |folder| envoy_version(&program(folder)).map(drop))?;
    let path = program(&folder);
    let version = envoy_version(&path)?;
    Ok(Envoy { path, version })
}

fn envoy_version(program: &Path) -> Result<String> {
    let line = version_of(program)?;
    read_version(&line).with_context(|| format!("{} --version says '{line}'", program.display()))
}

/// Parses `envoy  version: <commit>/1.40.0/Clean/RELEASE/BoringSSL`.
fn read_version(line: &str) -> Result<String> {
    let built = line
        .split_once("version: ")
        .and_then(|(_, built)| built.split('/').nth(1));
    let version = built.context("that is no Envoy")?;
    let mut numbers = version
        .split(['.', '-'])
        .map_while(|number| number.parse::<u32>().ok());
    let (Some(major), Some(minor)) = (numbers.next(), numbers.next()) else {
        bail!("'{version}' is no version");
    };
    let (min_major, min_minor) = ENVOY_MIN;
    if (major, minor) < ENVOY_MIN {
        bail!("Envoy {version} is too old: {min_major}.{min_minor} or later is needed");
    }
    Ok(version.to_owned())
}

fn target(layout: &Layout, target: &str) -> Result<()> {
    let sh = Shell::new()?;
    sh.change_dir(&layout.root);
    let sysroot = cmd!(sh, "rustc --print sysroot")
        .quiet()
        .read()
        .context("cannot run rustc")?;
    let installed = || {
        Path::new(&sysroot)
            .join("lib/rustlib")
            .join(target)
            .join("lib")
    };
    if installed().is_dir() {
        return Ok(());
    }
    eprintln!("setup: adding the {target} target");
    cmd!(sh, "rustup target add {target}")
        .quiet()
        .run()
        .with_context(|| {
            format!(
                "the toolchain in {sysroot} cannot compile for {target}; with rustup and a \
             network, `rustup target add {target}` adds it; without rustup, install your \
             distribution's package for it"
            )
        })?;
    anyhow::ensure!(
        installed().is_dir(),
        "rustup added {target} to another toolchain"
    );
    Ok(())
}

fn quoted(path: &Path) -> Result<String> {
    let path = path.to_str().context("a path is not UTF-8")?;
    Ok(format!("'{}'", path.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn envoy_below_minimum_version_is_refused() {
        let line_of =
            |version: &str| format!("envoy  version: 9e55809/{version}/Clean/RELEASE/BoringSSL");
        for (line, expected) in [
            (line_of("1.40.0"), Ok("1.40.0")),
            (line_of("1.41.0-dev"), Ok("1.41.0-dev")),
            (line_of("2.0.0"), Ok("2.0.0")),
            (line_of("1.33.14"), Err("too old")),
            (line_of("main"), Err("no version")),
            ("ls (GNU coreutils) 9.1".to_owned(), Err("no Envoy")),
            (String::new(), Err("no Envoy")),
        ] {
            match (read_version(&line), expected) {
                (Ok(version), Ok(expected)) => assert_eq!(version, expected),
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{line}: {error}");
                }
                (got, expected) => panic!("{line}: {got:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn path_stays_one_word_in_a_shell() {
        assert_eq!(quoted(Path::new("/a b/it's")).unwrap(), r"'/a b/it'\''s'");
    }
}
