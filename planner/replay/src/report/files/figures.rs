//! Figures of the report, with their contents and captions.

use std::time::Duration;

use weir_draw::{Axes, Chart, GREY, INK, Layer, PALETTE, Points, Stroke, nth, top};

use super::bars;
use super::series::{self, Bins};
use crate::report::ReportError;
use crate::report::summary::Summary;
use crate::request::{Play, Request, Second};
use crate::scenario::Scenario;

/// Drawing with title, caption and legend.
#[derive(Debug)]
pub(in crate::report) struct Figure {
    pub(super) title: String,
    pub(super) caption: String,
    /// Names and strokes of the legend.
    pub(super) key: Vec<(String, Stroke)>,
    pub(super) svg: String,
}

/// Data of all figures.
struct FigureData<'a> {
    scenario: &'a Scenario,
    requests: &'a [Request],
    plays: &'a [Play],
    bins: Bins,
}

/// Draws all figures, in reading order.
pub(in crate::report) fn draw(
    scenario: &Scenario,
    requests: &[Request],
    plays: &[Play],
    sums: &[Summary],
) -> Result<Vec<Figure>, ReportError> {
    let all = FigureData {
        scenario,
        requests,
        plays,
        bins: Bins::of(scenario.length),
    };
    let (svg, key) = bars::draw(sums)?;
    let mut figures = vec![
        Figure {
            title: "What became of the requests".to_owned(),
            caption:
                "Of all requests sent; the figure is the part on time. The mark is what nobody \
                      could have beaten with the same cores, knowing every request in advance."
                    .to_owned(),
            key,
            svg,
        },
        all.load()?,
        all.on_time(sums)?,
        all.latency()?,
        all.slack()?,
        all.accuracy()?,
        all.cores()?,
    ];
    for play in plays.iter().filter(|play| moves(play)) {
        let cores = |second: &Second, variant: usize| second.cores_actual.get(variant).copied();
        let title = format!("Cores of each variant: {}", play.contender);
        figures.push(all.stack(play, title, "", cores)?);
        let share = |second: &Second, variant: usize| Some(second.shares.get(variant)? * 100.0);
        let title = format!("Quotas of the variants: {}", play.contender);
        figures.push(all.stack(play, title, "%", share)?);
    }
    Ok(figures)
}

