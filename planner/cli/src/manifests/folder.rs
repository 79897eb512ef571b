//! Writing of manifests below a folder that several services share: a service replaces its own files, adds
//! its part to lists, and leaves what belongs to all.

use std::fs;
use std::path::Path;

use anyhow::Context;
use weir_planner::manifests::{File, FileKind};

use super::Commands;

/// Writes each file below the folder; kustomizations only work there. `replace` allows that files of all
/// services change.
pub(super) fn write(
    files: &[File],
    commands: &Commands,
    folder: &Path,
    replace: bool,
) -> anyhow::Result<()> {
    // Nothing is written before all is known to fit.
    let mut texts = Vec::new();
    for file in files {
        let path = folder.join(&file.path);
        let about = || format!("--out: {}", path.display());
        let existing = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(about),
        };
        let text = file.text(commands.of(file.kind))?;
        let text = match (file.kind, existing) {
            (FileKind::List, Some(existing)) => {
                let merged = file.merged(&existing).with_context(about)?;
                report_others(file, &merged);
                merged.text(commands.of(file.kind))?
            }
            (FileKind::Shared, Some(existing)) if existing != text => {
                anyhow::ensure!(
                    replace,
                    "--out: {}: different from what this command makes, and other services use it; give the \
                     options of its first line, or --replace ({})",
                    path.display(),
                    existing.lines().next().unwrap_or_default(),
                );
                text
            }
            _ => text,
        };
        texts.push((path, text));
    }
    for (path, text) in texts {
        let about = || format!("--out: {}", path.display());
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).with_context(about)?;
        }
        fs::write(&path, text).with_context(about)?;
    }
    Ok(())
}

/// Reports the parts of other services that stay in a list.
fn report_others(ours: &File, merged: &File) {
    let mut others = merged.parts();
    others.retain(|part| !ours.parts().contains(part));
    if !others.is_empty() {
        eprintln!("{}: keeps {}", ours.path, others.join(", "));
    }
}
