//! Common basis of all drawings of a report: SVG without background, whose ink is the page's text colour,
//! so that it is readable on dark and light pages; width, font and colours.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::ReportError;

/// Width of every drawing, in its own pixels; the page scales them.
pub(super) const WIDTH: u32 = 960;
pub(super) const FONT: &str = "sans-serif";
/// Placeholder for the page's text colour, which [`draw`] replaces.
pub(super) const INK: RGBColor = RGBColor(1, 2, 3);
const INK_SVG: &str = "#010203";
pub(super) const GREY: RGBColor = RGBColor(140, 140, 140);
/// Okabe and Ito's colour-blind safe colours, without black and yellow, which are invisible on one of
/// the two backgrounds.
pub(super) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(140, 140, 140),
];

/// Area to draw on.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Style of a line or area, also shown in the legend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stroke {
    Solid(RGBColor),
    Dashed(RGBColor),
    Area(RGBColor),
}

impl Stroke {
    /// Colour in HTML notation.
    pub(super) fn colour(self) -> String {
        let (Stroke::Solid(colour) | Stroke::Dashed(colour) | Stroke::Area(colour)) = self;
        if colour == INK {
            return "currentColor".to_owned();
        }
        format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
    }
}

/// Stroke of the contender with that index: dashed from the eighth on.
pub(super) fn nth(index: usize) -> Stroke {
    let colour = PALETTE.get(index % PALETTE.len()).copied().unwrap_or(GREY);
    if index < PALETTE.len() {
        Stroke::Solid(colour)
    } else {
        Stroke::Dashed(colour)
    }
}

/// Returns the SVG that `paint` draws.
pub(super) fn draw(
    height: u32,
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), ReportError>,
) -> Result<String, ReportError> {
    let mut svg = String::new();
    {
        let canvas = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        paint(&canvas)?;
        canvas.present()?;
    }
    Ok(svg.replace(INK_SVG, "currentColor"))
}
