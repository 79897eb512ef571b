//! Outcomes of the requests: one bar of 100 % for each contender, with a mark at its bound.

use std::collections::BTreeSet;

use plotters::prelude::*;

use super::ReportError;
use super::canvas::{self, Canvas, FONT, GREY, INK, Stroke, WIDTH};
use super::summary::Summary;

const ROW: u32 = 34;
/// Width of the names on the left.
const NAMES: i32 = 250;
/// Maximum length of a name that fits there.
const NAME_MAX: usize = 36;
/// Width of the number on the right.
const FIGURE: i32 = 64;
const ON_TIME: RGBColor = RGBColor(0, 158, 115);
const LATE: RGBColor = RGBColor(230, 159, 0);
const INACCURATE: RGBColor = RGBColor(170, 160, 60);
const LOST: RGBColor = RGBColor(150, 30, 30);
/// Colours of rejection reasons, in order; reused from the beginning if there are more.
const REASONS: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(120, 94, 240),
    RGBColor(140, 86, 75),
    RGBColor(148, 190, 100),
    RGBColor(90, 110, 130),
];

/// Returns the SVG and its legend.
pub(super) fn draw(sums: &[Summary]) -> Result<(String, Vec<(String, Stroke)>), ReportError> {
    let kinds = kinds(sums);
    let height = ROW * (sums.len() as u32).max(1) + 8;
    let svg = canvas::draw(height, |canvas| paint(canvas, sums, &kinds))?;
    let mut key: Vec<(String, Stroke)> = kinds
        .into_iter()
        .map(|(name, colour, _)| (name, Stroke::Area(colour)))
        .collect();
    if sums.iter().any(|sum| sum.bound.is_some()) {
        key.push(("bound: most on time".to_owned(), Stroke::Solid(INK)));
    }
    Ok((svg, key))
}

fn paint(canvas: &Canvas<'_>, sums: &[Summary], kinds: &[Kind]) -> Result<(), ReportError> {
    let width = f64::from(WIDTH as i32 - NAMES - FIGURE);
    let ink = (FONT, 18).into_font().color(&INK);
    for (row, sum) in sums.iter().enumerate() {
        let top = 4 + (ROW as i32) * row as i32;
        let x = |count: u64| NAMES + (width * count as f64 / sum.sent.max(1) as f64).round() as i32;
        canvas.draw(&Text::new(short(&sum.contender), (0, top + 7), ink.clone()))?;
        let mut before = 0;
        for (_, colour, count) in kinds {
            let after = before + count(sum);
            if after > before {
                let corners = [(x(before), top + 5), (x(after), top + 27)];
                canvas.draw(&Rectangle::new(corners, colour.filled()))?;
            }
            before = after;
        }
        if let Some(yardstick) = &sum.bound {
            let at = x(yardstick.bound.on_time);
            let corners = [(at - 1, top), (at + 2, top + 32)];
            canvas.draw(&Rectangle::new(corners, INK.filled()))?;
        }
        let share = format!("{:.1} %", sum.on_time_percent);
        let place = (WIDTH as i32 - FIGURE + 8, top + 7);
        canvas.draw(&Text::new(share, place, ink.clone()))?;
    }
    Ok(())
}

/// Part of a bar: name, colour, and the number of a contender's requests in it.
type Kind = (String, RGBColor, Count);
type Count = Box<dyn Fn(&Summary) -> u64>;

/// Parts of a bar, without those that are empty for every contender.
fn kinds(sums: &[Summary]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = Vec::new();
    let mut kind = |name: &str, colour: RGBColor, count: Count| {
        if sums.iter().any(|sum| count(sum) > 0) {
            kinds.push((name.to_owned(), colour, count));
        }
    };
    kind("on time", ON_TIME, Box::new(|sum| sum.on_time));
    let inaccurate = Box::new(|sum: &Summary| sum.too_inaccurate);
    kind("less accurate than asked", INACCURATE, inaccurate);
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

/// Shortens a name to fit.
fn short(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_MAX - 1).chain(['…']).collect()
}
