//! Build tools of HiGHS: a C++ compiler and make, cmake, libclang.
//!
//! Uses the system's cmake and libclang if they suffice, and fetches them otherwise. Never fetches a
//! compiler: the error names the package to install.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::layout::Layout;
use crate::pinned::Pinned;
use crate::version_of;

const CMAKE: Pinned = Pinned {
    name: "cmake",
    what: "cmake 4.4.4",
    instead: "install cmake 3.15 or later (Debian: cmake)",
    compiled: false,
};
const LIBCLANG: Pinned = Pinned {
    name: "libclang",
    what: "libclang 18.1.1",
    instead: "install libclang (Debian: libclang-dev) or set LIBCLANG_PATH to its folder",
    compiled: false,
};
/// Folders in which distributions install libclang; clang-sys, which loads it, searches them itself.
const LIBRARY_FOLDERS: [&str; 6] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/usr/local/lib",
    "/usr/local/lib64",
];

/// Fetched build tools.
pub(crate) struct Native {
    /// Folder for `PATH`, if the system has no cmake.
    pub(crate) cmake: Option<PathBuf>,
    /// Folder for `LIBCLANG_PATH`, if the system has no libclang.
    pub(crate) libclang: Option<PathBuf>,
}

impl Native {
    /// Fetches missing tools.
    pub(crate) fn ensure(layout: &Layout) -> Result<Native> {
        check_compiler()?;
        Ok(Native {
            cmake: cmake(layout)?,
            libclang: libclang(layout)?,
        })
    }

    /// Describes the tools as part of a line.
    pub(crate) fn summary(&self) -> String {
        let of = |fetched: bool| if fetched { "fetched" } else { "the system's" };
        format!(
            ", cmake {}, libclang {}",
            of(self.cmake.is_some()),
            of(self.libclang.is_some())
        )
    }
}

/// Checks for a C++ compiler and make, which cannot be fetched.
fn check_compiler() -> Result<()> {
    let compiler = std::env::var_os("CXX").map_or_else(|| "c++".into(), PathBuf::from);
    for program in [compiler.as_path(), Path::new("make")] {
        version_of(program).context(
            "HiGHS is compiled here: install a C++ compiler and make (Debian: g++ make)",
        )?;
    }
    Ok(())
}

/// Returns the folder for `PATH` with cmake, or `None` if the system has it.
fn cmake(layout: &Layout) -> Result<Option<PathBuf>> {
    if version_of(Path::new("cmake")).is_ok_and(|version| is_enough(&version)) {
        return Ok(None);
    }
    let programs = |folder: &Path| folder.join("cmake/data/bin");
    let check = |folder: &Path| version_of(&programs(folder).join("cmake")).map(drop);
    Ok(Some(programs(&CMAKE.ensure(layout, check)?)))
}

/// Whether a cmake version is new enough for HiGHS.
fn is_enough(version: &str) -> bool {
    let mut numbers = version
        .trim_start_matches("cmake version ")
        .split('.')
        .map_while(|number| number.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(3), Some(15))
}

/// Returns the folder for `LIBCLANG_PATH`, or `None` if it is set or the system has libclang.
fn libclang(layout: &Layout) -> Result<Option<PathBuf>> {
    if let Some(given) = std::env::var_os("LIBCLANG_PATH") {
        let given = PathBuf::from(given);
        if given.is_file() || holds_libclang(&given) {
            return Ok(None);
        }
        bail!(
            "LIBCLANG_PATH={}: there is no libclang; unset it or correct it",
            given.display()
        );
    }
    if system_folders().iter().any(|folder| holds_libclang(folder)) {
        return Ok(None);
    }
    let library = |folder: &Path| folder.join("clang/native");
    let check = |folder: &Path| {
        let library = library(folder);
        anyhow::ensure!(
            holds_libclang(&library),
            "no libclang in {}",
            library.display()
        );
        Ok(())
    };
    Ok(Some(library(&LIBCLANG.ensure(layout, check)?)))
}

fn system_folders() -> Vec<PathBuf> {
    let mut folders: Vec<_> = LIBRARY_FOLDERS.iter().map(PathBuf::from).collect();
    let llvm = Command::new("llvm-config").arg("--libdir").output();
    if let Ok(output) = llvm {
        folders.push(PathBuf::from(
            String::from_utf8_lossy(&output.stdout).trim(),
        ));
    }
    let installed = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    folders.extend(
        installed
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"))
            .map(|entry| entry.path().join("lib")),
    );
    folders
}

/// Whether the folder has a library that clang-sys loads (`libclang-cpp` is a different one).
fn holds_libclang(folder: &Path) -> bool {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            (name.starts_with("libclang.so") || name.starts_with("libclang-"))
                && name.contains(".so")
                && !name.contains("-cpp.")
        })
}

#[cfg(test)]
mod tests {
    use super::is_enough;

    #[test]
    fn cmake_versions_are_compared_numerically() {
        for (version, enough) in [
            ("cmake version 3.15.0", true),
            ("cmake version 4.4.4", true),
            ("cmake version 3.14.7", false),
            ("cmake version 2.8", false),
            ("", false),
        ] {
            assert_eq!(is_enough(version), enough, "{version}");
        }
    }
}
