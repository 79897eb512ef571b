//! Unpacks a program from Debian packages into the build folder, with its missing libraries.
//!
//! Versions are those that this system's own `apt-get` would install, checked by apt's signatures. A
//! pinned hash would fail at the next security update, when the archive drops the old package. Never
//! installs anything, and needs no root.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::layout::Layout;
use crate::pinned::{remove, tail};
use crate::version_of;

/// Unpacks `program` of `package` into `folder`, as a wrapper script next to its libraries.
pub(crate) fn unpack(layout: &Layout, package: &str, program: &str, folder: &Path) -> Result<()> {
    let name = Path::new(program).file_name().context("which program?")?;
    let tools = layout.tools();
    fs::create_dir_all(&tools).with_context(|| format!("cannot create {}", tools.display()))?;
    let lock = File::create(tools.join(".lock")).context("cannot create the tools' lock")?;
    lock.lock().context("cannot lock the tools")?;
    let script = folder.join(name);
    if folder.join("stamp").is_file() && version_of(&script).is_ok() {
        return Ok(());
    }
    eprintln!("setup: fetching {package} into {}", folder.display());
    let aside = folder.with_extension("partial");
    remove(&aside)?;
    let packages = aside.join("packages");
    fs::create_dir_all(&packages).context("cannot create a folder")?;
    // The system's package lists may be outdated or missing.
    let fetched = fetch(&packages, package, &[]).or_else(|_| {
        let own = own_lists(&aside)?;
        apt(&packages, &own, &["update"])?;
        fetch(&packages, package, &own)
    })?;
    for file in &fetched {
        let output = Command::new("dpkg-deb")
            .arg("-x")
            .args([file, &aside])
            .output()
            .context("cannot run dpkg-deb")?;
        anyhow::ensure!(
            output.status.success(),
            "dpkg-deb: {}",
            tail(&output.stderr)
        );
    }
    let line = format!(
        "for lib in \"$here\"/usr/lib/*-linux-gnu*; do\n    LD_LIBRARY_PATH=\"$lib:$LD_LIBRARY_PATH\"\n\
         done\nexport LD_LIBRARY_PATH\nexec \"$here/{program}\" \"$@\""
    );
    let version = version_of(&self::script(&aside.join(name), &line)?)?;
    fs::write(aside.join("stamp"), version).context("cannot write the stamp")?;
    remove(&packages)?;
    remove(&aside.join("apt"))?;
    remove(folder)?;
    fs::rename(&aside, folder)
        .with_context(|| format!("cannot move {} into its place", aside.display()))
}

/// Downloads the package and its dependencies that are not installed into the folder.
fn fetch(folder: &Path, package: &str, options: &[String]) -> Result<Vec<PathBuf>> {
    let simulated = ["--simulate", "--no-install-recommends", "install", package];
    let planned = apt(folder, options, &simulated)?;
    let names = planned.lines().filter_map(installed);
    let names: Vec<_> = names.collect();
    anyhow::ensure!(!names.is_empty(), "apt-get would install nothing");
    let names: Vec<_> = std::iter::once("download").chain(names).collect();
    apt(folder, options, &names)?;
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context("cannot read the folder")? {
        let path = entry.context("cannot read the folder")?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            files.push(path);
        }
    }
    Ok(files)
}

/// Returns the package of a line `Inst libev4 (1:4.33-1 Debian:12.14/oldstable [amd64])`.
fn installed(line: &str) -> Option<&str> {
    line.strip_prefix("Inst ")?.split_whitespace().next()
}

/// Creates a private folder for package lists; returns the apt options for it.
fn own_lists(folder: &Path) -> Result<Vec<String>> {
    let own = folder.join("apt");
    let mut options = Vec::new();
    for (option, name) in [("Dir::State::Lists", "lists"), ("Dir::Cache", "cache")] {
        let place = own.join(name);
        for inner in ["partial", "archives/partial"] {
            fs::create_dir_all(place.join(inner)).context("cannot create a folder")?;
        }
        options.push(format!("-o{option}={}", place.display()));
    }
    // The folder belongs to this user; apt's sandbox user could not write into it.
    options.push("-oAPT::Sandbox::User=".to_owned());
    Ok(options)
}

fn apt(folder: &Path, options: &[String], arguments: &[&str]) -> Result<String> {
    let output = Command::new("apt-get")
        .current_dir(folder)
        .arg("--quiet=2")
        .args(options)
        .args(arguments)
        .env("LC_ALL", "C")
        .output()
        .context("there is no apt-get")?;
    if !output.status.success() {
        bail!(
            "apt-get failed; is there a network? It said:\n{}",
            tail(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Writes a shell script in which `$here` is the script's own folder.
pub(crate) fn script(path: &Path, line: &str) -> Result<PathBuf> {
    let text = format!("#!/bin/sh\nhere=$(dirname -- \"$0\")\n{line}\n");
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .with_context(|| format!("cannot make {} a program", path.display()))?;
    Ok(path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_parsed_from_apt_simulation() {
        for (line, package) in [
            (
                "Inst libev4 (1:4.33-1 Debian:12.14/oldstable [amd64])",
                Some("libev4"),
            ),
            (
                "Inst libnghttp2-14 [1.52.0-1] (1.52.0-1+deb12u3 Debian-Security:12 [amd64])",
                Some("libnghttp2-14"),
            ),
            (
                "Conf libev4 (1:4.33-1 Debian:12.14/oldstable [amd64])",
                None,
            ),
            ("Reading package lists...", None),
            ("", None),
        ] {
            assert_eq!(installed(line), package, "{line}");
        }
    }

    #[test]
    fn script_knows_its_own_folder() {
        let folder = std::env::temp_dir().join(format!("weir it's {}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = script(&folder.join("where"), "echo \"$here\" \"$1\"").unwrap();
        let output = Command::new(program).arg("a b").output().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert_eq!(stdout, format!("{} a b\n", folder.display()));
    }
}
