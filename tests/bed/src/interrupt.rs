//! Ctrl-C and the other signals that end a program.

use anyhow::{Context, Result};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The exit code of a program ended by Ctrl-C: 128 and the signal's number.
pub const INTERRUPTED: u8 = 130;

/// Receiver of SIGINT, SIGTERM and SIGHUP.
#[derive(Debug)]
pub struct Interrupt([Signal; 3]);

impl Interrupt {
    /// Starts to catch the signals.
    ///
    /// # Errors
    ///
    /// The signals cannot be caught.
    pub fn new() -> Result<Interrupt> {
        let on = |kind| signal(kind).context("signals cannot be caught");
        Ok(Interrupt([
            on(SignalKind::interrupt())?,
            on(SignalKind::terminate())?,
            on(SignalKind::hangup())?,
        ]))
    }

    /// Waits for the first signal.
    pub async fn wait(&mut self) {
        let [interrupt, terminate, hangup] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
