//! Lanes and batches of a server, from its throughput by requests in flight. Pure.
//!
//! The throughputs are those of a [server curve](weir_solve::latency_model::ServerCurve) whose batch of b requests takes
//! delta·b + eta ms.
//!
//! Without batches, a lane waits between an answer and the next request unless another request waits for it: with no more
//! requests in flight than lanes each takes a gap longer, which is the network's and the client's.
//!
//! Each combination of lanes, batch and window is fitted by least squares of relative errors, without negative
//! coefficients. Without batches the model is one of lanes alone. Batches count only if lanes explain the points badly
//! and batches explain them well: a server that shares its cores among requests is faster with several of them, too.

use weir_solve::latency_model::Batching;
use weir_solve::latency_model::fit::relative;

use crate::sweep::{Rate, grows as grows_at_the_end, highest};

/// Maximum lanes of a server that forms batches.
const LANES_MAX: u32 = 16;
/// Batches up to this one are tried all, beyond it the powers of two.
const EACH_BATCH_MAX: u32 = 16;
/// Error within which lanes alone explain the points.
const LANES_WITHIN: f64 = 0.04;
/// Error of lanes without gaps up to which no gaps are looked for: lanes that are no power of two may look like gaps.
const GAPS_FROM: f64 = 0.01;
/// Maximum ratio of a gap to the time of an execution. A longer one may be a second lane that shares its cores.
const GAP_MAX: f64 = 1.0 / 3.0;
/// Error within which batches must explain them.
const BATCHES_WITHIN: f64 = 0.08;
/// The same of batches with a window, whose throughput is more like that of shared cores.
const WINDOWS_WITHIN: f64 = 0.05;
/// Minimum batch, and number of points, that tell a batch window from shared cores.
const WINDOW_MIN: (u32, usize) = (4, 5);
/// Minimum number of points that show batches.
const POINTS_MIN: usize = 4;
/// Minimum ratio of the error of lanes to that of batches.
const BETTER: f64 = 2.0;
/// Minimum growth of throughput by batches.
const GROWTH_MIN: f64 = 1.15;
/// Minimum ratio of the gains of two doublings by which batches are known.
const ACCELERATION_MIN: f64 = 1.15;
/// Maximum part of a full batch's time that grows with its requests, of a server with a batch window. Above it the
/// throughput hardly has a knee, as that of a server that shares its cores.
const GROWING_PART_MAX: f64 = 0.75;
/// Error that a batch which is no power of two must save: nearly all servers have a power of two.
const ODD_BATCH: f64 = 0.02;

/// Lanes and batches of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Execution {
    /// Batches executed at once.
    pub lanes: u32,
    /// Maximum number of requests in a batch; 1 if each is executed alone.
    pub batch: u32,
    /// Time of each request of a batch, in ms.
    pub delta_ms: f64,
    /// Time of a batch besides, in ms.
    pub eta_ms: f64,
    /// Wait of a batch that is not full, in ms; `None` if the server does not wait for its batches to fill.
    pub window_ms: Option<f64>,
    /// Root of the mean squared relative error of the throughputs.
    pub error: f64,
}

impl Execution {
    /// Fits lanes and batches to throughputs of single requests; `batch` is the maximum batch, if it is known. `None`
    /// without points.
    #[must_use]
    pub fn of(measured: &[Rate], batch: Option<u32>) -> Option<Execution> {
        let points = highest(measured);
        let last = points.last()?.concurrency;
        let alone = best((1..=last).filter_map(|lanes| fit(&points, lanes, 1, false)))?;
        let alone = without_gaps(alone, &points, last);
        let forms = |batch: u32| {
            let lanes = 1..=LANES_MAX.min(last);
            lanes.flat_map(move |lanes| [false, true].map(|window| (lanes, batch, window)))
        };
        let fitted = |(lanes, batch, window)| fit(&points, lanes, batch, window);
        if let Some(batch) = batch.filter(|batch| *batch > 1) {
            return best(forms(batch).filter_map(fitted)).or(Some(alone));
        }
        if alone.error <= LANES_WITHIN || batch == Some(1) {
            return Some(alone);
        }
        let each = 2..=EACH_BATCH_MAX.min(last);
        let powers = std::iter::successors(Some(EACH_BATCH_MAX * 2), |of| of.checked_mul(2));
        let batches = each.chain(powers.take_while(|of| *of <= last));
        let forms = batches.flat_map(forms);
        let batches = best(
            forms
                .filter_map(fitted)
                .filter(|one| one.has_batches(&points)),
        );
        let batches = batches.filter(|one| one.error * BETTER <= alone.error);
        Some(batches.unwrap_or(alone))
    }

    /// Whether these lanes and batches say more than the number in flight that keeps the server busy, which chance, or the
    /// gap between two requests, makes one more.
    #[must_use]
    pub fn is_sure(&self) -> bool {
        self.batch > 1 || self.error <= LANES_WITHIN
    }

    /// Mean number of requests in a batch with that many in flight.
    #[must_use]
    pub fn together(&self, in_flight: u32) -> f64 {
        self.batching().together(in_flight)
    }

    /// Time of one batch in ms by the throughput with that many in flight (Little's law), without the batch window.
    #[must_use]
    pub fn batch_ms(&self, in_flight: u32, per_s: f64) -> f64 {
        let batching = self.batching();
        let waits = batching.waits_to_fill(in_flight);
        let window_ms = batching.window_ms.filter(|_| waits);
        batching.executing(in_flight) * 1e3 / per_s - window_ms.unwrap_or_default()
    }

