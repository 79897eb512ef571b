//! Charts as SVG, by the same library as the reports'. Without text measures of a page: see `weir-draw`.

use std::ops::RangeInclusive;

use serde::Deserialize;
use weir_draw::{Axes, Chart, INK, Layer, Stroke, nth, top};

use crate::ConsoleError;

/// Maximum number of lines of a chart.
pub const LINES_MAX: usize = 64;
/// Maximum number of points of a line.
pub const POINTS_MAX: usize = 10_000;
/// Widths and heights of a chart, in pixels.
pub const SIZES: RangeInclusive<u32> = 160..=2000;

/// Chart of values at equal distances.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drawing {
    /// First position on the horizontal axis.
    pub from: f64,
    /// Distance of two values on the horizontal axis, above 0.
    pub step: f64,
    /// Unit of the vertical axis.
    #[serde(default)]
    pub unit: Unit,
    /// Unit of the horizontal axis.
    #[serde(default)]
    pub across: Unit,
    /// Width, in pixels.
    pub width: u32,
    /// Height, in pixels.
    pub height: u32,
    /// Lowest end of the vertical axis; 0 by default.
    #[serde(default)]
    pub floor: f64,
    /// Fixed upper end of the vertical axis.
    #[serde(default)]
    pub ceiling: Option<f64>,
    /// Lines, the first at the bottom.
    pub lines: Vec<Line>,
}

/// Unit of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A number.
    #[default]
    None,
    /// Percent.
    Percent,
    /// Requests/s.
    Rps,
    /// Milliseconds.
    Ms,
    /// Seconds.
    Seconds,
}

impl Unit {
    const fn label(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Percent => "%",
            Unit::Rps => "/s",
            Unit::Ms => "ms",
            Unit::Seconds => "s",
        }
    }
}

/// Line of a chart.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Line {
    /// Values; `null` where there is none.
    pub values: Vec<Option<f64>>,
    /// Stroke.
    pub stroke: LineStroke,
    /// Index of the colour.
    #[serde(default)]
    pub colour: usize,
}

/// Stroke of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LineStroke {
    /// In the text colour.
    Ink,
    /// In a colour.
    Solid,
    /// Dashed, in a colour.
    Dashed,
    /// The area below, in a colour.
    Area,
}

/// Draws a chart.
///
/// # Errors
/// Too many lines or points, or a range without values.
pub fn draw(drawing: &Drawing) -> Result<String, ConsoleError> {
    let count = drawing.lines.len();
    if count > LINES_MAX {
        let right = format!("at most {LINES_MAX}");
        return Err(ConsoleError::value("lines", count, right));
    }
    let points = drawing.lines.iter().map(|line| line.values.len()).max();
    let points = points.unwrap_or(0);
    if points > POINTS_MAX {
        let right = format!("at most {POINTS_MAX}");
        return Err(ConsoleError::value("lines[].values", points, right));
    }
    for (path, size) in [("width", drawing.width), ("height", drawing.height)] {
        if !SIZES.contains(&size) {
            let right = format!("{} to {} pixels", SIZES.start(), SIZES.end());
            return Err(ConsoleError::value(path, size, right));
        }
    }
    if !(drawing.step > 0.0 && drawing.step.is_finite() && drawing.from.is_finite()) {
        return Err(ConsoleError::value("step", drawing.step, "above 0"));
    }
    let x = |index: usize| drawing.from + drawing.step * index as f64;
    let values = drawing.lines.iter().flat_map(|line| &line.values);
    let max = values.flatten().copied().fold(drawing.floor, f64::max);
    let ceiling = drawing
        .ceiling
        .unwrap_or_else(|| drawing.floor + top((max - drawing.floor) * 1.02));
    let axes = Axes {
        x: x(0)..x(points.saturating_sub(1).max(1)),
        y: drawing.floor..ceiling,
        x_unit: drawing.across.label(),
        y_unit: drawing.unit.label(),
    };
    let mut layers = Vec::new();
    for line in &drawing.lines {
        let colour = nth(line.colour % 7).colour();
        let stroke = match line.stroke {
            LineStroke::Ink => Stroke::Solid(INK),
            LineStroke::Solid => Stroke::Solid(colour),
            LineStroke::Dashed => Stroke::Dashed(colour),
            LineStroke::Area => Stroke::Area(colour),
        };
        // A line breaks where there is no value.
        let mut points = Vec::new();
        let values = line.values.iter().enumerate();
        for (index, value) in values {
            match value {
                Some(value) => points.push((x(index), value.clamp(drawing.floor, ceiling))),
                None => push(&mut layers, &mut points, stroke),
            }
        }
        push(&mut layers, &mut points, stroke);
    }
    let chart = Chart {
        title: String::new(),
        axes,
        layers,
    };
    chart
        .draw_sized(drawing.width, drawing.height)
        .map_err(|error| ConsoleError::Chart(error.to_string()))
}

fn push(layers: &mut Vec<Layer>, points: &mut Vec<(f64, f64)>, stroke: Stroke) {
    if !points.is_empty() {
        layers.push(Layer {
            name: String::new(),
            points: std::mem::take(points),
            stroke,
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawing(mut value: serde_json::Value) -> Drawing {
        for (key, size) in [("width", 600), ("height", 240)] {
            value
                .as_object_mut()
                .unwrap()
                .entry(key)
                .or_insert(json!(size));
        }
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn lines_break_without_values() {
        let line = |values: serde_json::Value| {
            let line = json!({ "values": values, "stroke": "solid" });
            draw(&drawing(
                json!({ "from": -3, "step": 1, "unit": "rps", "lines": [line] }),
            ))
            .unwrap()
        };
        let lines = |svg: &str| svg.matches("#0072B2").count();
        let (whole, broken) = (line(json!([1, 2, 3, 4])), line(json!([1, 2, null, 4, 5])));
        assert_eq!((lines(&whole), lines(&broken)), (1, 2), "{broken}");
        assert!(whole.contains("/s"), "{whole}");
        assert!(whole.contains("currentColor"));
    }

    #[test]
    fn empty_chart_is_drawn_and_excess_refused() {
        let empty = json!({ "from": 0, "step": 1, "lines": [] });
        assert!(draw(&drawing(empty)).unwrap().starts_with("<svg"));
        let many = vec![json!({ "values": [], "stroke": "ink" }); LINES_MAX + 1];
        let long = json!({ "values": vec![0; POINTS_MAX + 1], "stroke": "ink" });
        for (lines, step, message) in [
            (json!(many), 1.0, "lines: 65; it must be at most 64"),
            (json!([long]), 1.0, "lines[].values: 10001"),
            (json!([]), 0.0, "step: 0; it must be above 0"),
        ] {
            let refused = draw(&drawing(json!({ "from": 0, "step": step, "lines": lines })));
            let error = refused.unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let wide = draw(&drawing(
            json!({ "from": 0, "step": 1, "width": 3000, "lines": [] }),
        ));
        let error = wide.unwrap_err().to_string();
        assert_eq!(error, "width: 3000; it must be 160 to 2000 pixels");
    }
}
