//! How an Envoy is started, beside what is configured: its clock, how it drains, whom it succeeds.
//!
//! Decides the command line; never what is in the configuration.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::clock::Clock;

/// Where a process that others may succeed writes its base id.
const BASE_ID: &str = "base-id";

/// The command line's part that a story may choose.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// Its wall clock, where that is not the machine's.
    pub clock: Option<Clock>,
    /// How long a drain takes, in whole seconds; Envoy's default is ten minutes.
    pub drain_time: Option<Duration>,
    /// Its place in a row of hot restarts; none: it takes part in none.
    pub restart: Option<Restart>,
}

/// A place in a row of hot restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The first, which has nobody to take over from.
    First,
    /// Takes the listeners over from `envoy.base_id()`, and ends it after `parent_shutdown`.
    Next {
        /// Shared by the whole row.
        base_id: u32,
        /// How many came before.
        epoch: u32,
        /// When its predecessor is ended, in whole seconds; Envoy's default is 15 minutes.
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
            // Several Envoys run at once, none of which takes over from another.
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

    /// The row's base id, once the process in `folder` is ready.
    pub(super) fn base_id(&self, folder: &Path) -> Result<Option<u32>> {
        match self.restart {
            None => Ok(None),
            Some(Restart::Next { base_id, .. }) => Ok(Some(base_id)),
            Some(Restart::First) => {
                let text = std::fs::read_to_string(folder.join(BASE_ID));
                let text = text.context("Envoy has written no base id")?;
                Ok(Some(text.trim().parse().context("Envoy's base id")?))
            }
        }
    }
}

fn seconds(time: Duration) -> String {
    time.as_secs().to_string()
}
