//! Input of commands: a file, or the standard input.

use std::io::Read;
use std::path::Path;

/// Maximum size of a file, in bytes.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// Reads a file; `-` is the standard input.
///
/// # Errors
/// A file that cannot be read, is larger than [`FILE_BYTES_MAX`], or is not UTF-8.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let mut read = |from: &mut dyn Read| from.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    if path.as_os_str() == "-" {
        read(&mut std::io::stdin().lock())?;
    } else {
        read(&mut std::fs::File::open(path)?)?;
    }
    let fits = u64::try_from(text.len()).is_ok_and(|bytes| bytes <= FILE_BYTES_MAX);
    anyhow::ensure!(fits, "larger than {FILE_BYTES_MAX} bytes");
    Ok(text)
}
