//! YAML text of manifests: a header with the command that generated them, and each document below its
//! comment. A file of JSON is its document alone.

use super::{Document, File, FileKind, ManifestError};

/// Name of the command in headers.
pub const COMMAND: &str = "weir manifests";
/// Line width of comments, in characters.
const WIDTH: usize = 110;

impl File {
    /// Returns the file's text; `command` is named in the header.
    ///
    /// # Errors
    /// Fails if a document cannot be written as YAML.
    pub fn text(&self, command: &str) -> Result<String, ManifestError> {
        // JSON has no comments.
        if self.path.ends_with(".json") {
            return self.body();
        }
        let advice = match self.kind {
            FileKind::Service => "Change the service file or the command, not this.",
            FileKind::Shared => "Change the command, not this: it is the same for all services.",
            FileKind::List => "It adds services; take them out here.",
        };
        let mut text = format!("# Made by `{command}`. {advice}\n");
        text += &self.body()?;
        Ok(text)
    }

    /// Returns the file's text without the header.
    ///
    /// # Errors
    /// Fails if a document cannot be written as YAML.
    pub fn body(&self) -> Result<String, ManifestError> {
        let mut text = String::new();
        for (index, document) in self.documents.iter().enumerate() {
            if self.path.ends_with(".json") {
                text += &format!("{:#}\n", document.body);
                continue;
            }
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
    // Long strings stay on one line: folded ones are hard to read. Strings that YAML 1.1 reads as another
    // type are quoted by default: Kubernetes parsers use both versions.
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

/// Breaks a comment into lines between words; its own line breaks remain.
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
