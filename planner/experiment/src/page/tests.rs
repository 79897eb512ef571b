//! Tests of the report's texts.

use super::*;
use crate::results::{Bounds, Cell};

fn cell(mean: f64) -> Option<Cell> {
    Some(Cell {
        mean,
        min: mean,
        max: mean + 1.0,
    })
}

fn results() -> Results {
    let row = |name: &str, kind, lost, cores| RowResults {
        name: name.to_owned(),
        kind,
        cells: vec![cell(lost), cell(cores)],
    };
    Results {
        name: "small".to_owned(),
        columns: vec![Column::LostPercent, Column::MeanCores],
        seeds: vec![1, 2],
        cases: vec![CaseResults {
            name: "usual".to_owned(),
            inputs: vec!["a file".to_owned()],
            rows: vec![
                row("static", Kind::Baseline, 9.0, 2.0),
                row("Weir", Kind::Weir, 0.5, 3.0),
            ],
            bounds: Some(Bounds {
                lost_percent: 0.1,
                mean_cores: None,
            }),
        }],
        distances: vec![Distance {
            case: "usual".to_owned(),
            row: "static".to_owned(),
            column: Column::LostPercent,
            published: 8.0,
            played: 9.0,
            percent: 12.5,
            why: None,
        }],
    }
}

#[test]
fn cell_shows_range_and_paper() {
    let text = table_of(&results(), 0);
    assert!(
        text.contains("| baseline | static | 9.00 (9.00–10.0) [paper 8.00] |"),
        "{text}"
    );
    assert!(
        text.contains("| bound | what nobody could beat | 0.10 |"),
        "{text}"
    );
}

#[test]
fn weaker_columns_are_stated() {
    let mut results = results();
    // A row that serves far fewer is no rival.
    assert!(behind(&results).starts_with("In no column"));
    results.cases[0].rows[0].cells[0] = cell(1.2);
    let text = behind(&results);
    assert!(
        text.contains("- usual, mean cores: static has 2.00, Weir 3.00"),
        "{text}"
    );
    assert!(!text.contains("lost %:"), "{text}");
}

#[test]
fn long_text_is_wrapped() {
    let text = paragraph(&"word ".repeat(60));
    assert!(
        text.lines().all(|line| line.chars().count() <= LINE_MAX),
        "{text}"
    );
    assert_eq!(text.split_whitespace().count(), 60);
}
