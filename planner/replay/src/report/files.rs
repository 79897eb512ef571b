//! Files of a report: the page with its figures, the table, and the folder with both beside the JSON.

mod bars;
mod figures;
mod folder;
mod html;
mod series;
mod table;

use std::path::Path;

use super::{Report, ReportError, SharedReport};
pub(super) use figures::{Figure, draw};
pub use folder::{FILES, check};

impl Report {
    /// Text table for a terminal.
    #[must_use]
    pub fn table(&self) -> String {
        table::text(&self.contenders)
    }

    /// HTML page for browsers, in one self-contained file.
    #[must_use]
    pub fn html(&self) -> String {
        html::page(&self.scenario, &self.contenders, &self.figures)
    }

    /// Writes all three into the folder atomically, replacing an earlier report.
    ///
    /// # Errors
    /// The path and the reason why it cannot be written, or the other files in that folder.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        let [html, json, text] = FILES;
        let table = self.table() + "\n";
        folder::write(
            folder,
            [(html, self.html()), (json, self.json()?), (text, table)],
        )
    }
}

impl SharedReport {
    /// Text tables for a terminal: one of each service, and one of the cores of all.
    #[must_use]
    pub fn table(&self) -> String {
        let mut text = String::new();
        for service in self.services() {
            text += &format!("{}\n{}\n\n", service.name, service.report.table());
        }
        text + "all services\n" + &table::of_budget(self.budget())
    }
}
