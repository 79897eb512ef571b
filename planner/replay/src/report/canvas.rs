//! What every drawing of a report has in common: SVG without a background whose ink is the page's own
//! text colour, so that it is as readable on a dark page as on a light one; width, font and colours.
//! What is drawn is the others' business.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::ReportError;

/// Of every drawing, in its own pixels; the page scales them.
pub(super) const WIDTH: u32 = 960;
pub(super) const FONT: &str = "sans-serif";
/// Stands for the page's own text colour until [`draw`] puts that in.
pub(super) const INK: RGBColor = RGBColor(1, 2, 3);
const INK_SVG: &str = "#010203";
pub(super) const GREY: RGBColor = RGBColor(140, 140, 140);
/// Okabe and Ito's colours, told apart by nearly everybody, but for their black and yellow, which one of
/// the two backgrounds would swallow.
pub(super) const PALETTE: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(140, 140, 140),
];

/// Where something is drawn.
pub(super) type Canvas<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// How something is drawn, and what its key shows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Stroke {
    Solid(RGBColor),
    Dashed(RGBColor),
    Area(RGBColor),
}

impl Stroke {
    /// The colour as HTML has it.
    pub(super) fn colour(self) -> String {
        let (Stroke::Solid(colour) | Stroke::Dashed(colour) | Stroke::Area(colour)) = self;
        if colour == INK {
            return "currentColor".to_owned();
        }
        format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
    }
}

/// The stroke of the contender with that index: dashed from the eighth on.
pub(super) fn nth(index: usize) -> Stroke {
    let colour = PALETTE.get(index % PALETTE.len()).copied().unwrap_or(GREY);
    if index < PALETTE.len() {
        Stroke::Solid(colour)
    } else {
        Stroke::Dashed(colour)
    }
}

/// The SVG of what `paint` draws.
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
