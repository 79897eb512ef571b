//! The run as a picture (SVG): load and forecast, on-time share, cores, and quotas or batches, over
//! one time axis.

mod chart;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use plotters::prelude::*;
use weir_bed::fate::Outcome;
use weir_bed::network::Network;
use weir_bed::planner::{Cycle, CycleVariant};

use chart::{Area, Frame, Points, WIDTH, framed, legend, on_time, steps};

use crate::drive::Results;
use crate::scenario::{Policy, Scenario, Stage, Variant};
use crate::system::LISTENERS;

/// Height of a panel, in pixels.
const HEIGHT: u32 = 280;
/// Interval between points of the remaining time.
const LEFT_INTERVAL: Duration = Duration::from_millis(100);
/// Okabe and Ito's palette, safe for colour-blind readers.
const GREY: RGBColor = RGBColor(130, 130, 130);
const ORANGE: RGBColor = RGBColor(230, 159, 0);
const BLUE: RGBColor = RGBColor(0, 114, 178);
const RED: RGBColor = RGBColor(213, 94, 0);
/// Colour of each listener.
const LISTENER_COLOURS: [RGBColor; 3] = [GREY, ORANGE, BLUE];
/// Colours of variants, in order; repeated if there are more.
const VARIANT_COLOURS: [RGBColor; 6] = [
    RGBColor(86, 180, 233),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(240, 228, 66),
    ORANGE,
    RED,
];
/// Colours of stages, in order.
const STAGE_COLOURS: [RGBColor; 2] = [BLUE, RED];

/// A panel of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Panel {
    Load,
    OnTime,
    Left,
    Cores,
    Quotas,
    Replicas,
    Batch,
}

/// The panels that show the policy's decisions and their reasons.
fn panels(policy: Policy) -> &'static [Panel] {
    match policy {
        Policy::Infadapter => &[Panel::Load, Panel::OnTime, Panel::Cores, Panel::Quotas],
        Policy::Themis => &[
            Panel::Load,
            Panel::OnTime,
            Panel::Cores,
            Panel::Replicas,
            Panel::Batch,
        ],
        Policy::Sponge | Policy::Ipa => &[
            Panel::Load,
            Panel::OnTime,
            Panel::Left,
            Panel::Cores,
            Panel::Batch,
        ],
    }
}

