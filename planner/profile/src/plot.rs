//! Picture of a profile: measured points with their 95 % intervals, and the fitted curves, by cores, by batch, and of
//! the throughput. Pure.

use std::ops::Range;

use weir_draw::{Axes, Chart, Layer, PALETTE, Points, Stroke, nth, page, top};
use weir_solve::latency_model::{LatencyModel, Line, Parallelism};

use crate::ProfileError;
use crate::fitted::Fitted;
use crate::measurement::Measurement;
use crate::model::{Model, Point};

/// Maximum number of curves of a chart.
const CURVES_MAX: usize = PALETTE.len();
/// Number of points of a curve.
const STEPS: u32 = 100;

/// Point with the half width of its interval, in percent.
type Mark = (f64, f64, Option<f64>);

/// Measurements and models to draw.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    measurements: Vec<Measurement>,
    latency: Option<LatencyModel>,
    parallelism: Parallelism,
    capacity: Option<Line>,
}

impl Plot {
    /// Plots fitted measurements.
    #[must_use]
    pub fn of_fitted(fitted: &Fitted) -> Plot {
        Plot {
            measurements: fitted.measurements.clone(),
            latency: fitted.latency.as_ref().map(|one| one.model),
            parallelism: fitted.parallelism,
            capacity: fitted.capacity.as_ref().map(|fit| fit.line),
        }
    }

    /// Plots points of busy concurrency and their model.
    #[must_use]
    pub fn of_points(points: &[Point], model: &Model) -> Plot {
        let parallelism = model.parallelism;
        let measurement = |point: &Point| Measurement {
            cores: point.cores,
            batch: point.batch,
            mean_ms: Some(parallelism.batch_ms(point.cores, point.batches_per_s)),
            half_width_percent: Some(point.half_width_percent),
            rps: Some(point.batches_per_s * f64::from(point.batch)),
            ..Measurement::default()
        };
        Plot {
            measurements: points.iter().map(measurement).collect(),
            latency: Some(model.latency),
            parallelism,
            capacity: Some(model.capacity.line),
        }
    }

    /// Draws the charts below each other as SVG.
    ///
    /// # Errors
    /// Nothing was measured.
    pub fn svg(&self) -> Result<String, ProfileError> {
        let (cores, batches) = (
            self.distinct(|one| one.cores),
            self.distinct(|one| one.batch.into()),
        );
        let mut charts = Vec::new();
        let has_latency = self.measurements.iter().any(|one| one.mean_ms.is_some());
        if has_latency && (cores.len() > 1 || batches.len() == 1) {
            charts.push(self.by_cores(&batches));
        }
        if has_latency && batches.len() > 1 {
            charts.push(self.by_batch(&cores));
        }
        if self.measurements.iter().any(|one| one.rps.is_some()) {
            charts.push(self.throughput());
        }
        if charts.is_empty() {
            return Err(ProfileError("nothing to plot: no measurement".to_owned()));
        }
        page(&charts).map_err(|error| ProfileError(format!("the plot: {error}")))
    }

    fn distinct(&self, of: fn(&Measurement) -> f64) -> Vec<f64> {
        let mut values: Vec<f64> = self.measurements.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    }

    fn by_cores(&self, batches: &[f64]) -> Chart {
        let curve = |batch: f64| {
            move |cores: f64| {
                let each = self.parallelism.cores_each(cores);
                self.latency
                    .map(|model| model.service_ms(batch as u32, each))
            }
        };
        let series = shown(batches).map(|batch| {
            let name = format!("batch {batch}");
            let of_batch = self
                .measurements
                .iter()
                .filter(move |one| f64::from(one.batch) == batch);
            let points =
                of_batch.filter_map(|one| Some((one.cores, one.mean_ms?, one.half_width_percent)));
            (name, points.collect(), curve(batch))
        });
        chart(
            "Mean latency of a batch by cores",
            ("cores", "ms"),
            series.collect(),
        )
    }

    fn by_batch(&self, cores: &[f64]) -> Chart {
        let curve = |cores: f64| {
            let each = self.parallelism.cores_each(cores);
            move |batch: f64| {
                self.latency.map(|model| {
                    // Between two whole batches the model is linear.
                    let (low, part) = (batch.floor(), batch - batch.floor());
                    let at = |batch: f64| model.service_ms(batch as u32, each);
                    at(low) + part * (at(low + 1.0) - at(low))
                })
            }
        };
        let series = shown(cores).map(|cores| {
            let name = format!("{cores} cores");
            let of_cores = self
                .measurements
                .iter()
                .filter(move |one| one.cores == cores);
            let points = of_cores
                .filter_map(|one| Some((one.batch.into(), one.mean_ms?, one.half_width_percent)));
            (name, points.collect(), curve(cores))
        });
        chart(
            "Mean latency of a batch by its size, in requests",
            ("", "ms"),
            series.collect(),
        )
    }

