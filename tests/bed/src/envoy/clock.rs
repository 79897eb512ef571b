//! A wall clock for one Envoy that jumps when a test sets it.
//!
//! Preloads `clock.c` into that process. Never changes its monotonic clock, nor any other process's
//! clock.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use tempfile::NamedTempFile;

use crate::built;

/// A wall clock, initially equal to the machine's.
#[derive(Debug, Clone)]
pub struct Clock {
    library: PathBuf,
    /// Seconds it is ahead of the machine's: an `i64`, mapped into the process.
    offset: Arc<NamedTempFile>,
}

impl Clock {
    /// The machine's time, until it is [`set`](Clock::set).
    ///
    /// # Errors
    ///
    /// The library is not found, or the file cannot be created.
    pub fn new() -> Result<Self> {
        let offset = tempfile::Builder::new().prefix("weir-clock-").tempfile()?;
        let clock = Self {
            library: built::clock()?,
            offset: Arc::new(offset),
        };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the clock to `ahead_s` seconds ahead of the machine's, or behind it if negative.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn set(&self, ahead_s: i64) -> Result<()> {
        // Written in place and never truncated, because it is mapped.
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
