//! Experiments of the papers: `weir experiment` with the files of `planner/experiments`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use xshell::Shell;

use crate::layout::Layout;
use crate::{compile, replace};

/// Builds `weir` and plays all experiments, or those that the arguments before the first option name. The report goes
/// into `target/experiments`, unless another folder is given.
pub(crate) fn run(layout: &Layout, passed: impl Iterator<Item = OsString>) -> Result<()> {
    let arguments: Vec<OsString> = passed.collect();
    let is_option = |argument: &OsString| argument.as_encoded_bytes().starts_with(b"-");
    let named = arguments.iter().position(is_option);
    let (names, options) = arguments.split_at(named.unwrap_or(arguments.len()));
    let files = chosen(layout, names)?;
    let sh = Shell::new()?;
    sh.change_dir(&layout.root);
    compile::command_line(&sh)?;
    let mut command = Command::new(layout.binary("weir"));
    command.arg("experiment").args(files);
    if !options.iter().any(|one| one == "--report") {
        command.arg("--report").arg(layout.experiments());
    }
    Err(replace(command.args(options)))
}

/// Files of those names; all without a name.
fn chosen(layout: &Layout, names: &[OsString]) -> Result<Vec<PathBuf>> {
    let folder = layout.root.join("planner/experiments");
    let shown = folder.display();
    let mut files = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("cannot read {shown}"))? {
        let path = entry?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == "yaml")
        {
            files.push(path);
        }
    }
    files.sort();
    let known: Vec<String> = (files.iter())
        .filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned()))
        .collect();
    for name in names {
        if !known.iter().any(|one| name == one.as_str()) {
            let name = name.to_string_lossy();
            bail!(
                "{name}: no experiment; it must be one of {}",
                known.join(", ")
            );
        }
    }
    let is_chosen = |file: &PathBuf| {
        names.is_empty()
            || file
                .file_stem()
                .is_some_and(|stem| names.iter().any(|one| one == stem))
    };
    files.retain(is_chosen);
    Ok(files)
}