/// Draws the whole picture to `path`.
pub(crate) fn draw(
    path: &Path,
    scenario: &Scenario,
    rates: &[f64],
    network: &Network,
    results: &Results,
) -> Result<()> {
    let panels = panels(scenario.policy);
    let rows = panels.len();
    let root = SVGBackend::new(path, (WIDTH, HEIGHT * rows as u32)).into_drawing_area();
    root.fill(&WHITE)?;
    let seconds = rates.len() as f64;
    for (area, panel) in root.split_evenly((rows, 1)).iter().zip(panels) {
        match panel {
            Panel::Load => draw_load(area, scenario, rates, &results.cycles)?,
            Panel::OnTime => draw_on_time(area, scenario, rates.len(), &results.outcomes)?,
            Panel::Left => draw_left(area, scenario, seconds, network)?,
            Panel::Cores => {
                let budget = scenario.budget.cores;
                let frame = Frame {
                    title: &format!("cores of each variant behind weir (budget {budget})"),
                    x_max: seconds,
                    y_max: f64::from(budget),
                    percent: false,
                };
                let cores = |variant: &CycleVariant| variant.cores_actual;
                draw_stack(area, scenario, &frame, &results.cycles, cores)?;
            }
            Panel::Replicas => {
                let frame = Frame {
                    title: "ready replicas of each variant behind weir",
                    x_max: seconds,
                    y_max: f64::from(scenario.budget.cores),
                    percent: false,
                };
                let replicas = |variant: &CycleVariant| f64::from(variant.replicas_ready);
                draw_stack(area, scenario, &frame, &results.cycles, replicas)?;
            }
            Panel::Quotas => {
                let frame = Frame {
                    title: "quotas of the variants behind weir",
                    x_max: seconds,
                    y_max: 100.0,
                    percent: true,
                };
                let share = |variant: &CycleVariant| variant.share * 100.0;
                draw_stack(area, scenario, &frame, &results.cycles, share)?;
            }
            Panel::Batch => draw_batches(area, scenario, seconds, &results.cycles)?,
        }
    }
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
    let started = match scenario.policy {
        Policy::Infadapter | Policy::Ipa | Policy::Themis => "starting split's",
        Policy::Sponge => "starting cores'",
    };
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
            (started, GREY),
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

/// Draws the time left of the SLO on arrival, by second of sending.
fn draw_left(area: &Area, scenario: &Scenario, seconds: f64, network: &Network) -> Result<()> {
    let frame = Frame {
        title: "time left of the SLO on arrival, ms",
        x_max: seconds,
        y_max: scenario.slo_ms as f64,
        percent: false,
    };
    let mut chart = framed(area, &frame)?;
    let bytes = scenario.load().payload_bytes;
    let left = |step: u32| {
        let at = LEFT_INTERVAL * step;
        let left = scenario.slo().saturating_sub(network.upload(at, bytes));
        (at.as_secs_f64(), left.as_secs_f64() * 1e3)
    };
    let points: Points = (0..)
        .map(left)
        .take_while(|(at, _)| *at <= seconds)
        .collect();
    chart.draw_series(LineSeries::new(points, BLACK.stroke_width(2)))?;
    legend(area, &[("on arrival", BLACK)])
}

/// Draws stacked areas, the first variant at the bottom.
fn draw_stack(
    area: &Area,
    scenario: &Scenario,
    frame: &Frame,
    cycles: &[(f64, Cycle)],
    value: impl Fn(&CycleVariant) -> f64,
) -> Result<()> {
    let mut chart = framed(area, frame)?;
    let names: Vec<(&str, RGBColor)> = scenario
        .variants()
        .map(|variant| variant.name.as_str())
        .zip(VARIANT_COLOURS.into_iter().cycle())
        .collect();
    // The highest first, so that each lower area paints over the part that is not its own.
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

/// Draws a line for each stage: its mean batch, weighted by share.
fn draw_batches(
    area: &Area,
    scenario: &Scenario,
    seconds: f64,
    cycles: &[(f64, Cycle)],
) -> Result<()> {
    let frame = Frame {
        title: "requests in a batch behind weir, as planned",
        x_max: seconds,
        y_max: 1.1 * f64::from(scenario.max_batch()),
        percent: false,
    };
    let mut chart = framed(area, &frame)?;
    let colours = STAGE_COLOURS.into_iter().cycle();
    for (stage, colour) in scenario.stages.iter().zip(colours.clone()) {
        let mean = |(second, cycle): &(f64, Cycle)| Some((*second, batch(stage, cycle)?));
        let line = steps(cycles.iter().filter_map(mean), seconds);
        chart.draw_series(LineSeries::new(line, colour.stroke_width(2)))?;
    }
    let names = scenario.stages.iter().map(|stage| stage.name.as_str());
    let names: Vec<(&str, RGBColor)> = names.zip(colours).collect();
    legend(area, &names)
}

/// The mean batch of a stage. `None` if the cycle made no plan: the previous one stays.
fn batch(stage: &Stage, cycle: &Cycle) -> Option<f64> {
    let found = |variant: &Variant| cycle.variants.get(&variant.name);
    let parts = || stage.variants.iter().filter_map(found);
    let shares: f64 = parts().map(|part| part.share).sum();
    let mean = || parts().map(|part| part.share * f64::from(part.batch)).sum();
    (shares > 0.0).then(mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stage_batch_is_weighted_mean_and_none_without_plan() {
        let scenario = Scenario::shipped(Policy::Ipa).unwrap();
        let cycle = |parts: &[(&str, f64, u32)]| {
            let part = |(name, share, batch): &(&str, f64, u32)| {
                let variant = CycleVariant {
                    cores_actual: 1.0,
                    replicas_ready: 1,
                    share: *share,
                    batch: *batch,
                };
                ((*name).to_owned(), variant)
            };
            Cycle {
                at_ms: 0,
                cycle_ms: 1.0,
                plans_published: 1,
                demand_rps: None,
                why: String::new(),
                variants: parts.iter().map(part).collect(),
            }
        };
        let parts = [
            ("yolov5n", 0.75, 4),
            ("yolov5s", 0.25, 2),
            ("yolov5m", 0.0, 1),
            ("resnet18", 0.0, 0),
        ];
        let both = scenario.stages.iter().map(|of| batch(of, &cycle(&parts)));
        assert_eq!(both.collect::<Vec<_>>(), [Some(3.5), None]);
    }

    #[test]
    fn every_policy_has_panels_for_its_decisions() {
        use Panel::{Batch, Cores, Left, Load, OnTime, Quotas};
        assert_eq!(panels(Policy::Infadapter), [Load, OnTime, Cores, Quotas]);
        assert_eq!(panels(Policy::Sponge), [Load, OnTime, Left, Cores, Batch]);
        assert_eq!(panels(Policy::Ipa), [Load, OnTime, Left, Cores, Batch]);
    }
}
