//! Common basis of all drawings: width, font and colours. The ink of an SVG is the text colour of its page, black
//! where it is a file of its own; a drawing without background is readable on dark and light pages.

use std::io;

use plotters::coord::Shift;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;

use crate::backend::Backend;

/// A colour, as red, green and blue.
pub use plotters::style::RGBColor as Colour;

/// Error of a drawing: it was too small for its parts.
pub type DrawError = DrawingAreaErrorKind<io::Error>;

/// Width of every drawing, in its own pixels; the page scales them.
pub(crate) const WIDTH: u32 = 960;
pub(crate) const FONT: &str = "sans-serif";
/// Text colour of the page.
pub const INK: RGBColor = RGBColor(1, 2, 3);
/// [`INK`] in a drawing, for which its page's own colour stands in the end.
const INK_SVG: &str = "#010203";
/// Colour of what is not named.
pub const GREY: Colour = RGBColor(140, 140, 140);
/// Okabe and Ito's colour-blind safe colours, without black and yellow, which are invisible on one of
/// the two backgrounds.
pub const PALETTE: [Colour; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(213, 94, 0),
    RGBColor(140, 140, 140),
];

/// Area to draw on.
pub(crate) type Canvas<'a> = DrawingArea<Backend<'a>, Shift>;

/// Style of a line or area, also shown in the legend.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stroke {
    /// A line.
    Solid(Colour),
    /// A dashed line.
    Dashed(Colour),
    /// The area between a line and the horizontal axis.
    Area(Colour),
    /// A mark at each point, without a line.
    Marks(Colour),
}

impl Stroke {
    /// Returns its colour.
    pub fn colour(self) -> Colour {
        let (Stroke::Solid(colour)
        | Stroke::Dashed(colour)
        | Stroke::Area(colour)
        | Stroke::Marks(colour)) = self;
        colour
    }

    /// Returns its colour in HTML notation.
    pub fn html(self) -> String {
        let colour = self.colour();
        if colour == INK {
            return "currentColor".to_owned();
        }
        format!("#{:02x}{:02x}{:02x}", colour.0, colour.1, colour.2)
    }
}

/// Returns the stroke of the line with that index: dashed from the eighth on.
pub fn nth(index: usize) -> Stroke {
    let colour = PALETTE.get(index % PALETTE.len()).copied().unwrap_or(GREY);
    if index < PALETTE.len() {
        Stroke::Solid(colour)
    } else {
        Stroke::Dashed(colour)
    }
}

/// Returns the SVG of that width and height that `paint` draws.
pub(crate) fn draw(
    size: (u32, u32),
    paint: impl FnOnce(&Canvas<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut svg = String::new();
    {
        let backend = Backend(SVGBackend::with_string(&mut svg, size));
        let canvas = backend.into_drawing_area();
        paint(&canvas)?;
        canvas.present()?;
    }
    Ok(svg.replace(INK_SVG, "currentColor"))
}
