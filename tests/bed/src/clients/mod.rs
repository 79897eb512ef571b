//! Clients that others wrote, as stories send with them: curl, h2load, tritonclient. (The fourth, tonic,
//! is linked in: [`crate::oip::Client`].)
//!
//! Each is a program that is run and whose answer is read; a program that is not there is an error that
//! says so. What is right is the stories' to say.

mod curl;
mod h2load;
mod triton;

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

pub use curl::{Heard, curl};
pub use h2load::{Loaded, h2load};
pub use triton::{Ask, Told, triton};

/// How long a client may take in all. Generous: it only bounds a failing run.
const CLIENT_MAX: Duration = Duration::from_secs(60);

/// Runs a client to its end and returns what it printed.
async fn run(command: &mut Command, what: &str) -> Result<String> {
    command.stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(CLIENT_MAX, command.output());
    let output = output
        .await
        .with_context(|| format!("{what} did not end within {CLIENT_MAX:?}"))?
        .with_context(|| format!("{what} cannot be run"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{what} ended with {}: {}", output.status, said.trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
