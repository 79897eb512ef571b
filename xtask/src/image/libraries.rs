//! Shared libraries of a program and its loader, as `ldd` finds them on this machine.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Returns their paths, sorted; none for a statically linked program.
pub(super) fn of(program: &Path) -> Result<BTreeSet<PathBuf>> {
    let output = Command::new("ldd").arg(program).output();
    let output = output.context("cannot run ldd")?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if [&stdout, &complaint]
        .iter()
        .any(|it| it.contains("not a dynamic executable"))
    {
        return Ok(BTreeSet::new());
    }
    if !output.status.success() {
        bail!("ldd {}: {}", program.display(), complaint.trim());
    }
    found(&stdout)
}

/// Parses `libc.so.6 => /lib/libc.so.6 (0x…)`, `/lib64/ld-linux-x86-64.so.2 (0x…)`, `linux-vdso.so.1 (0x…)`.
fn found(listing: &str) -> Result<BTreeSet<PathBuf>> {
    let mut libraries = BTreeSet::new();
    for line in listing.lines().map(str::trim) {
        if line.contains("=> not found") {
            bail!("{line}: install it");
        }
        let place = line.split_once("=> ").map_or(line, |(_, place)| place);
        let path = place.split_whitespace().next().unwrap_or_default();
        if path.starts_with('/') {
            libraries.insert(PathBuf::from(path));
        }
    }
    Ok(libraries)
}

#[cfg(test)]
mod tests {
    use super::found;

    #[test]
    fn libraries_with_a_path_are_found() {
        let listing = "\tlinux-vdso.so.1 (0x1)\n\tlibm.so.6 => /lib/libm.so.6 (0x2)\n\
            \tlibc.so.6 => /lib/libc.so.6 (0x3)\n\t/lib64/ld.so.2 (0x4)\n";
        let found: Vec<_> = found(listing).unwrap().into_iter().collect();
        assert_eq!(
            found,
            ["/lib/libc.so.6", "/lib/libm.so.6", "/lib64/ld.so.2"].map(Into::into)
                as [std::path::PathBuf; 3]
        );
    }

    #[test]
    fn missing_library_is_named_in_error() {
        let error = found("\tlibz.so.1 => not found\n").unwrap_err();
        assert!(error.to_string().contains("libz.so.1"), "{error}");
    }
}
