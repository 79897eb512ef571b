//! The run as a picture (SVG): load and forecast, on-time share, cores, quotas, over one time axis.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;
use weir_tests::fate::Outcome;

use crate::drive::Results;
use crate::scenario::Scenario;
use crate::system::LISTENERS;
use weir_tests::planner::{Cycle, CycleVariant};

const SIZE: (u32, u32) = (1000, 1120);
/// Room for the legend, on the right.
const LEGEND: u32 = 170;
const FONT: &str = "sans-serif";
/// Okabe and Ito's colours, told apart by nearly everybody.
const GREY: RGBColor = RGBColor(130, 130, 130);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const RED: RGBColor = RGBColor(213, 94, 0);
/// One for each listener.
const LISTENER_COLOURS: [RGBColor; 3] = [GREY, ORANGE, BLUE];
/// For variants, in their order; used again from the beginning where there are more.
const VARIANT_COLOURS: [RGBColor; 4] = [
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(240, 228, 66),
];
/// Most points of the on-time lines.
const BINS_MAX: usize = 120;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Points = Vec<(f64, f64)>;

/// What a panel is framed by.
struct Frame<'a> {
    title: &'a str,
    x_max: f64,
    y_max: f64,
    percent: bool,
}

/// Draws everything into `path`.
pub(crate) fn draw(
    path: &Path,
    scenario: &Scenario,
    rates: &[f64],
    results: &Results,
) -> Result<()> {
    let root = SVGBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let seconds = rates.len() as f64;
    let panels = root.split_evenly((4, 1));
    let [load, on_time, cores, quotas] = panels.as_slice() else {
        anyhow::bail!("{} panels, not 4", panels.len());
    };
    draw_load(load, scenario, rates, &results.cycles)?;
    draw_on_time(on_time, scenario, rates.len(), &results.outcomes)?;
    let title = format!(
        "cores of each variant behind weir (budget {})",
        scenario.budget.cores
    );
    let budget = f64::from(scenario.budget.cores);
    let frame = Frame {
        title: &title,
        x_max: seconds,
        y_max: budget,
        percent: false,
    };
    draw_stack(cores, scenario, &frame, &results.cycles, |variant| {
        variant.cores_actuated
    })?;
    let title = "quotas of the variants behind weir";
    let frame = Frame {
        title,
        x_max: seconds,
        y_max: 100.0,
        percent: true,
    };
    draw_stack(quotas, scenario, &frame, &results.cycles, |variant| {
        variant.share * 100.0
    })?;
    root.present()?;
    Ok(())
}

fn draw_load(
    area: &Area,
    scenario: &Scenario,
    rates: &[f64],
    cycles: &[(f64, Cycle)],
) -> Result<()> {
    let offered = steps(
        rates
            .iter()
            .enumerate()
            .map(|(second, rate)| (second as f64, *rate)),
        rates.len() as f64,
    );
    let demand = |(second, cycle): &(f64, Cycle)| Some((*second, cycle.demand_rps?));
    let shown = |(second, _): &(f64, f64)| *second <= rates.len() as f64;
    let forecast: Points = cycles.iter().filter_map(demand).filter(shown).collect();
    let capacity = scenario.static_capacity_rps();
    let highest = offered
        .iter()
        .chain(&forecast)
        .map(|(_, rate)| *rate)
        .fold(capacity, f64::max);
    let title = "load, requests/s";
    let x_max = rates.len() as f64;
    let mut chart = framed(
        area,
        &Frame {
            title,
            x_max,
            y_max: highest * 1.1,
            percent: false,
        },
    )?;
    let level = DashedLineSeries::new(
        [(0.0, capacity), (x_max, capacity)],
        6,
        4,
        GREY.stroke_width(1),
    );
    chart.draw_series(level)?;
    chart.draw_series(LineSeries::new(offered, BLACK.stroke_width(2)))?;
    chart.draw_series(LineSeries::new(forecast, RED.stroke_width(2)))?;
    legend(
        area,
        &[
            ("offered", BLACK),
            ("planned for", RED),
            ("starting split's", GREY),
            ("capacity", WHITE),
        ],
    )
}

fn draw_on_time(
    area: &Area,
    scenario: &Scenario,
    seconds: usize,
    outcomes: &[Vec<Outcome>],
) -> Result<()> {
    let title = "answered on time, of the requests sent in each second";
    let frame = Frame {
        title,
        x_max: seconds as f64,
        y_max: 100.0,
        percent: true,
    };
    let mut chart = framed(area, &frame)?;
    for (outcomes, colour) in outcomes.iter().zip(LISTENER_COLOURS) {
        let shares = on_time(outcomes, scenario.slo(), seconds);
        chart.draw_series(LineSeries::new(shares, colour.stroke_width(2)))?;
    }
    let names: Vec<(&str, RGBColor)> = LISTENERS.into_iter().zip(LISTENER_COLOURS).collect();
    legend(area, &names)
}

/// Areas upon each other, the first variant at the bottom.
fn draw_stack(
    area: &Area,
    scenario: &Scenario,
    frame: &Frame,
    cycles: &[(f64, Cycle)],
    value: impl Fn(&CycleVariant) -> f64,
) -> Result<()> {
    let mut chart = framed(area, frame)?;
    let names: Vec<(&str, RGBColor)> = scenario
        .variants
        .iter()
        .map(|variant| variant.name.as_str())
        .zip(VARIANT_COLOURS.into_iter().cycle())
        .collect();
    // The highest first, so that each lower one paints over what is not its own.
    for (index, (_, colour)) in names.iter().enumerate().rev() {
        let below = names.iter().take(index + 1);
        let sum = |cycle: &Cycle| -> f64 {
            below
                .clone()
                .filter_map(|(name, _)| cycle.variants.get(*name))
                .map(&value)
                .sum()
        };
        let tops = steps(
            cycles.iter().map(|(second, cycle)| (*second, sum(cycle))),
            frame.x_max,
        );
        chart.draw_series(AreaSeries::new(tops, 0.0, colour.filled()))?;
    }
    let upside_down: Vec<(&str, RGBColor)> = names.into_iter().rev().collect();
    legend(area, &upside_down)
}

/// Axes, grid and title; the caller draws into what comes back.
fn framed<'a, 'b>(
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

/// Names beside the panel.
fn legend(area: &Area, names: &[(&str, RGBColor)]) -> Result<()> {
    let left = (SIZE.0 - LEGEND + 18) as i32;
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

/// Each value held until the next one, the last until `end`; what comes later is left out.
fn steps(values: impl Iterator<Item = (f64, f64)>, end: f64) -> Points {
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

/// Percent on time over the second of sending; a second without requests has no point.
fn on_time(outcomes: &[Outcome], slo: Duration, seconds: usize) -> Points {
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
    use weir_tests::fate::Fate;

    use super::*;

    #[test]
    fn steps_hold_their_value() {
        let points = steps([(0.0, 1.0), (2.0, 5.0), (4.5, 9.0)].into_iter(), 4.0);
        assert_eq!(points, [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0), (4.0, 5.0)]);
    }

    #[test]
    fn the_share_belongs_to_the_second_of_sending() {
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