    fn batching(&self) -> Batching {
        Batching {
            lanes: self.lanes,
            batch: self.batch,
            window_ms: self.window_ms,
        }
    }

    /// Whether these are batches, and not requests that share the server's cores.
    fn has_batches(&self, points: &[Rate]) -> bool {
        let (each_ms, batch) = (self.delta_ms, f64::from(self.batch));
        let growth = |rates: &mut dyn Iterator<Item = f64>| rates.fold(0.0, f64::max);
        let lanes_alone = points.iter().filter(|one| one.concurrency <= self.lanes);
        let before = growth(&mut lanes_alone.map(|one| one.per_s));
        let grows = growth(&mut points.iter().map(|one| one.per_s)) >= GROWTH_MIN * before;
        let has_knee = each_ms * batch <= GROWING_PART_MAX * (each_ms * batch + self.eta_ms);
        let is_shown = match self.window_ms {
            None => {
                let enough = points.len() >= POINTS_MIN;
                enough && accelerates(points) && self.error <= BATCHES_WITHIN
            }
            Some(_) => {
                let (batch_min, points_min) = WINDOW_MIN;
                let enough = self.batch >= batch_min && points.len() >= points_min;
                enough && has_knee && !grows_at_the_end(points) && self.error <= WINDOWS_WITHIN
            }
        };
        is_shown && grows
    }

    fn score(&self) -> f64 {
        let odd = if self.batch.is_power_of_two() {
            0.0
        } else {
            ODD_BATCH
        };
        self.error + odd
    }
}

/// Lanes with gaps, if they explain the points much better than `alone`, lanes without.
fn without_gaps(alone: Execution, points: &[Rate], last: u32) -> Execution {
    let is_short = |one: &Execution| one.window_ms.unwrap_or_default() <= GAP_MAX * one.eta_ms;
    // With more lanes no point would show the time without a gap.
    let fitted = (1..last).filter_map(|lanes| fit(points, lanes, 1, true));
    let found = best(fitted.filter(is_short)).filter(|one| {
        alone.error > GAPS_FROM && one.is_sure() && one.error * BETTER <= alone.error
    });
    found.map_or(alone, |one| Execution {
        window_ms: None,
        ..one
    })
}

/// Whether a doubling of the requests in flight gains more than an earlier one: the first has waited for the batch of the
/// others. Lanes and shared cores gain less with each.
fn accelerates(points: &[Rate]) -> bool {
    let gain = |one: &Rate| {
        let twice = points
            .iter()
            .find(|other| other.concurrency == 2 * one.concurrency)?;
        Some(twice.per_s / one.per_s)
    };
    let mut smallest = f64::INFINITY;
    points.iter().filter_map(gain).any(|gain| {
        smallest = smallest.min(gain);
        gain >= ACCELERATION_MIN * smallest
    })
}

/// The first of the best.
fn best(all: impl Iterator<Item = Execution>) -> Option<Execution> {
    all.min_by(|a, b| a.score().total_cmp(&b.score()))
}

/// Fits the times of one form, in which `window` is the gap if the batch is 1; `None` if the points do not determine them.
fn fit(points: &[Rate], lanes: u32, batch: u32, window: bool) -> Option<Execution> {
    let form = Execution {
        lanes,
        batch,
        delta_ms: 0.0,
        eta_ms: 0.0,
        window_ms: window.then_some(0.0),
        error: f64::INFINITY,
    };
    // The factors of delta, eta and the window, as parts of the time of a batch.
    let row = |point: &Rate| {
        let batching = form.batching();
        let together = batching.together(point.concurrency);
        let waits = window
            && match batch {
                1 => point.concurrency <= lanes,
                _ => batching.waits_to_fill(point.concurrency),
            };
        let ms = batching.executing(point.concurrency) * 1e3 / point.per_s;
        let factors = [together, 1.0, f64::from(u8::from(waits))];
        factors.map(|factor| factor / ms).to_vec()
    };
    let rows: Vec<_> = points.iter().map(row).collect();
    let columns: &[&[usize]] = match (batch, window) {
        // A batch of one has one time, and one with the gap.
        (1, false) => &[&[1]],
        (1, true) => &[&[1, 2]],
        (_, false) => &[&[0], &[1], &[0, 1]],
        (_, true) => &[&[0, 1, 2], &[1, 2], &[0, 1], &[1]],
    };
    let solved = columns.iter().filter_map(|columns| {
        let solved = relative(&rows, columns)?;
        let predicted = |factors: &Vec<f64>| -> f64 {
            let terms = factors.iter().zip(&solved);
            terms.map(|(factor, value)| factor * value).sum()
        };
        let errors = rows.iter().map(|row| predicted(row) - 1.0);
        let squares = errors.map(|error| error * error);
        let &[delta_ms, eta_ms, window_ms] = solved.as_slice() else {
            return None;
        };
        Some(Execution {
            delta_ms,
            eta_ms,
            window_ms: window.then_some(window_ms),
            error: (squares.sum::<f64>() / rows.len() as f64).sqrt(),
            ..form
        })
    });
    best(solved)
}

#[cfg(test)]
mod tests;
