//! Files of the project.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Top level of the workspace.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

/// Text of a file, by its path from the top level.
pub(crate) fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Paths from the top level of all files that git tracks, or would.
pub(crate) fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git");
    let names = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<_> = names
        .lines()
        .map(PathBuf::from)
        .filter(|path| root().join(path).is_file())
        .collect();
    assert!(files.len() > 50, "git lists {} files", files.len());
    files
}

/// The same, of these extensions alone.
pub(crate) fn files_with(extensions: &[&str]) -> Vec<PathBuf> {
    let has = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extensions.iter().any(|expected| extension == *expected))
    };
    files().into_iter().filter(has).collect()
}
