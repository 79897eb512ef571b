//! Writing of manifests below a folder that several services share: a service replaces its own files, adds
//! its part to lists, and leaves what belongs to all. Its requests must be no other service's there.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;
use weir_planner::manifests::{File, FileKind, ServiceRequests, request_files, requests};

use super::Commands;

/// Bootstrap of all services of a standalone Envoy.
const BOOTSTRAP: &str = "envoy/weir.yaml";

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
    let ours = requests(files);
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
                check_others(&ours, &others(file, &merged), file, folder)?;
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
            (FileKind::Service, Some(existing)) if file.path == BOOTSTRAP && !replace => {
                check_services(&ours, &existing).with_context(about)?;
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

/// Checks that the other services of a list take no requests of ours.
fn check_others(
    ours: &[ServiceRequests],
    others: &[&str],
    list: &File,
    folder: &Path,
) -> anyhow::Result<()> {
    let above = Path::new(&list.path).parent().unwrap_or(Path::new(""));
    for other in others {
        let mut documents: Vec<Value> = Vec::new();
        for name in request_files(&list.path) {
            let path = folder.join(above).join(other).join(name);
            let about = || format!("--out: {}", path.display());
            match fs::read_to_string(&path) {
                Ok(text) => {
                    let read = serde_saphyr::from_multiple::<Value>(&text);
                    documents.extend(read.with_context(about)?);
                }
                // A part of the user's, not of a service.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error).with_context(about),
            }
        }
        let others = ServiceRequests::read(&documents.iter().collect::<Vec<&Value>>());
        for own in ours {
            own.check_beside(&others)
                .with_context(|| format!("--out: {}", folder.join(above).join(other).display()))?;
        }
    }
    Ok(())
}

/// Checks that no service of an existing bootstrap would be left out.
fn check_services(ours: &[ServiceRequests], existing: &str) -> anyhow::Result<()> {
    let document: Value = serde_saphyr::from_str(existing)?;
    for existing in ServiceRequests::read(&[&document]) {
        anyhow::ensure!(
            ours.iter().any(|own| own.service() == existing.service()),
            "it has service {}, which this command leaves out; give its FILE too (all services of one Envoy \
             are rendered at once), or --replace",
            existing.service(),
        );
    }
    Ok(())
}

/// Returns the parts of other services that stay in a list.
fn others<'a>(ours: &File, merged: &'a File) -> Vec<&'a str> {
    let mut others = merged.parts();
    others.retain(|part| !ours.parts().contains(part));
    others
}

/// Reports the parts of other services that stay in a list.
fn report_others(ours: &File, merged: &File) {
    let others = others(ours, merged);
    if !others.is_empty() {
        eprintln!("{}: keeps {}", ours.path, others.join(", "));
    }
}
