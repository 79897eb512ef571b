//! Report of experiments: a page of the book, and a table for terminals.

use std::fmt::Write;

use crate::experiment::Experiment;
use crate::raw::{Column, Kind};
use crate::results::{CaseResults, Distance, Results, RowResults};

/// Difference between two values that counts as none: half of the last digit shown.
const SAME: f64 = 0.05;

/// Returns the page of all experiments, after an introduction.
#[must_use]
pub fn page(introduction: &str, all: &[(Experiment, Results)]) -> String {
    let mut text = introduction.trim_end().to_owned() + "\n";
    for (experiment, results) in all {
        text += "\n";
        text += &section(experiment, results);
    }
    text
}

/// Returns the section of an experiment, as Markdown.
#[must_use]
pub fn section(experiment: &Experiment, results: &Results) -> String {
    let mut text = format!("## {}\n\n", experiment.title);
    let source = [&*experiment.paper, &*experiment.figures].into_iter();
    let source: Vec<&str> = source.filter(|one| !one.is_empty()).collect();
    let source = [source.join(", "), experiment.question.clone()].into_iter();
    let source: Vec<String> = source.filter(|one| !one.is_empty()).collect();
    if !source.is_empty() {
        text += &paragraph(&source.join(". "));
    }
    for inputs in inputs(results) {
        text += &paragraph(&inputs);
    }
    for column in 0..results.columns.len() {
        text += &table_of(results, column);
        text += "\n";
    }
    text += &reference::distances(&results.distances);
    text += &reference::claims(&results.claims);
    text += &behind(results);
    for remark in &experiment.remarks {
        text += &paragraph(remark);
    }
    text += &reference::figures(&experiment.coverage);
    text.trim_end().to_owned() + "\n"
}

/// Returns the tables of an experiment for a terminal.
#[must_use]
pub fn table(results: &Results) -> String {
    let mut text = String::new();
    for (at, column) in results.columns.iter().enumerate() {
        let header = ["", ""].map(str::to_owned).into_iter();
        let header = header.chain(results.cases.iter().map(|case| case.name.clone()));
        let rows = rows(results, at);
        let _ = writeln!(text, "{}: {}", results.name, column.heading());
        text += &weir_draw::table(header, rows);
        text += "\n";
    }
    text
}

/// Inputs of the cases, one sentence for each kind.
fn inputs(results: &Results) -> Vec<String> {
    let mut kinds: Vec<(&[String], Vec<&str>)> = Vec::new();
    for case in results.cases.iter().filter(|case| !case.inputs.is_empty()) {
        match kinds.iter_mut().find(|(inputs, _)| *inputs == case.inputs) {
            Some((_, cases)) => cases.push(&case.name),
            None => kinds.push((&case.inputs, vec![&case.name])),
        }
    }
    let all = results.cases.len();
    let sentence = |(inputs, cases): (&[String], Vec<&str>)| {
        let input = inputs.join("; ");
        if cases.len() == all {
            format!("Input: {input}.")
        } else {
            format!("Input of {}: {input}.", cases.join(", "))
        }
    };
    kinds.into_iter().map(sentence).collect()
}

