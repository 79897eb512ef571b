//! The run as a picture (SVG): load and forecast, on-time share, cores, and quotas or batches, over
//! one time axis.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use weir_bed::fate::Outcome;
use weir_bed::network::Network;
use weir_bed::planner::{Cycle, CycleVariant};
use weir_draw::{Axes, Chart, GREY, INK, Layer, PALETTE, Points, Stroke, page, steps, top};

use crate::drive::Results;
use crate::scenario::{Policy, Scenario, Stage, Variant};
use crate::system::LISTENERS;

/// Interval between points of the remaining time.
const LEFT_INTERVAL: Duration = Duration::from_millis(100);
/// Maximum points of the on-time lines.
const BINS_MAX: usize = 120;
/// Stroke of each listener.
const LISTENER_STROKES: [Stroke; 3] = {
    let [blue, orange, ..] = PALETTE;
    [
        Stroke::Solid(GREY),
        Stroke::Solid(orange),
        Stroke::Solid(blue),
    ]
};

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
    let run = Run {
        scenario,
        rates,
        network,
        results,
    };
    let charts = panels(scenario.policy)
        .iter()
        .map(|panel| run.chart(*panel));
    let charts: Vec<Chart> = charts.collect();
    Ok(std::fs::write(path, page(&charts)?)?)
}

/// A run, and the conditions it was made under.
struct Run<'a> {
    scenario: &'a Scenario,
    /// Offered requests/s, by second.
    rates: &'a [f64],
    network: &'a Network,
    results: &'a Results,
}

impl Run<'_> {
    fn chart(&self, panel: Panel) -> Chart {
        let budget = self.scenario.budget.cores;
        match panel {
            Panel::Load => self.load(),
            Panel::OnTime => self.on_time(),
            Panel::Left => self.left(),
            Panel::Cores => {
                let title = format!("cores of each variant behind weir (budget {budget})");
                let cores = |variant: &CycleVariant| variant.cores_actual;
                self.stack(&title, f64::from(budget), "", cores)
            }
            Panel::Replicas => {
                let title = "ready replicas of each variant behind weir";
                let replicas = |variant: &CycleVariant| f64::from(variant.replicas_ready);
                self.stack(title, f64::from(budget), "", replicas)
            }
            Panel::Quotas => {
                let share = |variant: &CycleVariant| variant.share * 100.0;
                self.stack("quotas of the variants behind weir", 100.0, "%", share)
            }
            Panel::Batch => self.batches(),
        }
    }

    /// The length of the run, in s.
    fn seconds(&self) -> f64 {
        self.rates.len() as f64
    }

    /// A chart over the run's time, from 0 to `y_max`.
    fn over_time(
        &self,
        title: &str,
        y_max: f64,
        y_unit: &'static str,
        layers: Vec<Layer>,
    ) -> Chart {
        Chart {
            title: title.to_owned(),
            axes: Axes {
                x: 0.0..self.seconds(),
                y: 0.0..y_max,
                x_unit: "s",
                y_unit,
            },
            layers,
        }
    }

    fn load(&self) -> Chart {
        let rates = (0..).zip(self.rates);
        let offered = steps(
            rates.map(|(second, rate)| (f64::from(second), *rate)),
            self.seconds(),
        );
        let demand = |(second, cycle): &(f64, Cycle)| Some((*second, cycle.demand_rps?));
        let forecast = self.results.cycles.iter().filter_map(demand);
        let forecast: Points = forecast
            .filter(|(second, _)| *second <= self.seconds())
            .collect();
        let capacity = self.scenario.static_capacity_rps();
        let rates = offered.iter().chain(&forecast).map(|(_, rate)| *rate);
        let highest = rates.fold(capacity, f64::max);
        let level = vec![(0.0, capacity), (self.seconds(), capacity)];
        let [.., vermilion, _] = PALETTE;
        let layers = vec![
            layer("offered", offered, Stroke::Solid(INK)),
            layer("forecast", forecast, Stroke::Solid(vermilion)),
            layer("starting capacity", level, Stroke::Dashed(GREY)),
        ];
        self.over_time("load, requests/s", top(highest), "", layers)
    }

    fn on_time(&self) -> Chart {
        let title = "answered on time, of the requests sent in each second";
        let listeners = LISTENERS
            .iter()
            .zip(&self.results.outcomes)
            .zip(LISTENER_STROKES);
        let layers = listeners.map(|((name, outcomes), stroke)| {
            let shares = on_time(outcomes, self.scenario.slo(), self.rates.len());
            layer(name, shares, stroke)
        });
        self.over_time(title, 100.0, "%", layers.collect())
    }

    /// The time left of the SLO on arrival, by second of sending.
    fn left(&self) -> Chart {
        let bytes = self.scenario.load().payload_bytes;
        let left = |step: u32| {
            let at = LEFT_INTERVAL * step;
            let left = self
                .scenario
                .slo()
                .saturating_sub(self.network.upload(at, bytes));
            (at.as_secs_f64(), left.as_secs_f64() * 1e3)
        };
        let points = (0..).map(left).take_while(|(at, _)| *at <= self.seconds());
        let layers = vec![layer("on arrival", points.collect(), Stroke::Solid(INK))];
        let slo_ms = self.scenario.slo_ms as f64;
        self.over_time("time left of the SLO on arrival", slo_ms, "ms", layers)
    }

    /// Stacked areas, the first variant at the bottom.
    fn stack(
        &self,
        title: &str,
        y_max: f64,
        y_unit: &'static str,
        value: impl Fn(&CycleVariant) -> f64,
    ) -> Chart {
        let names: Vec<&str> = self
            .scenario
            .variants()
            .map(|variant| variant.name.as_str())
            .collect();
        let area = |(index, colour)| {
            let below = names.get(..=index).unwrap_or_default();
            let sum = |cycle: &Cycle| -> f64 {
                let found = below.iter().filter_map(|name| cycle.variants.get(*name));
                found.map(&value).sum()
            };
            let cycles = self.results.cycles.iter();
            let tops = steps(
                cycles.map(|(second, cycle)| (*second, sum(cycle))),
                self.seconds(),
            );
            Some(layer(below.last()?, tops, Stroke::Area(colour)))
        };
        let colours = PALETTE.into_iter().cycle().take(names.len());
        let mut layers: Vec<Layer> = colours.enumerate().filter_map(area).collect();
        // The highest first: each lower area paints over the part that is not its own.
        layers.reverse();
        self.over_time(title, y_max, y_unit, layers)
    }

    /// A line for each stage: its mean batch, weighted by share.
    fn batches(&self) -> Chart {
        let [blue, .., vermilion, _] = PALETTE;
        let colours = [blue, vermilion].into_iter().cycle();
        let layers = self
            .scenario
            .stages
            .iter()
            .zip(colours)
            .map(|(stage, colour)| {
                let mean = |(second, cycle): &(f64, Cycle)| Some((*second, batch(stage, cycle)?));
                let line = steps(self.results.cycles.iter().filter_map(mean), self.seconds());
                layer(&stage.name, line, Stroke::Solid(colour))
            });
        let y_max = top(f64::from(self.scenario.max_batch()));
        let title = "requests in a batch behind weir, as planned";
        self.over_time(title, y_max, "", layers.collect())
    }
}

fn layer(name: &str, points: Points, stroke: Stroke) -> Layer {
    Layer {
        name: name.to_owned(),
        points,
        stroke,
    }
}

/// On-time percentage by second of sending; a second without requests has no point.
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
    use weir_bed::fate::Fate;

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
