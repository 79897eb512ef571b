//! Fuzz targets of the filter. Each takes any bytes, makes inputs or events of them, and panics where the filter breaks a
//! promise. libFuzzer looks for such bytes (`cargo xtask fuzz`); tests play the committed corpora, and random bytes.
//!
//! The filter's core runs on any machine, so no Envoy is needed: [`envoy`] emulates its side.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a panic is a finding"
)]

mod bytes;
pub mod envoy;
mod input;
mod shell;
mod workers;

/// Variable that names the target for libFuzzer's program.
pub const TARGET_VARIABLE: &str = "WEIR_FUZZ";

/// Fuzz target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Everything that reads bytes of others: configuration, plans, tables, headers, paths, messages.
    Bytes,
    /// One to three workers of a proxy over one slot table.
    Engine,
    /// One worker behind an emulated Envoy, with its events in any order.
    Shell,
}

impl Target {
    /// All targets.
    pub const ALL: [Target; 3] = [Target::Bytes, Target::Engine, Target::Shell];

    /// Name of its corpus, and for the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Target::Bytes => "bytes",
            Target::Engine => "engine",
            Target::Shell => "shell",
        }
    }

    /// Target of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Target> {
        Target::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Plays these bytes.
    ///
    /// # Panics
    ///
    /// The filter breaks a promise.
    pub fn run(self, data: &[u8]) {
        match self {
            Target::Bytes => bytes::run(data),
            Target::Engine => workers::run(data),
            Target::Shell => shell::run(data),
        }
    }
}
