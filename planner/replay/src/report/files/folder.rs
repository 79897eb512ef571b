//! Atomic writes of the report's folder: it is written beside its place and renamed, so readers find a
//! complete report, the previous one, or none. Never deletes a file that does not belong to a report.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempDir};

use crate::report::ReportError;

/// Files of a report: page, JSON, table.
pub const FILES: [&str; 3] = ["report.html", "report.json", "report.txt"];

/// Refuses a folder that [`Report::write`](crate::report::Report::write) would refuse; called before a long replay.
///
/// # Errors
/// The folder contains other files, is not a folder, has no name of its own, or cannot be written.
pub fn check(folder: &Path) -> Result<(), ReportError> {
    let parent = parent(folder)?;
    // The nearest folder above it that exists, in which it or a folder above it is made.
    let above = parent.ancestors().find(|above| above.exists());
    let above = above.unwrap_or(Path::new("."));
    workshop(above)?;
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(at(folder, error)),
    };
    for entry in entries {
        let found = entry.map_err(|error| at(folder, error))?.file_name();
        if !FILES.iter().any(|file| found == *file) {
            return Err(ReportError::Foreign {
                path: folder.display().to_string(),
                found: found.display().to_string(),
            });
        }
    }
    Ok(())
}

/// Writes the files.
pub(super) fn write(
    folder: &Path,
    files: [(&'static str, String); FILES.len()],
) -> Result<(), ReportError> {
    check(folder)?;
    let parent = parent(folder)?;
    fs::create_dir_all(&parent).map_err(|error| at(&parent, error))?;
    // Deleted with its contents when this function returns, also with an error.
    let workshop = workshop(&parent)?;
    let (new, old) = (workshop.path().join("new"), workshop.path().join("old"));
    fs::create_dir(&new).map_err(|error| at(&new, error))?;
    for (name, text) in files {
        let path = new.join(name);
        fs::write(&path, text).map_err(|error| at(&path, error))?;
    }
    match fs::rename(folder, &old) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(folder, error)),
        _ => {}
    }
    fs::rename(&new, folder).map_err(|error| at(folder, error))
}

/// Makes a folder for unfinished files.
fn workshop(parent: &Path) -> Result<TempDir, ReportError> {
    let made = Builder::new().prefix(".weir-report-").tempdir_in(parent);
    // Without the folder's own name, which nobody knows.
    made.map_err(|error| at(parent, error.kind().into()))
}

fn parent(folder: &Path) -> Result<PathBuf, ReportError> {
    let nameless = || ReportError::Nameless {
        path: folder.display().to_string(),
    };
    folder.file_name().ok_or_else(nameless)?;
    let parent = folder.parent().ok_or_else(nameless)?;
    if parent.as_os_str().is_empty() {
        return Ok(PathBuf::from("."));
    }
    Ok(parent.to_owned())
}

fn at(path: &Path, source: io::Error) -> ReportError {
    ReportError::File {
        path: path.display().to_string(),
        source,
    }
}