/// Rows of a column: kind, name and a cell for each case; the bounds last.
fn rows(results: &Results, column: usize) -> Vec<Vec<String>> {
    let Some(first) = results.cases.first() else {
        return Vec::new();
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (at, row) in first.rows.iter().enumerate() {
        let cells = results.cases.iter().map(|case| {
            let row = case.rows.get(at);
            shown(results, case, row, column)
        });
        let names = [row.kind.name().to_owned(), row.name.clone()];
        rows.push(names.into_iter().chain(cells).collect());
    }
    let bound = |case: &CaseResults| case.bounds?.of_column(results.columns.get(column)?);
    let bounds: Vec<Option<f64>> = results.cases.iter().map(bound).collect();
    if bounds.iter().any(Option::is_some) {
        let names = ["bound", "what nobody could beat"].map(str::to_owned);
        let digits = results.columns.get(column).map_or(number as Digits, digits);
        let cells = bounds
            .into_iter()
            .map(|one| one.map_or("–".to_owned(), digits));
        rows.push(names.into_iter().chain(cells).collect());
    }
    rows
}

/// Cell with its range over the seeds, and the paper's value.
fn shown(results: &Results, case: &CaseResults, row: Option<&RowResults>, at: usize) -> String {
    let (Some(row), Some(column)) = (row, results.columns.get(at)) else {
        return String::new();
    };
    let Some(Some(cell)) = row.cells.get(at) else {
        return "–".to_owned();
    };
    let number = digits(column);
    let mut text = number(cell.mean);
    if number(cell.min) != number(cell.max) {
        let _ = write!(text, " ({}–{})", number(cell.min), number(cell.max));
    }
    let is_same = |distance: &&Distance| {
        distance.case == case.name && distance.row == row.name && distance.column == *column
    };
    if let Some(distance) = results.distances.iter().find(is_same) {
        let _ = write!(text, " [paper {}]", number(distance.published));
    }
    text
}

fn table_of(results: &Results, column: usize) -> String {
    let heading = results.columns.get(column).map(Column::heading);
    let heading = heading.unwrap_or_default();
    let mut text = format!("| {heading} | |");
    for case in &results.cases {
        let _ = write!(text, " {} |", case.name);
    }
    text += "\n|---|---|";
    text += &"---:|".repeat(results.cases.len());
    text += "\n";
    for row in rows(results, column) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

/// Requests that a rival may lose beyond Weir's, in percentage points, where another column is compared: one that serves
/// fewer is cheap for that reason.
const SERVES: f64 = 1.0;

/// Rows that a column is compared with.
const COMPARED: &str =
    "costs, accuracies and objectives among the rows that lose at most a point more than Weir";

/// Columns and cases in which a baseline or the paper's policy is better than the first row of Weir.
fn behind(results: &Results) -> String {
    let mut text = String::new();
    for case in &results.cases {
        for (at, column) in results.columns.iter().enumerate() {
            if let Some(line) = behind_in(case, &results.columns, (at, column)) {
                text += &item(&line);
            }
        }
    }
    if text.is_empty() {
        let text = "In no column is a baseline or the published policy better than Weir";
        return paragraph(&format!("{text} ({COMPARED})."));
    }
    let begin = "Weir is not the best here (each column by itself";
    paragraph(&format!("{begin}; {COMPARED}):")) + &text + "\n"
}

fn behind_in(
    case: &CaseResults,
    columns: &[Column],
    (at, column): (usize, &Column),
) -> Option<String> {
    let mean = |row: &RowResults, at: usize| -> Option<f64> { Some((*row.cells.get(at)?)?.mean) };
    let lost = columns.iter().position(|one| *one == Column::LostPercent);
    let lost = |row: &RowResults| lost.and_then(|lost| mean(row, lost)).unwrap_or(0.0);
    let weir = case.rows.iter().find(|row| row.kind == Kind::Weir)?;
    let own = mean(weir, at)?;
    let sign = if column.smaller_is_better() {
        1.0
    } else {
        -1.0
    };
    let rivals = case
        .rows
        .iter()
        .filter(|row| matches!(row.kind, Kind::Baseline | Kind::Published));
    let is_served = matches!(column, Column::LostPercent | Column::OnTimePercent(_));
    let rivals = rivals.filter(|row| is_served || lost(row) <= lost(weir) + SERVES);
    let rivals = rivals.filter_map(|row| Some((row, mean(row, at)?)));
    let (best, value) = rivals.min_by(|(_, a), (_, b)| (sign * a).total_cmp(&(sign * b)))?;
    (sign * (own - value) > SAME).then(|| {
        format!(
            "{}, {}: {} has {}, Weir {}",
            case.name,
            column.heading(),
            best.name,
            digits(column)(value),
            digits(column)(own)
        )
    })
}

/// Formats a number with as many digits as are worth it.
fn number(value: f64) -> String {
    let decimals = match value.abs() {
        value if value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// Format of a value.
type Digits = fn(f64) -> String;

/// Format of a column's values: objectives differ by little beside their size.
fn digits(column: &Column) -> Digits {
    match column {
        Column::Objective => |value| format!("{value:.2}"),
        _ => number,
    }
}

/// Paragraph of lines that are not too long.
fn paragraph(text: &str) -> String {
    wrapped(text, "", "") + "\n"
}

fn item(text: &str) -> String {
    wrapped(text.trim_start_matches("- "), "- ", "  ")
}

/// Maximum length of a line.
const LINE_MAX: usize = 110;

fn wrapped(text: &str, first: &str, others: &str) -> String {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut is_empty = true;
    for word in text.split_whitespace() {
        if !is_empty && line.chars().count() + word.chars().count() + 1 > LINE_MAX {
            lines.push(std::mem::replace(&mut line, others.to_owned()));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line += word;
        is_empty = false;
    }
    lines.push(line);
    lines.join("\n") + "\n"
}

mod reference;
#[cfg(test)]
mod tests;
