//! Charts of lines and areas over two axes.

use std::ops::Range;

use plotters::prelude::*;

use super::ReportError;
use super::axis::Labelled;
use super::canvas::{self, Canvas, FONT, INK, Stroke};
use super::series::Points;

const HEIGHT: u32 = 270;

/// Ranges and labels of the axes.
pub(super) struct Axes {
    pub(super) x: Range<f64>,
    pub(super) y: Range<f64>,
    pub(super) x_unit: &'static str,
    pub(super) y_unit: &'static str,
}

/// Line or area of a chart.
pub(super) struct Layer {
    pub(super) points: Points,
    pub(super) stroke: Stroke,
}

/// Draws the layers, the first at the bottom.
pub(super) fn draw(axes: &Axes, layers: &[Layer]) -> Result<String, ReportError> {
    canvas::draw(HEIGHT, |canvas| paint(canvas, axes, layers))
}

fn paint(canvas: &Canvas<'_>, axes: &Axes, layers: &[Layer]) -> Result<(), ReportError> {
    let mut chart = ChartBuilder::on(canvas)
        .margin(8)
        .margin_right(30)
        .x_label_area_size(28)
        .y_label_area_size(72)
        .build_cartesian_2d(Labelled::new(&axes.x, 11), Labelled::new(&axes.y, 6))?;
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
    Ok(())
}

/// The smallest of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6 or 8 times a power of ten that is not below `value`; 1 if it is 0.
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
