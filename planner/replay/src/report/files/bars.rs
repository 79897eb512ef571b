//! Outcomes of the requests: one bar of 100 % for each contender, with a mark at its bound.

use std::collections::BTreeSet;

use weir_draw::{Bar, Colour, GREY, INK, Stroke, bars};

use crate::report::ReportError;
use crate::report::summary::Summary;

const ON_TIME: Colour = Colour(0, 158, 115);
const LATE: Colour = Colour(230, 159, 0);
const INACCURATE: Colour = Colour(170, 160, 60);
const LOST: Colour = Colour(150, 30, 30);
/// Colours of rejection reasons, in order; reused from the beginning if there are more.
const REASONS: [Colour; 8] = [
    Colour(0, 114, 178),
    Colour(204, 121, 167),
    Colour(86, 180, 233),
    Colour(213, 94, 0),
    Colour(120, 94, 240),
    Colour(140, 86, 75),
    Colour(148, 190, 100),
    Colour(90, 110, 130),
];

/// Returns the SVG and its legend.
pub(super) fn draw(sums: &[Summary]) -> Result<(String, Vec<(String, Stroke)>), ReportError> {
    let kinds = kinds(sums);
    let parts = |sum: &Summary| {
        let part = |(_, colour, count): &Kind| (*colour, count(sum));
        kinds.iter().map(part).collect()
    };
    let bar = |sum: &Summary| Bar {
        name: sum.contender.clone(),
        parts: parts(sum),
        whole: sum.sent,
        mark: sum.bound.as_ref().map(|yardstick| yardstick.bound.on_time),
        figure: format!("{:.1} %", sum.on_time_percent),
    };
    let all: Vec<Bar> = sums.iter().map(bar).collect();
    let svg = bars(&all)?;
    let mut key: Vec<(String, Stroke)> = kinds
        .into_iter()
        .map(|(name, colour, _)| (name, Stroke::Area(colour)))
        .collect();
    if sums.iter().any(|sum| sum.bound.is_some()) {
        key.push(("bound: most on time".to_owned(), Stroke::Solid(INK)));
    }
    Ok((svg, key))
}

/// Part of a bar: name, colour, and the number of a contender's requests in it.
type Kind = (String, Colour, Count);
type Count = Box<dyn Fn(&Summary) -> u64>;

/// Parts of a bar, without those that are empty for every contender.
fn kinds(sums: &[Summary]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut kind = |name: &str, colour: Colour, count: Count| {
        if sums.iter().any(|sum| count(sum) > 0) {
            kinds.push((name.to_owned(), colour, count));
        }
    };
    kind("on time", ON_TIME, Box::new(|sum| sum.on_time));
    let inaccurate = Box::new(|sum: &Summary| sum.too_inaccurate);
    kind("less accurate than requested", INACCURATE, inaccurate);
    kind("late", LATE, Box::new(|sum| sum.late));
    let reasons: BTreeSet<&'static str> = sums
        .iter()
        .flat_map(|sum| sum.refused.keys().copied())
        .collect();
    for (reason, colour) in reasons.into_iter().zip(REASONS.into_iter().cycle()) {
        let count = move |sum: &Summary| sum.refused.get(reason).copied().unwrap_or(0);
        kind(&format!("refused: {reason}"), colour, Box::new(count));
    }
    kind(
        "client disconnected",
        GREY,
        Box::new(|sum| sum.disconnected),
    );
    kind("lost", LOST, Box::new(|sum| sum.lost));
    kinds
}
