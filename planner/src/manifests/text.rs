//! Files of manifests as YAML: which command made them, each document below the comment that explains it.

use super::{Document, File, ManifestError};

/// The name of the command in headers.
pub const COMMAND: &str = "weir manifests";
/// Where comments are broken, in characters.
const WIDTH: usize = 110;

impl File {
    /// The file's text; `command` is what made it.
    ///
    /// # Errors
    /// What it says is no YAML.
    pub fn text(&self, command: &str) -> Result<String, ManifestError> {
        let mut text =
            format!("# Made by `{command}`. Change the service file or the command, not this.\n");
        text += &self.body()?;
        Ok(text)
    }

    /// The same without the line that says what made it.
    ///
    /// # Errors
    /// What it says is no YAML.
    pub fn body(&self) -> Result<String, ManifestError> {
        let mut text = String::new();
        for (index, document) in self.documents.iter().enumerate() {
            if index > 0 {
                text += "---\n";
            }
            for line in comment(&document.why) {
                text += &line;
                text.push('\n');
            }
            text += &yaml(&self.path, document)?;
        }
        Ok(text)
    }
}

fn yaml(path: &str, document: &Document) -> Result<String, ManifestError> {
    // Long strings stay on their line: folded ones read badly. What YAML 1.1 takes for something else than a
    // string is quoted by default: Kubernetes reads both.
    let options = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(&document.body, options);
    let mut text = text.map_err(|error| ManifestError::Form {
        what: path.to_owned(),
        error: error.to_string(),
    })?;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

/// A comment's lines, broken between words; a line break in it stays one.
fn comment(why: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for paragraph in why.lines() {
        let mut line = "#".to_owned();
        for word in paragraph.split_whitespace() {
            if line.chars().count() + 1 + word.chars().count() > WIDTH {
                lines.push(std::mem::replace(&mut line, "#".to_owned()));
            }
            line.push(' ');
            line += word;
        }
        lines.push(line);
    }
    lines
}
