//! Charts of lines and areas over two axes.

use std::ops::Range;

use plotters::prelude::*;

use crate::axis::Labelled;
use crate::canvas::{self, Canvas, DrawError, FONT, INK, Stroke, WIDTH};
use crate::points::Points;

/// Height of a chart.
const HEIGHT: u32 = 270;
/// Width that a label of the horizontal axis takes.
const WIDTH_OF_LABEL: i64 = 70;
/// Maximum number of labels of the horizontal axis.
const LABELS_MAX: i64 = 11;
/// Width of the legend beside a chart of a page.
const LEGEND: u32 = 170;

/// Ranges and labels of the axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Axes {
    /// Range of the horizontal axis.
    pub x: Range<f64>,
    /// Range of the vertical axis.
    pub y: Range<f64>,
    /// Unit of the horizontal axis; empty for a number.
    pub x_unit: &'static str,
    /// Unit of the vertical axis; empty for a number.
    pub y_unit: &'static str,
}

/// Line or area of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// Name in the legend; empty for a layer that is not in it.
    pub name: String,
    /// Points, by rising x.
    pub points: Points,
    /// Line or area, and its colour.
    pub stroke: Stroke,
}

/// Layers over two axes, the first at the bottom.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Ranges and labels of the axes.
    pub axes: Axes,
    /// Lines and areas.
    pub layers: Vec<Layer>,
}

impl Chart {
    /// Draws the chart as SVG, without its title and legend.
    ///
    /// # Errors
    /// None at this size.
    pub fn draw(&self) -> Result<String, DrawError> {
        self.draw_sized(WIDTH, HEIGHT)
    }

    /// Draws the chart at another size, with as many labels as fit.
    ///
    /// # Errors
    /// A size that is too small for axes.
    pub fn draw_sized(&self, width: u32, height: u32) -> Result<String, DrawError> {
        let paint = |canvas: &Canvas<'_>| paint(canvas, &self.axes, &self.layers);
        canvas::draw((width, height), paint)
    }
}

/// Draws charts below each other as one SVG on white, each with its title and a legend on its right.
///
/// # Errors
/// None at this size.
pub fn page(charts: &[Chart]) -> Result<String, DrawError> {
    let rows = charts.len().max(1);
    canvas::draw((WIDTH, HEIGHT * rows as u32), |canvas| {
        canvas.fill(&WHITE)?;
        for (area, chart) in canvas.split_evenly((rows, 1)).iter().zip(charts) {
            let title = (FONT, 18).into_font().color(&INK);
            let area = area.titled(&chart.title, title)?;
            let (plot, legend) = area.split_horizontally(WIDTH - LEGEND);
            paint(&plot, &chart.axes, &chart.layers)?;
            paint_legend(&legend, &chart.layers)?;
        }
        Ok(())
    })
}

/// Names the layers, the highest of stacked ones first.
fn paint_legend(area: &Canvas<'_>, layers: &[Layer]) -> Result<(), DrawError> {
    let ink = (FONT, 15).into_font().color(&INK);
    let named = layers.iter().filter(|layer| !layer.name.is_empty());
    for (row, layer) in (0..).zip(named) {
        let top = 16 + 24 * row;
        let corners = [(0, top), (16, top + 12)];
        area.draw(&Rectangle::new(corners, layer.stroke.colour().filled()))?;
        area.draw(&Text::new(layer.name.clone(), (24, top - 1), ink.clone()))?;
    }
    Ok(())
}

fn paint(canvas: &Canvas<'_>, axes: &Axes, layers: &[Layer]) -> Result<(), DrawError> {
    let most = (i64::from(canvas.dim_in_pixel().0) / WIDTH_OF_LABEL).clamp(3, LABELS_MAX);
    let mut chart = ChartBuilder::on(canvas)
        .margin(8)
        .margin_right(30)
        .x_label_area_size(28)
        .y_label_area_size(72)
        .build_cartesian_2d(Labelled::new(&axes.x, most), Labelled::new(&axes.y, 6))?;
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
        .x_label_formatter(&|x| format!("{x} {}", axes.x_unit).trim_end().to_owned())
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
            Stroke::Marks(colour) => {
                chart.draw_series(points.map(|point| Circle::new(point, 4, colour.filled())))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::{GREY, PALETTE};

    #[test]
    fn narrow_chart_has_fewer_labels() {
        let chart = Chart {
            title: String::new(),
            axes: Axes {
                x: 0.0..100.0,
                y: 0.0..1.0,
                x_unit: "s",
                y_unit: "",
            },
            layers: Vec::new(),
        };
        let labels = |svg: String| svg.matches(" s\n").count();
        let (narrow, wide) = (chart.draw_sized(320, 200), chart.draw());
        let (narrow, wide) = (narrow.unwrap(), wide.unwrap());
        assert!(narrow.contains("width=\"320\""), "{narrow}");
        assert_eq!((labels(narrow), labels(wide)), (3, 11));
    }

    #[test]
    fn page_names_every_chart_and_layer() {
        let layer = |name: &str, stroke| Layer {
            name: name.to_owned(),
            points: vec![(0.0, 1.0), (10.0, 3.0)],
            stroke,
        };
        let chart = |title: &str, stroke| Chart {
            title: title.to_owned(),
            axes: Axes {
                x: 0.0..10.0,
                y: 0.0..4.0,
                x_unit: "s",
                y_unit: "",
            },
            layers: vec![layer(&format!("{title} line"), stroke)],
        };
        let charts = [
            chart("load", Stroke::Solid(INK)),
            chart("cores", Stroke::Area(PALETTE[0])),
            chart("demand", Stroke::Dashed(GREY)),
        ];
        let svg = page(&charts).unwrap();
        for text in ["load", "load line", "cores", "demand line", "10 s", "4.0"] {
            assert!(svg.contains(text), "{text}: {svg}");
        }
        assert!(svg.contains("height=\"810\""), "{svg}");
        assert_eq!(svg, page(&charts).unwrap());
        assert!(!charts[0].draw().unwrap().contains("load"));
    }
}
