//! Charts as SVG and tables for terminals. Pure: equal values give equal bytes on every machine.

mod axis;
mod backend;
mod bars;
mod canvas;
mod chart;
mod points;
mod table;

pub use axis::top;
pub use bars::{Bar, bars};
pub use canvas::{Colour, DrawError, GREY, INK, PALETTE, Stroke, nth};
pub use chart::{Axes, Chart, Layer, page};
pub use points::{Points, steps};
pub use table::table;
