//! Tests of the report's texts.

use super::*;
use crate::raw::Figure;
use crate::results::{Bounds, Cell, ClaimResult};

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
                ..Bounds::default()
            }),
        }],
        distances: vec![Distance {
            case: "usual".to_owned(),
            row: "static".to_owned(),
            column: Column::LostPercent,
            published: 8.0,
            played: 9.0,
            percent: 12.5,
            source: Some("Figure 1".to_owned()),
            why: None,
        }],
        claims: Vec::new(),
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
fn values_claims_and_figures_of_the_paper_are_tables() {
    let text = reference::distances(&results().distances);
    let row = "| lost % | static | usual | 8.00 | 9.00 | +12 % | Figure 1 |";
    assert!(text.contains(row), "{text}");
    let mut claim = ClaimResult {
        text: "half of the cores".to_owned(),
        source: "abstract".to_owned(),
        case: "usual".to_owned(),
        column: Column::MeanCores,
        row: "Weir".to_owned(),
        to: "static".to_owned(),
        published: 0.5,
        played: Some(1.5),
        percent: Some(200.0),
        why: Some("another load".to_owned()),
    };
    let text = reference::claims(std::slice::from_ref(&claim));
    let row = "| “half of the cores” (abstract) | mean cores: Weir / static, usual | 0.50 | 1.50 | +200 % | another load |";
    assert!(text.contains(row), "{text}");
    assert!(!claim.lacks_reason());
    claim.why = None;
    assert!(claim.lacks_reason());
    (claim.played, claim.percent) = (None, None);
    assert!(claim.lacks_reason(), "an unknown ratio needs a reason");
    assert!(reference::claims(&[claim]).contains("| – | – |"));
    assert_eq!(reference::claims(&[]), "");
    let figure = |played: Option<&str>, missing: Option<&str>| Figure {
        figure: "Figure 2".to_owned(),
        shows: "cores".to_owned(),
        played: played.map(str::to_owned),
        missing: missing.map(str::to_owned),
    };
    let text = reference::figures(&[figure(Some("all rows"), None), figure(None, Some("a GPU"))]);
    assert!(text.contains("| Figure 2 | cores | all rows |"), "{text}");
    assert!(text.contains("| Figure 2 | cores | no: a GPU |"), "{text}");
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

/// More is better, and it has two digits whatever its size.
#[test]
fn lower_objective_is_stated_and_has_its_bound() {
    let mut results = results();
    results.columns[1] = Column::Objective;
    results.cases[0].rows[0].cells = vec![cell(0.5), cell(70.125)];
    results.cases[0].rows[1].cells[1] = cell(70.5);
    assert!(behind(&results).starts_with("In no column"));
    results.cases[0].rows[0].cells[1] = cell(70.625);
    let text = behind(&results);
    let item = "- usual, objective: static has 70.62, Weir 70.50";
    assert!(text.contains(item), "{text}");
    results.cases[0].bounds = Some(Bounds {
        objective: Some(72.0),
        ..Bounds::default()
    });
    let text = table_of(&results, 1);
    let row = "| bound | what nobody could beat | 72.00 |";
    assert!(text.contains(row), "{text}");
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
