//! Output of the commands: standard output, and files.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Writes to standard output. A closed pipe is no error: the reader, for example `head`, has enough.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn print(text: impl AsRef<[u8]>) -> anyhow::Result<()> {
    match std::io::stdout().lock().write_all(text.as_ref()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a file at once: never half of it.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let beside = part(path);
    let about = || path.display().to_string();
    fs::write(&beside, text).with_context(about)?;
    fs::rename(&beside, path).with_context(about)
}

/// Tries whether a file can be written, and leaves it as it is.
///
/// # Errors
/// It cannot.
pub(crate) fn try_write(path: &Path) -> anyhow::Result<()> {
    let about = || path.display().to_string();
    anyhow::ensure!(
        !path.is_dir(),
        "{}: a folder; it must be a file",
        path.display()
    );
    let beside = part(path);
    fs::write(&beside, "").with_context(about)?;
    fs::remove_file(&beside).with_context(about)
}

/// File beside another one, which it becomes once it is whole.
pub(crate) fn part(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".part");
    beside.into()
}
