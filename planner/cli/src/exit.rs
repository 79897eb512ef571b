//! Exit codes, the same for every command.

use std::process::ExitCode;

/// Outcome of a command. Each number is documented in [`HELP`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command has done its work.
    Done = 0,
    /// A file is invalid, or something failed.
    Failed = 1,
    /// `weir solve` has no plan that meets all constraints.
    Unsolved = 3,
}

/// Table of the exit codes, at the end of `--help`. Code 2 is clap's own.
pub(crate) const HELP: &str = "\
Exit codes:
  0  done; check: the file has no errors; doctor: all checks passed
  1  an invalid file, or a failure; doctor: a check failed
  2  a wrong command line
  3  solve: no plan meets all constraints, or none was found in time";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
