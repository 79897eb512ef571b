//! Inputs of an experiment: files of a folder that the user names, or their substitutes.

use std::path::{Path, PathBuf};

use crate::raw::{Changes, RawInput};

/// Input of a case.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Input {
    /// Description for the report: the file's name, or the substitute.
    pub(crate) description: String,
    /// Changes of the scenario; none for the substitute.
    pub(crate) set: Changes,
}

impl Input {
    /// Returns the file of the folder as input, or its substitute if there is no folder.
    ///
    /// # Errors
    /// The folder does not have the file.
    pub(crate) fn of(raw: &RawInput, folder: Option<&Path>) -> Result<Input, String> {
        let Some(folder) = folder else {
            return Ok(Input {
                description: format!("{} (substitute for {})", raw.substitute, raw.file),
                set: Changes::new(),
            });
        };
        let path: PathBuf = folder.join(&raw.file);
        let path = std::path::absolute(&path).map_err(|error| error.to_string())?;
        if !path.is_file() {
            return Err(format!(
                "{}: no such file; leave out the folder of inputs to play {}",
                path.display(),
                raw.substitute
            ));
        }
        let text = path.display().to_string();
        let set = raw.set.iter();
        Ok(Input {
            description: raw.file.clone(),
            set: set
                .map(|(at, value)| (at.clone(), crate::path::replace(value, "$FILE", &text)))
                .collect(),
        })
    }
}