impl FigureData<'_> {
    fn load(&self) -> Result<Figure, ReportError> {
        let mut named = vec![(
            "offered".to_owned(),
            series::offered(self.requests, self.bins),
            Stroke::Solid(INK),
        )];
        for (index, play) in self.plays.iter().enumerate() {
            let demand = series::control(play, self.bins, |second| second.demand_rps);
            if !demand.is_empty() {
                named.push((format!("forecast: {}", play.contender), demand, nth(index)));
            }
        }
        let y_end = top(highest(&named));
        let caption =
            "Requests sent per second, and the planners' forecast of the demand with headroom.";
        self.over_time(
            "Offered load and forecast",
            caption,
            named,
            0.0..y_end,
            "/s",
        )
    }

    fn on_time(&self, sums: &[Summary]) -> Result<Figure, ReportError> {
        let mut named =
            self.of_each(|play| series::on_time(self.scenario, self.requests, play, self.bins));
        let bound = |sum: &Summary| {
            let on_time = sum.bound.as_ref()?.bound.on_time;
            Some(100.0 * on_time as f64 / sum.sent.max(1) as f64)
        };
        if let Some(share) = sums.iter().filter_map(bound).max_by(f64::total_cmp) {
            let level = vec![(0.0, share), (self.bins.end_s(), share)];
            let name = "highest bound, over the whole replay".to_owned();
            named.push((name, level, Stroke::Dashed(INK)));
        }
        let caption = "Of the requests sent in each interval, the part answered on time.";
        self.over_time("On time", caption, named, 0.0..100.0, "%")
    }

    fn accuracy(&self) -> Result<Figure, ReportError> {
        let named =
            self.of_each(|play| series::accuracies(self.scenario, self.requests, play, self.bins));
        let (min, most) = self.accuracy_range();
        let range = (min.floor() - 1.0).max(0.0)..(most.ceil() + 1.0).min(100.0).max(min + 1.0);
        let caption = "Mean accuracy of the answers to the requests sent in each interval.";
        self.over_time("Accuracy", caption, named, range, "%")
    }

    /// Minimum and maximum accuracy of an answer, percent: products over the stages.
    fn accuracy_range(&self) -> (f64, f64) {
        let variants = &self.scenario.service.variants;
        let stages = self.scenario.stages().map(|of_stage| {
            let known = variants.get(of_stage).unwrap_or_default().iter();
            let known = known.map(|known| known.accuracy);
            (
                known.clone().fold(100.0, f64::min),
                known.fold(0.0, f64::max),
            )
        });
        let product = |before: f64, of_stage: f64| before * of_stage / 100.0;
        let both =
            stages.reduce(|before, next| (product(before.0, next.0), product(before.1, next.1)));
        both.unwrap_or((100.0, 0.0))
    }

    fn cores(&self) -> Result<Figure, ReportError> {
        let sum = |cores: &Vec<f64>| (!cores.is_empty()).then(|| cores.iter().sum());
        let mut named = Vec::new();
        for (index, play) in self.plays.iter().enumerate() {
            let colour = nth(index).colour();
            let target = series::control(play, self.bins, |second| sum(&second.cores_target));
            let actual = series::control(play, self.bins, |second| sum(&second.cores_actual));
            let name = &play.contender;
            if target != actual {
                named.push((format!("target: {name}"), target, Stroke::Dashed(colour)));
            }
            named.push((name.clone(), actual, Stroke::Solid(colour)));
        }
        let y_end = top(highest(&named));
        let caption = "Actual cores of all variants together; where the target differs, that too.";
        self.over_time("Target and actual cores", caption, named, 0.0..y_end, "")
    }

    fn latency(&self) -> Result<Figure, ReportError> {
        let sent = self.requests.len();
        let all: Vec<Vec<f64>> = self
            .plays
            .iter()
            .map(|play| series::latencies_ms(self.requests, play))
            .collect();
        let longest = all
            .iter()
            .filter_map(|sorted| sorted.last())
            .fold(0.0, |a, b| b.max(a));
        let budget = self.budget_ms();
        let end = top(longest.min(budget * 2.0));
        let drawn = |sorted: &Vec<f64>| series::distribution(sorted, sent, 0.0, end);
        let mut layers = self.distributions(all.iter().map(drawn));
        layers.push(upright("median budget", budget, end));
        let caption = "Of all requests sent, the part answered within so long of sending, as the client \
                       sees it: a line ends at what was answered at all.";
        figure(
            "Latency",
            caption,
            layers,
            0.0..end,
            0.0..100.0,
            ("ms", "%"),
        )
    }

    fn slack(&self) -> Result<Figure, ReportError> {
        let all: Vec<Vec<f64>> = self
            .plays
            .iter()
            .map(|play| series::slacks_ms(self.requests, play))
            .collect();
        let end = top(self.budget_ms());
        let min = all
            .iter()
            .filter_map(|sorted| sorted.first())
            .fold(0.0, |a: f64, b| b.min(a));
        let start = -top(-min).min(end);
        let start = if min < 0.0 { start } else { 0.0 };
        let drawn = |sorted: &Vec<f64>| series::distribution(sorted, sorted.len(), start, end);
        let dispatched = all.iter().map(drawn);
        let mut layers = self.distributions(dispatched);
        layers.push(upright("due", 0.0, end));
        let caption = "Of the requests sent upstream, the part with no more than so long left until its \
                       answer had to leave the proxy. Left of the line it was too late already.";
        figure(
            "Slack at dispatch",
            caption,
            layers,
            start..end,
            0.0..100.0,
            ("ms", "%"),
        )
    }

    /// Stacked values of the variants, the first at the bottom.
    fn stack(
        &self,
        play: &Play,
        title: String,
        unit: &'static str,
        value: impl Fn(&Second, usize) -> Option<f64>,
    ) -> Result<Figure, ReportError> {
        let mut named = Vec::new();
        for (index, server) in self.scenario.variants.iter().enumerate() {
            let sum = |second: &Second| (0..=index).map(|below| value(second, below)).sum();
            let points = series::control(play, self.bins, sum);
            let colour = PALETTE.get(index % PALETTE.len()).copied().unwrap_or(GREY);
            named.push((server.name.clone(), points, Stroke::Area(colour)));
        }
        // The highest first: each lower one then paints over the rest of it.
        named.reverse();
        let y_end = if unit == "%" {
            100.0
        } else {
            top(highest(&named))
        };
        self.over_time(&title, "Upon each other.", named, 0.0..y_end, unit)
    }

    fn over_time(
        &self,
        title: &str,
        caption: &str,
        named: Vec<(String, Points, Stroke)>,
        y: std::ops::Range<f64>,
        unit: &'static str,
    ) -> Result<Figure, ReportError> {
        let mut caption = caption.to_owned();
        if self.bins.width_s() > 1.0 {
            caption += &format!(" Means over {} s.", self.bins.width_s());
        }
        figure(
            title,
            &caption,
            named,
            0.0..self.bins.end_s(),
            y,
            ("s", unit),
        )
    }

    fn of_each(&self, points: impl Fn(&Play) -> Points) -> Vec<(String, Points, Stroke)> {
        self.distributions(self.plays.iter().map(points))
    }

    /// One line for each contender.
    fn distributions(&self, points: impl Iterator<Item = Points>) -> Vec<(String, Points, Stroke)> {
        let names = self.plays.iter().map(|play| play.contender.clone());
        let strokes = (0..).map(nth);
        names
            .zip(points)
            .zip(strokes)
            .map(|((name, points), stroke)| (name, points, stroke))
            .collect()
    }

    /// Median budget, or the service's objective if there are no requests.
    fn budget_ms(&self) -> f64 {
        let mut budgets: Vec<Duration> =
            self.requests.iter().map(|request| request.budget).collect();
        let middle = budgets.len() / 2;
        let promised = self.scenario.service.slo;
        let median = if budgets.is_empty() {
            promised
        } else {
            *budgets.select_nth_unstable(middle).1
        };
        median.as_secs_f64() * 1e3
    }
}

