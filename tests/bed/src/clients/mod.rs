//! Third-party clients for tests: curl, h2load, tritonclient. (A fourth, tonic, is linked in:
//! [`crate::oip::Client`].)
//!
//! Each is run as a child process and its output is parsed; a missing program is an error that says
//! so. The assertions are in the tests.

mod curl;
mod h2load;
mod triton;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

pub use curl::{Heard, curl};
pub use h2load::{Loaded, h2load};
pub use triton::{TritonOptions, TritonResults, triton};

/// Time limit for one run of a client. Generous: it only bounds a failing test.
const CLIENT_MAX: Duration = Duration::from_secs(60);

/// Runs a client until it exits and returns its standard output.
async fn run(command: &mut Command, what: &str) -> Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(CLIENT_MAX, command.output());
    let output = output
        .await
        .with_context(|| format!("{what} did not exit within {CLIENT_MAX:?}"))?
        .with_context(|| format!("{what} cannot be run"))?;
    if !output.status.success() {
        let message = String::from_utf8_lossy(&output.stderr);
        bail!("{what} exited with {}: {}", output.status, message.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
