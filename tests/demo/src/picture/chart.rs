//! Building blocks of every panel: axes, a legend, and lines.

use std::time::Duration;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use weir_bed::fate::Outcome;

/// Width of the picture, in pixels.
pub(super) const WIDTH: u32 = 1000;
/// Width of the legend on the right, in pixels.
const LEGEND: u32 = 170;
const FONT: &str = "sans-serif";
/// Maximum points of the on-time lines.
const BINS_MAX: usize = 120;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type Points = Vec<(f64, f64)>;

/// Title and axes of a panel.
pub(super) struct Frame<'a> {
    pub(super) title: &'a str,
    pub(super) x_max: f64,
    pub(super) y_max: f64,
    pub(super) percent: bool,
}

/// Draws axes, grid and title, and returns the chart for the caller to draw into.
pub(super) fn framed<'a, 'b>(
    area: &'a Area<'b>,
    frame: &Frame,
) -> Result<
    ChartContext<
        'a,
        SVGBackend<'b>,
        Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
    >,
> {
    let mut chart = ChartBuilder::on(area)
        .caption(frame.title, (FONT, 18))
        .margin_left(10)
        .margin_top(8)
        .margin_right(LEGEND)
        .x_label_area_size(30)
        .y_label_area_size(52)
        .build_cartesian_2d(0.0..frame.x_max, 0.0..frame.y_max)?;
    let unit = if frame.percent { " %" } else { "" };
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .x_labels(13)
        .y_labels(6)
        .label_style((FONT, 14))
        .x_label_formatter(&|second| format!("{second:.0} s"))
        .y_label_formatter(&|value| format!("{value:.0}{unit}"))
        .draw()?;
    Ok(chart)
}

/// Draws the legend beside the panel.
pub(super) fn legend(area: &Area, names: &[(&str, RGBColor)]) -> Result<()> {
    let left = (WIDTH - LEGEND + 18) as i32;
    for (row, (name, colour)) in names.iter().enumerate() {
        let top = 44 + 24 * row as i32;
        area.draw(&Rectangle::new(
            [(left, top), (left + 16, top + 12)],
            colour.filled(),
        ))?;
        area.draw(&Text::new(
            (*name).to_owned(),
            (left + 24, top - 1),
            (FONT, 15),
        ))?;
    }
    Ok(())
}

/// A step line: each value is held until the next one, the last until `end`; later values are left
/// out.
pub(super) fn steps(values: impl Iterator<Item = (f64, f64)>, end: f64) -> Points {
    let mut points: Points = Vec::new();
    for (at, value) in values.take_while(|(at, _)| *at <= end) {
        if let Some((_, before)) = points.last().copied() {
            points.push((at, before));
        }
        points.push((at, value));
    }
    if let Some((_, last)) = points.last().copied() {
        points.push((end, last));
    }
    points
}

/// On-time percentage by second of sending; a second without requests has no point.
pub(super) fn on_time(outcomes: &[Outcome], slo: Duration, seconds: usize) -> Points {
    let width = seconds.div_ceil(BINS_MAX).max(1);
    let bins = seconds.div_ceil(width);
    let mut counts = vec![(0u32, 0u32); bins];
    for outcome in outcomes {
        if let Some((sent, on_time)) = counts.get_mut(outcome.sent_at.as_secs() as usize / width) {
            *sent += 1;
            *on_time += u32::from(outcome.on_time(slo));
        }
    }
    let middle = |bin: usize| (bin as f64 + 0.5) * width as f64;
    let sent = counts.iter().enumerate().filter(|(_, (sent, _))| *sent > 0);
    sent.map(|(bin, (sent, on_time))| (middle(bin), 100.0 * f64::from(*on_time) / f64::from(*sent)))
        .collect()
}

#[cfg(test)]
mod tests {
    use weir_bed::fate::Fate;

    use super::*;

    #[test]
    fn step_line_holds_each_value() {
        let points = steps([(0.0, 1.0), (2.0, 5.0), (4.5, 9.0)].into_iter(), 4.0);
        assert_eq!(points, [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0), (4.0, 5.0)]);
    }

    #[test]
    fn on_time_share_is_binned_by_send_time() {
        let answered = |sent_ms, took_ms| {
            let sent_at = Duration::from_millis(sent_ms);
            let ended_at = sent_at + Duration::from_millis(took_ms);
            Outcome {
                id: String::new(),
                sent_at,
                ended_at,
                fate: Fate::Answered {
                    variant: None,
                    remaining_ms: None,
                },
            }
        };
        let outcomes = [answered(100, 900), answered(900, 1001), answered(2500, 10)];
        let points = on_time(&outcomes, Duration::from_secs(1), 3);
        assert_eq!(points, [(0.5, 50.0), (2.5, 100.0)]);
    }
}
