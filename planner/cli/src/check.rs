//! `weir check`: reports the errors of any file that a user writes, each with line and column.

mod document;
mod kind;
mod repair;
mod search;

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use serde::Serialize;
use weir_planner::spec::{place_of_tab, split_position};

use crate::exit::Exit;
use crate::input::read;
use crate::output::print;
use document::{Node, Place, START, documents};
use kind::{Around, Kind};

/// Arguments of `weir check`.
#[derive(Debug, clap::Args)]
#[command(after_help = crate::exit::HELP)]
pub(crate) struct Check {
    /// The file (YAML or JSON); - reads standard input.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Kind of the file, instead of the one recognized by its keys.
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Result of a check.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    kind: Option<String>,
    errors: Vec<Reported>,
    /// Whether the file is valid once these errors are corrected; otherwise others may show then.
    complete: bool,
}

/// Error of the file.
#[derive(Debug, Serialize)]
struct Reported {
    line: u64,
    column: u64,
    path: String,
    message: String,
}

impl Check {
    /// # Errors
    /// A file that cannot be read.
    pub(crate) fn run(&self) -> anyhow::Result<Exit> {
        let name = self.file.display().to_string();
        let text = read(&self.file).with_context(|| name.clone())?;
        let report = self.report(name, &text);
        if self.json {
            print(serde_json::to_string_pretty(&report)? + "\n")?;
        } else {
            print(report.lines())?;
        }
        Ok(match report.errors.as_slice() {
            [] => Exit::Done,
            _ => Exit::Failed,
        })
    }

    fn report(&self, file: String, text: &str) -> Report {
        let mut report = Report {
            file,
            kind: self.kind.map(Kind::label),
            errors: Vec::new(),
            complete: false,
        };
        let all = match documents(text) {
            Ok(all) => all,
            Err(error) => {
                let place = error.location().and_then(Place::of);
                let message = error.without_snippet().to_string();
                let tab = place_of_tab(text, &message);
                let tab = tab.map(|(line, column)| Place { line, column });
                let (message, _) = split_position(&message);
                report.push(tab.or(place), String::new(), message.to_owned());
                return report;
            }
        };
        let Some(kind) = self.kind.or_else(|| Kind::of(&all)) else {
            let tried: Vec<String> = Kind::value_variants()
                .iter()
                .map(|one| one.label())
                .collect();
            let message = format!(
                "the file has no key of any kind that is known: {}; --kind names one",
                tried.join(", ")
            );
            report.push(None, String::new(), message);
            return report;
        };
        report.kind = Some(kind.label());
        report.complete = true;
        let around = Around {
            file: &self.file,
            profiles: kind::config_maps(&all),
        };
        let (checked, others): (Vec<Node>, Vec<Node>) = match kind {
            Kind::Resource if all.iter().any(kind::is_ours) => {
                all.into_iter().partition(kind::is_ours)
            }
            _ => {
                let mut all = all.into_iter();
                (all.next().into_iter().collect(), all.collect())
            }
        };
        if kind != Kind::Resource
            && let Some(second) = others.first()
        {
            let message = "a second document; it must be left out: only resources have several";
            report.push(second.place, String::new(), message.to_owned());
        }
        if checked.is_empty() {
            report.push(None, String::new(), "the file is empty".to_owned());
        }
        for mut document in checked {
            for (place, path) in document.take_duplicates() {
                let message = "the key stands a second time; it must be left out";
                report.push(place, path, message.to_owned());
            }
            let example = kind.example(&document);
            let first = |document: &Node| kind.first(document, &around);
            let errors = search::errors(document, example.as_ref(), first);
            report.complete &= errors.complete;
            for error in errors.all {
                report.push(error.place, error.path, error.message);
            }
        }
        report
            .errors
            .sort_by_key(|error| (error.line, error.column));
        report
    }
}

impl Report {
    fn push(&mut self, place: Option<Place>, path: String, message: String) {
        let Place { line, column } = place.unwrap_or(START);
        self.errors.push(Reported {
            line,
            column,
            path,
            message,
        });
    }

    /// Report for people: one line for each error, in the form that editors know.
    fn lines(&self) -> String {
        let mut lines = String::new();
        let file = &self.file;
        for error in &self.errors {
            let gap = if error.path.is_empty() { "" } else { ": " };
            lines += &format!(
                "{file}:{}:{}: {}{gap}{}\n",
                error.line, error.column, error.path, error.message
            );
        }
        let kind = self.kind.as_deref().unwrap_or_default();
        if self.errors.is_empty() {
            lines += &format!("{file}: {kind}, no errors\n");
        } else if !self.complete && self.kind.is_some() {
            lines += &format!("{file}: more errors may show once these are corrected\n");
        }
        lines
    }
}
