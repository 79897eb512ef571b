//! Lines and areas over two axes, as SVG without a background: axes and text take the page's colour,
//! so that a figure is as readable on a dark page as on a light one.

use std::ops::Range;

use plotters::prelude::*;

use super::ReportError;
use super::series::Points;

const SIZE: (u32, u32) = (960, 270);
pub(super) const FONT: &str = "sans-serif";
/// Stands for the page's own text colour until [`finish`] puts that in.
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

/// What is drawn where.
pub(super) struct Axes {
    pub(super) x: Range<f64>,
    pub(super) y: Range<f64>,
    pub(super) x_unit: &'static str,
    pub(super) y_unit: &'static str,
}

/// One thing in a chart.
pub(super) struct Layer {
    pub(super) points: Points,
    pub(super) stroke: Stroke,
}

/// Draws the layers, the first at the bottom.
pub(super) fn draw(axes: &Axes, layers: &[Layer]) -> Result<String, ReportError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
        let mut chart = ChartBuilder::on(&root)
            .margin(8)
            .margin_right(30)
            .x_label_area_size(28)
            .y_label_area_size(72)
            .build_cartesian_2d(axes.x.clone(), axes.y.clone())?;
        let decimals = if axes.y.end - axes.y.start < 8.0 {
            1
        } else {
            0
        };
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(INK.mix(0.15))
            .axis_style(INK.mix(0.6))
            .x_labels(11)
            .y_labels(6)
            .label_style((FONT, 16).into_font().color(&INK))
            .x_label_formatter(&|x| format!("{x:.0} {}", axes.x_unit))
            .y_label_formatter(&|y| {
                format!("{y:.decimals$} {}", axes.y_unit)
                    .trim_end()
                    .to_owned()
            })
            .draw()?;
        for layer in layers {
            let points = layer.points.iter().copied();
            match layer.stroke {
                Stroke::Solid(colour) => {
                    chart.draw_series(LineSeries::new(points, colour.stroke_width(2)))?;
                }
                Stroke::Dashed(colour) => {
                    let style = colour.stroke_width(2);
                    chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?;
                }
                Stroke::Area(colour) => {
                    let floor = axes.y.start;
                    chart.draw_series(AreaSeries::new(points, floor, colour.filled()))?;
                }
            }
        }
        root.present()?;
    }
    Ok(finish(&svg))
}

/// Puts the page's colour in.
pub(super) fn finish(svg: &str) -> String {
    svg.replace(INK_SVG, "currentColor")
}

/// The least of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten that is not below `value`; 1 for nothing.
pub(super) fn top(value: f64) -> f64 {
    if !(value > 0.0 && value < 1e12) {
        return 1.0;
    }
    let mut power = 1e-3;
    while power * 10.0 < value {
        power *= 10.0;
    }
    let steps = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    let enough = steps
        .into_iter()
        .map(|step| step * power)
        .find(|top| *top >= value);
    enough.unwrap_or(power * 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_end_at_round_numbers() {
        for (value, end) in [
            (0.0, 1.0),
            (9.5, 10.0),
            (10.0, 10.0),
            (10.1, 12.0),
            (640.0, 800.0),
        ] {
            assert!((top(value) - end).abs() < 1e-9, "{value}: {}", top(value));
        }
        assert_eq!(top(f64::NAN), 1.0);
    }
}
