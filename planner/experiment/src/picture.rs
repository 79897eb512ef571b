//! Pictures of results: bars of each column.

use weir_draw::{Bar, DrawError, GREY, PALETTE, bars};

use crate::raw::Kind;
use crate::results::Results;

/// Parts of a bar's whole width.
const WHOLE: u64 = 10_000;

/// Returns a picture of each column as SVG, with its file name. The bars of a case stand below its name.
///
/// # Errors
/// None at this size.
pub fn pictures(results: &Results) -> Result<Vec<(String, String)>, DrawError> {
    let mut pictures = Vec::new();
    for (at, column) in results.columns.iter().enumerate() {
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
        let heading = serde_json::to_value(column).unwrap_or_default();
        let heading = heading.as_str().unwrap_or_default().to_owned();
        pictures.push((format!("{}-{heading}.svg", results.name), bars(&drawn)?));
    }
    Ok(pictures)
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
