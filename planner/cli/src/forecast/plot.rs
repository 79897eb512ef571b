//! Picture of a back-test: the busiest part in detail, and the choice over all of it.

use weir_draw::{Axes, Chart, GREY, Layer, PALETTE, Stroke, page as draw, steps, top};
use weir_forecast::backtest::{Moment, Report};
use weir_forecast::gap::Trace;
use weir_forecast::task::Task;

/// Horizons in the detail.
const DETAIL: usize = 90;
/// Maximum number of points of a line.
const POINTS_MAX: usize = 1000;

/// Draws the report as SVG.
pub(super) fn page(trace: &Trace, report: &Report, task: Task) -> anyhow::Result<String> {
    let charts = [detail(trace, report, task), whole(report), choice(report)];
    Ok(draw(&charts)?)
}

/// Moments around the highest peak.
fn detail(trace: &Trace, report: &Report, task: Task) -> Chart {
    let moments = &report.moments;
    let highest = moments.iter().enumerate();
    let highest = highest.max_by(|(_, a), (_, b)| a.peak.total_cmp(&b.peak));
    let middle = highest.map_or(0, |(index, _)| index);
    let from = middle.saturating_sub(DETAIL / 2);
    let shown: Vec<&Moment> = moments.iter().skip(from).take(DETAIL).collect();
    let (first, last) = (shown.first(), shown.last());
    let start = first.map_or(0, |moment| moment.at + 1);
    let end = last.map_or(1, |moment| moment.at + 1 + task.horizon());
    let minutes = |second: usize| (second as f64 - start as f64) / 60.0;
    let rates = trace.rates().iter().copied().enumerate();
    let rates = rates.skip(start).take(end - start);
    let line = |of: fn(&Moment) -> f64| {
        let values = shown
            .iter()
            .map(|moment| (minutes(moment.at + 1), of(moment)));
        steps(values, minutes(end))
    };
    let layers = vec![
        layer(
            "requests/s",
            rates.map(|(at, rate)| (minutes(at), rate)).collect(),
            Stroke::Solid(GREY),
        ),
        layer("peak", line(|moment| moment.peak), stroke(1)),
        layer("median", line(|moment| moment.forecast.median), stroke(0)),
        layer("quantile", line(|moment| moment.forecast.upper), stroke(4)),
    ];
    let title = format!(
        "The highest peak: {} s ahead, second {start} on",
        task.horizon()
    );
    chart(title, minutes(end), "min", layers)
}

/// All moments, thinned to the highest of each part.
fn whole(report: &Report) -> Chart {
    let part = report.moments.len().div_ceil(POINTS_MAX).max(1);
    let line = |of: fn(&Moment) -> f64| {
        let parts = report.moments.chunks(part);
        let points = parts.map(|part| (hours(part), part.iter().map(of).fold(0.0, f64::max)));
        points.collect()
    };
    let layers = vec![
        layer("quantile", line(|moment| moment.forecast.upper), stroke(4)),
        layer("peak", line(|moment| moment.peak), stroke(1)),
    ];
    chart("All of it".to_owned(), end(report), "h", layers)
}

/// Forecaster that was followed.
fn choice(report: &Report) -> Chart {
    let kinds = report.scores.iter().filter_map(|score| score.kind);
    let layers = kinds.enumerate().map(|(index, kind)| {
        let moments = report.moments.iter().map(|moment| {
            let followed = f64::from(u8::from(moment.chosen == index));
            (hours(std::slice::from_ref(moment)), followed)
        });
        let mut points: Vec<(f64, f64)> = Vec::new();
        // Only the changes of each line.
        for (at, followed) in moments {
            if points.last().is_none_or(|(_, before)| *before != followed) {
                points.push((at, followed));
            }
        }
        layer(
            kind.name(),
            steps(points.into_iter(), end(report)),
            weir_draw::nth(index),
        )
    });
    chart(
        "Followed (1) or not (0)".to_owned(),
        end(report),
        "h",
        layers.collect(),
    )
}

/// Hour of the first of these moments.
fn hours(moments: &[Moment]) -> f64 {
    moments
        .first()
        .map_or(0.0, |moment| moment.at as f64 / 3600.0)
}

fn end(report: &Report) -> f64 {
    report
        .moments
        .last()
        .map_or(1.0, |moment| moment.at as f64 / 3600.0)
}

fn stroke(colour: usize) -> Stroke {
    Stroke::Solid(PALETTE.get(colour).copied().unwrap_or(GREY))
}

fn layer(name: &str, points: Vec<(f64, f64)>, stroke: Stroke) -> Layer {
    Layer {
        name: name.to_owned(),
        points,
        stroke,
    }
}

fn chart(title: String, end: f64, unit: &'static str, layers: Vec<Layer>) -> Chart {
    let points = || layers.iter().flat_map(|layer| &layer.points);
    let first = points().map(|(x, _)| *x).fold(f64::MAX, f64::min);
    let highest = points().map(|(_, y)| *y).fold(0.0, f64::max);
    Chart {
        title,
        axes: Axes {
            x: first.min(end)..end.max(first + 1e-3),
            y: 0.0..top(highest),
            x_unit: unit,
            y_unit: "",
        },
        layers,
    }
}
