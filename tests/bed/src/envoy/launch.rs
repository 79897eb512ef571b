//! Launch options of an Envoy besides its configuration: clock, drain time, hot restart.
//!
//! Builds the command line; never touches the configuration.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::clock::Clock;

/// File in which a process that may be succeeded by hot restart writes its base id.
const BASE_ID: &str = "base-id";

/// Launch options that a test may set.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// Its wall clock; the machine's by default.
    pub clock: Option<Clock>,
    /// Drain time, in whole seconds; Envoy's default is ten minutes.
    pub drain_time: Option<Duration>,
    /// Its place in a sequence of hot restarts; `None`: no hot restart.
    pub restart: Option<Restart>,
}

/// A place in a sequence of hot restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The first process, which has no parent.
    First,
    /// Takes the listeners over from the process with `envoy.base_id()`, and ends it after
    /// `parent_shutdown`.
    Next {
        /// Shared by the whole sequence.
        base_id: u32,
        /// Number of earlier processes.
        epoch: u32,
        /// Time until its parent is ended, in whole seconds; Envoy's default is 15 minutes.
        parent_shutdown: Duration,
    },
}

impl Launch {
    pub(super) fn add_to(&self, command: &mut Command, folder: &Path) {
        if let Some(clock) = &self.clock {
            clock.give_to(command);
        }
        if let Some(time) = self.drain_time {
            command.arg("--drain-time-s").arg(seconds(time));
        }
        match self.restart {
            // Several Envoys run at once, and none takes over from another.
            None => command.arg("--disable-hot-restart"),
            Some(Restart::First) => command
                .arg("--use-dynamic-base-id")
                .arg("--base-id-path")
                .arg(folder.join(BASE_ID)),
            Some(Restart::Next {
                base_id,
                epoch,
                parent_shutdown,
            }) => command
                .args(["--base-id", &base_id.to_string()])
                .args(["--restart-epoch", &epoch.to_string()])
                .args(["--parent-shutdown-time-s", &seconds(parent_shutdown)]),
        };
    }

    /// The base id of the sequence, once the process in `folder` is ready.
    pub(super) fn base_id(&self, folder: &Path) -> Result<Option<u32>> {
        match self.restart {
            None => Ok(None),
            Some(Restart::Next { base_id, .. }) => Ok(Some(base_id)),
            Some(Restart::First) => {
                let text = std::fs::read_to_string(folder.join(BASE_ID));
                let text = text.context("cannot read the base id file")?;
                Ok(Some(text.trim().parse().context("invalid base id")?))
            }
        }
    }
}

fn seconds(time: Duration) -> String {
    time.as_secs().to_string()
}
