//! A wall clock for one Envoy that jumps when a story says so.
//!
//! Decides how that process is deceived: `clock.c`, preloaded. Never touches its monotonic clock, nor
//! anybody else's.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::built;

/// A wall clock, at first the machine's.
#[derive(Debug, Clone)]
pub struct Clock {
    library: PathBuf,
    /// By how many seconds it is ahead: an `i64`, mapped into the process.
    offset: Arc<NamedTempFile>,
}

impl Clock {
    /// The machine's time, until it is [`set`](Clock::set).
    ///
    /// # Errors
    /// The library is not there, or no file can be made.
    pub fn new() -> Result<Self> {
        let offset = tempfile::Builder::new().prefix("weir-clock-").tempfile()?;
        let clock = Self {
            library: built::clock()?,
            offset: Arc::new(offset),
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// From now on it is so many seconds ahead of the machine's, or behind where that is negative.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn set(&self, ahead_s: i64) -> Result<()> {
        // In place and never truncated: it is mapped.
        let file: &File = self.offset.as_file();
        file.write_all_at(&ahead_s.to_ne_bytes(), 0)
            .context("cannot set the clock")
    }

    pub(super) fn give_to(&self, command: &mut Command) {
        command
            .env("LD_PRELOAD", &self.library)
            .env("WEIR_CLOCK", self.offset.path());
    }
}
