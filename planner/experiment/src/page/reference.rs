//! Tables of what the paper gives: its values, its statements and its figures, each beside what was played.

use std::fmt::Write;

use super::number;
use crate::raw::Figure;
use crate::results::{ClaimResult, Distance};

/// Distances to the paper's values.
pub(super) fn distances(all: &[Distance]) -> String {
    let row = |one: &Distance| {
        [
            one.column.heading().into_owned(),
            one.row.clone(),
            one.case.clone(),
            number(one.published),
            number(one.played),
            format!("{:+.0} %", one.percent),
            together(one.source.as_deref(), one.why.as_deref()),
        ]
    };
    table(
        "Distances to the paper's values",
        [
            "",
            "row",
            "case",
            "paper",
            "played",
            "distance",
            "source and reason",
        ],
        "|---|---|---|---:|---:|---:|---|",
        all.iter().map(row),
    )
}

/// Ratios that the paper states.
pub(super) fn claims(all: &[ClaimResult]) -> String {
    let row = |one: &ClaimResult| {
        [
            format!("“{}” ({})", one.text, one.source),
            format!(
                "{}: {} / {}, {}",
                one.column.heading(),
                one.row,
                one.to,
                one.case
            ),
            number(one.published),
            one.played.map_or_else(|| "–".to_owned(), number),
            one.percent
                .map_or_else(|| "–".to_owned(), |percent| format!("{percent:+.0} %")),
            one.why.clone().unwrap_or_default(),
        ]
    };
    table(
        "The paper's statements, as ratios of two rows",
        [
            "statement",
            "ratio",
            "paper",
            "played",
            "distance",
            "reason",
        ],
        "|---|---|---:|---:|---:|---|",
        all.iter().map(row),
    )
}

/// Figures of the paper, and what plays them.
pub(super) fn figures(all: &[Figure]) -> String {
    let row = |one: &Figure| {
        let missing = || format!("no: {}", one.missing.as_deref().unwrap_or_default());
        [
            one.figure.clone(),
            one.shows.clone(),
            one.played.clone().unwrap_or_else(missing),
        ]
    };
    table(
        "The paper's figures",
        ["figure", "shows", "played again"],
        "|---|---|---|",
        all.iter().map(row),
    )
}

fn together(source: Option<&str>, why: Option<&str>) -> String {
    match (source, why) {
        (Some(source), Some(why)) => format!("{source}. {why}"),
        (one, other) => one.or(other).unwrap_or_default().to_owned(),
    }
}

/// Table below a heading line; nothing without rows.
fn table<const N: usize>(
    title: &str,
    header: [&str; N],
    alignment: &str,
    rows: impl Iterator<Item = [String; N]>,
) -> String {
    let mut text = String::new();
    for row in rows {
        let cells = row.map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "));
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "{title}:\n\n| {} |\n{alignment}\n{text}\n",
        header.join(" | ")
    )
}
