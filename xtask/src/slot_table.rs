//! `cargo xtask check-slot-table`: the long model check of the protocol by which workers share a queue. The short
//! check is a test. `docs/explanation/slot-table.md` explains the protocol.

use anyhow::{Context, Result};
use xshell::Shell;

use crate::layout::Layout;
use crate::{compile, replace};

/// Replaces this process by the check, which needs neither Envoy nor a solver.
pub(crate) fn check(layout: &Layout) -> Result<()> {
    const CHECK: &str = "coordination::model::at_length::keeps_its_promises_at_length";
    let sh = Shell::new().context("which folder is this?")?;
    sh.change_dir(&layout.root);
    let filter = ["test", "--package", "weir-filter", "--lib", "--"];
    let only = ["--exact", CHECK, "--ignored", "--nocapture"];
    Err(replace(&mut compile::cargo(
        &sh,
        &[filter.as_slice(), &only].concat(),
    )))
}