    fn throughput(&self) -> Chart {
        let measured = self.measurements.iter();
        let points = measured.filter_map(|one| Some((one.cores, one.rps?, one.half_width_percent)));
        let line = |cores: f64| {
            let line = self.capacity?;
            Some((line.slope_rps * cores + line.intercept_rps).max(0.0))
        };
        let series = vec![("capacity".to_owned(), points.collect(), line)];
        chart("Throughput by cores", ("cores", "/s"), series)
    }
}

/// Returns the values that get a curve: the smallest, the largest and some between if there are too many.
fn shown(values: &[f64]) -> impl Iterator<Item = f64> {
    let count = values.len().min(CURVES_MAX);
    let at = move |index: usize| match count {
        0 | 1 => 0,
        count => index * (values.len() - 1) / (count - 1),
    };
    (0..count).filter_map(move |index| values.get(at(index)).copied())
}

/// Chart of points with intervals, each with its curve over their range.
fn chart<C: Fn(f64) -> Option<f64>>(
    title: &str,
    (x_unit, y_unit): (&'static str, &'static str),
    series: Vec<(String, Vec<Mark>, C)>,
) -> Chart {
    let all = || series.iter().flat_map(|(_, points, _)| points);
    let xs = || all().map(|(x, _, _)| *x);
    let (from, to) = (xs().fold(f64::INFINITY, f64::min), xs().fold(0.0, f64::max));
    let mut layers = Vec::new();
    let mut most = 0.0_f64;
    for (index, (name, points, curve)) in series.iter().enumerate() {
        let stroke = nth(index);
        let line = along(from..to).filter_map(|x| Some((x, curve(x)?)));
        let line: Points = line.filter(|(_, y)| y.is_finite()).collect();
        let highest = line
            .iter()
            .map(|(_, y)| *y)
            .chain(points.iter().map(|(_, y, _)| *y));
        most = highest.fold(most, f64::max);
        for (x, y, half_width_percent) in points {
            let Some(percent) = half_width_percent.filter(|percent| *percent > 0.0) else {
                continue;
            };
            let half = y * percent / 100.0;
            most = most.max(y + half);
            layers.push(Layer {
                name: String::new(),
                points: vec![(*x, (y - half).max(0.0)), (*x, y + half)],
                stroke: Stroke::Solid(stroke.colour()),
            });
        }
        layers.push(Layer {
            name: String::new(),
            points: line,
            stroke,
        });
        layers.push(Layer {
            name: name.clone(),
            points: points.iter().map(|(x, y, _)| (*x, *y)).collect(),
            stroke: Stroke::Marks(stroke.colour()),
        });
    }
    Chart {
        title: title.to_owned(),
        axes: Axes {
            x: 0.0..top(to),
            y: 0.0..top(most),
            x_unit,
            y_unit,
        },
        layers,
    }
}

fn along(range: Range<f64>) -> impl Iterator<Item = f64> {
    let step = (range.end - range.start) / f64::from(STEPS);
    (0..=STEPS).map(move |index| range.start + step * f64::from(index))
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn measurement(cores: f64, batch: u32) -> Measurement {
        Measurement {
            cores,
            batch,
            mean_ms: Some(60.0 * f64::from(batch) / cores),
            half_width_percent: Some(4.0),
            rps: Some(16.0 * cores),
            ..Measurement::default()
        }
    }

    fn plot(measurements: Vec<Measurement>) -> Plot {
        Plot {
            measurements,
            latency: Some(LatencyModel {
                gamma_ms: 60.0,
                ..LatencyModel::default()
            }),
            parallelism: Parallelism::Fixed(NonZeroU32::MIN),
            capacity: Some(Line {
                slope_rps: 16.0,
                intercept_rps: 0.0,
            }),
        }
    }

    #[test]
    fn charts_follow_the_measured_combinations() {
        let grid = [(1.0, 1), (1.0, 4), (4.0, 1), (4.0, 4)];
        let grid = grid
            .map(|(cores, batch)| measurement(cores, batch))
            .to_vec();
        let one = vec![measurement(2.0, 1)];
        let batches = [1, 4].map(|batch| measurement(2.0, batch)).to_vec();
        for (measurements, titles) in [
            (grid, &["by cores", "by its size", "Throughput"][..]),
            (one, &["by cores", "Throughput"]),
            (batches, &["by its size", "Throughput"]),
        ] {
            let marks = measurements.len();
            let svg = plot(measurements).svg().unwrap();
            for title in titles {
                assert!(svg.contains(title), "{title}");
            }
            assert_eq!(svg.matches("<circle").count(), marks * titles.len());
        }
        let error = plot(Vec::new()).svg().unwrap_err().to_string();
        assert!(error.starts_with("nothing to plot"), "{error}");
    }

    #[test]
    fn at_most_so_many_curves_are_shown_the_smallest_and_largest_among_them() {
        let many: Vec<f64> = (1..=20).map(f64::from).collect();
        let curves: Vec<f64> = shown(&many).collect();
        assert_eq!(
            (curves.len(), curves[0], curves[CURVES_MAX - 1]),
            (CURVES_MAX, 1.0, 20.0)
        );
        assert_eq!(shown(&[3.0]).collect::<Vec<_>>(), [3.0]);
        assert_eq!(shown(&[]).count(), 0);
    }
}
