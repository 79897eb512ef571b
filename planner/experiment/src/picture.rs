//! Pictures of results: bars of each column.

use serde_json::Value;
use weir_draw::{Bar, DrawError, GREY, PALETTE, bars};

use crate::raw::{Column, Kind};
use crate::results::Results;

/// Parts of a bar's whole width.
const WHOLE: u64 = 10_000;

/// Returns a picture of each column as SVG, with its file name. The bars of a case stand below its name. An objective has
/// none: it may be below 0, and its differences are small beside it.
///
/// # Errors
/// None at this size.
pub fn pictures(results: &Results) -> Result<Vec<(String, String)>, DrawError> {
    let mut pictures = Vec::new();
    let columns = results.columns.iter().enumerate();
    for (at, column) in columns.filter(|(_, column)| **column != Column::Objective) {
        let mean = |cells: &Vec<Option<crate::Cell>>| Some((*cells.get(at)?)?.mean);
        let all = results.cases.iter().flat_map(|case| &case.rows);
        let longest = all.filter_map(|row| mean(&row.cells)).fold(0.0, f64::max);
        let mut drawn = Vec::new();
        for case in &results.cases {
            drawn.push(Bar {
                name: case.name.clone(),
                parts: Vec::new(),
                whole: WHOLE,
                mark: None,
                figure: String::new(),
            });
            for row in &case.rows {
                let Some(value) = mean(&row.cells) else {
                    continue;
                };
                let length = (value / longest.max(f64::MIN_POSITIVE) * WHOLE as f64).max(0.0);
                drawn.push(Bar {
                    name: format!("    {}", row.name),
                    parts: vec![(colour(row.kind), length.round() as u64)],
                    whole: WHOLE,
                    mark: None,
                    figure: format!("{value:.2}"),
                });
            }
        }
        let heading = file_name(column);
        pictures.push((format!("{}-{heading}.svg", results.name), bars(&drawn)?));
    }
    Ok(pictures)
}

/// Part of a file's name that stands for a column.
fn file_name(column: &Column) -> String {
    let name = match serde_json::to_value(column).unwrap_or_default() {
        Value::Object(of) => of
            .iter()
            .map(|(key, class)| format!("{key} {class}"))
            .collect(),
        name => name.to_string(),
    };
    let parts = name.split(|c: char| !c.is_ascii_alphanumeric());
    parts
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("-")
}

fn colour(kind: Kind) -> weir_draw::Colour {
    let index = match kind {
        Kind::Baseline => return GREY,
        Kind::Published => 1,
        Kind::Weir => 0,
        Kind::Clairvoyant => 2,
    };
    PALETTE.get(index).copied().unwrap_or(GREY)
}