fn figure(
    title: &str,
    caption: &str,
    named: Vec<(String, Points, Stroke)>,
    x: std::ops::Range<f64>,
    y: std::ops::Range<f64>,
    (x_unit, y_unit): (&'static str, &'static str),
) -> Result<Figure, ReportError> {
    let key = named
        .iter()
        .map(|(name, _, stroke)| (name.clone(), *stroke));
    let key = key.collect();
    let layer = |(name, points, stroke)| Layer {
        name,
        points,
        stroke,
    };
    let chart = Chart {
        title: title.to_owned(),
        axes: Axes {
            x,
            y,
            x_unit,
            y_unit,
        },
        layers: named.into_iter().map(layer).collect(),
    };
    Ok(Figure {
        caption: caption.to_owned(),
        key,
        svg: chart.draw()?,
        title: chart.title,
    })
}

/// Vertical line, kept within the figure.
fn upright(name: &str, at: f64, end: f64) -> (String, Points, Stroke) {
    let at = at.min(end);
    (
        name.to_owned(),
        vec![(at, 0.0), (at, 100.0)],
        Stroke::Dashed(INK),
    )
}

/// Whether any cores or quotas change.
fn moves(play: &Play) -> bool {
    let differ = |pair: &[Second]| matches!(pair, [a, b] if a.cores_actual != b.cores_actual || a.shares != b.shares);
    play.seconds.windows(2).any(differ)
}

fn highest(named: &[(String, Points, Stroke)]) -> f64 {
    let values = named
        .iter()
        .flat_map(|(_, points, _)| points)
        .map(|(_, value)| *value);
    values.fold(0.0, f64::max)
}
