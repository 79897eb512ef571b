//! Tables for terminals.

use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{CellAlignment, Table};

/// Formats a table: names on the left, figures on the right of their columns.
pub fn table<H, R>(header: impl IntoIterator<Item = H>, rows: impl IntoIterator<Item = R>) -> String
where
    H: Into<String>,
    R: IntoIterator<Item = String>,
{
    let mut table = Table::new();
    table.load_style(UTF8_FULL_CONDENSED);
    table.set_header(header.into_iter().map(Into::into));
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_aligned_to_the_right() {
        let rows = [["sent", "5"], ["on time", "12"]];
        let rows = rows.map(|row| row.map(str::to_owned));
        let text = table(["", "weir"], rows);
        assert!(text.contains("│ sent    ┆    5 │"), "{text}");
    }
}
