//! Output of the commands.

use std::io::{ErrorKind, Write};

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
