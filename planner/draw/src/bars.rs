//! Bars of parts, one row each.

use plotters::prelude::*;

use crate::canvas::{self, Canvas, Colour, DrawError, FONT, INK, WIDTH};

const ROW: u32 = 34;
/// Width of the names on the left.
const NAMES: i32 = 250;
/// Maximum length of a name that fits there.
const NAME_MAX: usize = 36;
/// Width of the figures on the right.
const FIGURE: i32 = 64;

/// A bar: a row of parts, from the left.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// Name, on the left.
    pub name: String,
    /// Colour and size of each part.
    pub parts: Vec<(Colour, u64)>,
    /// Size of the whole width.
    pub whole: u64,
    /// Size at which a mark is drawn.
    pub mark: Option<u64>,
    /// Figure, on the right.
    pub figure: String,
}

/// Draws bars as SVG, without a legend.
///
/// # Errors
/// None at this size.
pub fn bars(bars: &[Bar]) -> Result<String, DrawError> {
    let height = ROW * (bars.len() as u32).max(1) + 8;
    canvas::draw((WIDTH, height), |canvas| paint(canvas, bars))
}

fn paint(canvas: &Canvas<'_>, bars: &[Bar]) -> Result<(), DrawError> {
    let width = f64::from(WIDTH as i32 - NAMES - FIGURE);
    let ink = (FONT, 18).into_font().color(&INK);
    for (row, bar) in bars.iter().enumerate() {
        let top = 4 + (ROW as i32) * row as i32;
        let x = |size: u64| NAMES + (width * size as f64 / bar.whole.max(1) as f64).round() as i32;
        canvas.draw(&Text::new(short(&bar.name), (0, top + 7), ink.clone()))?;
        let mut before = 0;
        for (colour, size) in &bar.parts {
            let after = before + size;
            if after > before {
                let corners = [(x(before), top + 5), (x(after), top + 27)];
                canvas.draw(&Rectangle::new(corners, colour.filled()))?;
            }
            before = after;
        }
        if let Some(mark) = bar.mark {
            let at = x(mark);
            let corners = [(at - 1, top), (at + 2, top + 32)];
            canvas.draw(&Rectangle::new(corners, INK.filled()))?;
        }
        let place = (WIDTH as i32 - FIGURE + 8, top + 7);
        canvas.draw(&Text::new(bar.figure.clone(), place, ink.clone()))?;
    }
    Ok(())
}

/// Shortens a name to fit.
fn short(name: &str) -> String {
    if name.chars().count() <= NAME_MAX {
        return name.to_owned();
    }
    name.chars().take(NAME_MAX - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_name_is_shortened() {
        assert_eq!(short("weir"), "weir");
        let long = short(&"x".repeat(NAME_MAX + 1));
        assert_eq!(long.chars().count(), NAME_MAX);
        assert!(long.ends_with('…'));
    }
}
