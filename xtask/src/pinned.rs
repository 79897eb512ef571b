//! Installs a program from its Python package into the build folder, pinned by hash.
//!
//! Reinstalls if the requirements file has changed: a stamp file has its text, and is written last.
//! Atomic: an installation is completed elsewhere and renamed. Never changes the system or the user's
//! packages.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::layout::Layout;
use crate::version_of;

/// Systems whose packages the requirements files name.
const SYSTEMS: [(&str, &str); 2] = [("linux", "x86_64"), ("linux", "aarch64")];
/// Maximum number of lines of pip's output in an error message.
const TAIL_LINES_MAX: usize = 6;

/// Program distributed as a Python package.
pub(crate) struct Pinned {
    /// Folder in the tools folder, and `<name>` of `xtask/requirements-<name>.txt`.
    pub(crate) name: &'static str,
    /// Description in the line printed during installation.
    pub(crate) what: &'static str,
    /// Instructions for users who supply the program themselves.
    pub(crate) instead: &'static str,
    /// Whether its packages are compiled for one version of Python; another Python then reinstalls.
    pub(crate) compiled: bool,
}

impl Pinned {
    /// Installs the program if necessary, and returns its folder.
    ///
    /// `check` gets the folder and tests whether the program works on this machine.
    pub(crate) fn ensure(
        &self,
        layout: &Layout,
        check: impl Fn(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let requirements = layout
            .root
            .join(format!("xtask/requirements-{}.txt", self.name));
        let expected = fs::read_to_string(&requirements)
            .with_context(|| format!("cannot read {}", requirements.display()))?;
        let expected = if self.compiled {
            format!(
                "{expected}# {}\n",
                version_of(Path::new(python_with_pip()?))?
            )
        } else {
            expected
        };
        let tools = layout.tools();
        let folder = tools.join(self.name);
        if is_stamped(&folder, &expected) {
            return Ok(folder);
        }
        fs::create_dir_all(&tools).with_context(|| format!("cannot create {}", tools.display()))?;
        // Of two concurrent commands the second waits here, then finds the stamp.
        let lock = File::create(tools.join(".lock")).context("cannot create the tools' lock")?;
        lock.lock().context("cannot lock the tools")?;
        if is_stamped(&folder, &expected) {
            return Ok(folder);
        }
        let aside = tools.join(format!(".{}.partial", self.name));
        remove(&aside)?;
        self.install(&requirements, &aside)
            .and_then(|()| check(&aside))
            .with_context(|| {
                format!(
                    "{} could not be installed; instead you can {}",
                    self.what, self.instead
                )
            })?;
        fs::write(aside.join("stamp"), expected).context("cannot write the stamp")?;
        remove(&folder)?;
        fs::rename(&aside, &folder)
            .with_context(|| format!("cannot move {} into its place", aside.display()))?;
        Ok(folder)
    }

    fn install(&self, requirements: &Path, into: &Path) -> Result<()> {
        let system = (std::env::consts::OS, std::env::consts::ARCH);
        if !SYSTEMS.contains(&system) {
            bail!("no package is pinned for {} {}", system.0, system.1);
        }
        let python = python_with_pip()?;
        eprintln!(
            "setup: fetching {} into {}",
            self.what,
            into.with_file_name(self.name).display()
        );
        let output = Command::new(python)
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-input",
                "--no-compile",
            ])
            .args(["--require-hashes", "--only-binary", ":all:", "--no-deps"])
            .arg("--target")
            .arg(into)
            .arg("--requirement")
            .arg(requirements)
            // A user's pip configuration may name mirrors; these two would forbid --target.
            .env("PIP_USER", "0")
            .env("PIP_REQUIRE_VIRTUALENV", "0")
            .env("PIP_DISABLE_PIP_VERSION_CHECK", "1")
            .output()
            .context("cannot run pip")?;
        if !output.status.success() {
            bail!(
                "pip failed; is there a network? It said:\n{}",
                tail(&output.stderr)
            );
        }
        Ok(())
    }
}

/// Returns a Python with pip.
pub(crate) fn python_with_pip() -> Result<&'static str> {
    const NAMES: [&str; 3] = ["python3", "/usr/bin/python3", "python"];
    let has = |python: &str, args: &[&str]| {
        Command::new(python)
            .args(args)
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if let Some(python) = NAMES
        .into_iter()
        .find(|python| has(python, &["-m", "pip", "--version"]))
    {
        return Ok(python);
    }
    if NAMES.into_iter().any(|python| has(python, &["--version"])) {
        bail!(
            "python3 has no pip: install it (Debian: python3-pip; or python3 -m ensurepip --user)"
        );
    }
    bail!("there is no python3: install it with pip (Debian: python3 python3-pip)")
}

fn is_stamped(folder: &Path, expected: &str) -> bool {
    fs::read_to_string(folder.join("stamp")).is_ok_and(|stamp| stamp == expected)
}

pub(crate) fn remove(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

pub(crate) fn tail(output: &[u8]) -> String {
    let output = String::from_utf8_lossy(output);
    let lines: Vec<_> = output
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    let from = lines.len().saturating_sub(TAIL_LINES_MAX);
    lines
        .into_iter()
        .skip(from)
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}
