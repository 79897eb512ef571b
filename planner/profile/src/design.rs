//! Order in which combinations of cores and batch are measured: few first, and more where the fit is poor. Pure.
//!
//! First the corners and the middle. Then always the combination at which the models that predict left-out points about
//! as well as the best disagree most; it says most about which of them is right. It ends when left-out points are
//! predicted well enough, or all combinations are measured.

use weir_solve::latency_model::fit::Candidate;
use weir_solve::latency_model::{Latency, Parallelism};

use crate::fitted::LatencyFit;

/// Minimum number of points before it may end: twice as many as Sponge's model has coefficients.
pub const POINTS_MIN: usize = 8;
/// Models take part up to this multiple of the best one's error.
const RIVALS: f64 = 3.0;

/// Combination of cores and batch.
pub type Combination = (f64, u32);

/// Next step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Measure this combination.
    Measure(f64, u32),
    /// Left-out points are predicted within so many percent on average.
    Enough(f64),
    /// Every combination is measured.
    All,
}

/// Chooses the next combination. `fit` is of the points so far, once there are any; `error_max_percent` ends it early.
#[must_use]
pub fn next(
    (cores, batches): (&[f64], &[u32]),
    measured: &[Combination],
    fit: Option<(&LatencyFit, Parallelism)>,
    error_max_percent: Option<f64>,
) -> Next {
    let is_new = |one: &Combination| !measured.contains(one);
    let measure = |(cores, batch): Combination| Next::Measure(cores, batch);
    if let Some(first) = first(cores, batches).into_iter().find(is_new) {
        return measure(first);
    }
    let Some((fit, parallelism)) = fit else {
        let mut all = combinations(cores, batches);
        return all.find(is_new).map_or(Next::All, measure);
    };
    let error = fit
        .chosen
        .left_out
        .as_ref()
        .map(|errors| errors.mean_percent);
    if let (Some(error), Some(max)) = (error, error_max_percent)
        && error <= max
        && measured.len() >= POINTS_MIN
    {
        return Next::Enough(error);
    }
    let rivals = rivals(fit, error);
    let spread = |(cores, batch): &Combination| {
        let each = parallelism.cores_each(*cores);
        let predicted = || rivals.iter().map(|latency| latency.ms(*batch, each));
        let finite = || predicted().filter(|ms| ms.is_finite());
        let (min, max) = (
            finite().fold(f64::INFINITY, f64::min),
            finite().fold(0.0, f64::max),
        );
        max / min
    };
    let new = combinations(cores, batches).filter(is_new);
    let most = new.max_by(|a, b| {
        let by_spread = spread(a).total_cmp(&spread(b));
        by_spread.then(distance(a, measured).total_cmp(&distance(b, measured)))
    });
    most.map_or(Next::All, measure)
}

fn combinations(cores: &[f64], batches: &[u32]) -> impl Iterator<Item = Combination> {
    cores
        .iter()
        .flat_map(|cores| batches.iter().map(|batch| (*cores, *batch)))
}

/// Corners and middle, in the order of the cores: each change of them takes time.
fn first(cores: &[f64], batches: &[u32]) -> Vec<Combination> {
    let (Some(fewest), Some(most)) = (cores.first(), cores.last()) else {
        return Vec::new();
    };
    let (Some(smallest), Some(largest)) = (batches.first(), batches.last()) else {
        return Vec::new();
    };
    let middle = cores
        .get(cores.len() / 2)
        .zip(batches.get(batches.len() / 2));
    let mut all = vec![(*fewest, *smallest), (*fewest, *largest)];
    all.extend(middle.map(|(cores, batch)| (*cores, *batch)));
    all.extend([(*most, *smallest), (*most, *largest)]);
    all
}

/// Models that take part: those that predict left-out points about as well as the best.
fn rivals(fit: &LatencyFit, error: Option<f64>) -> Vec<&Latency> {
    let fitted = fit
        .candidates
        .iter()
        .filter_map(|(_, one)| one.as_ref().ok());
    let near = |one: &&Candidate| match (one.left_out.as_ref(), error) {
        (Some(errors), Some(error)) => errors.mean_percent <= RIVALS * error,
        (None, _) => one.form == fit.chosen.form,
        (Some(_), None) => true,
    };
    fitted.filter(near).map(|one| &one.latency).collect()
}

/// Smallest distance to a measured combination, by ratios of cores and batch.
fn distance(one: &Combination, measured: &[Combination]) -> f64 {
    let ratio = |a: f64, b: f64| a.max(b) / a.min(b);
    let to = |other: &Combination| ratio(one.0, other.0) * ratio(one.1.into(), other.1.into());
    measured.iter().map(to).fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use weir_solve::latency_model::{Cell, LatencyModel};

    use super::*;
    use crate::fitted::{
        self,
        tests::{MODEL, emulated, mean_ms},
    };

    const CORES: [f64; 4] = [1.0, 2.0, 4.0, 8.0];
    const BATCHES: [u32; 5] = [1, 2, 4, 8, 16];

    /// Samples a server until the design ends; returns the cells and the fit.
    fn sample(
        model: &LatencyModel,
        seed: u64,
        error_max_percent: Option<f64>,
    ) -> (Vec<Cell>, LatencyFit) {
        let mut chance = ChaCha8Rng::seed_from_u64(seed);
        let (mut measured, mut cells): (Vec<Combination>, Vec<Cell>) = Default::default();
        loop {
            let fit = (!cells.is_empty()).then(|| fitted::latency(&cells).unwrap());
            let known = fit
                .as_ref()
                .map(|fit| (fit, Parallelism::Fixed(NonZeroU32::MIN)));
            match next((&CORES, &BATCHES), &measured, known, error_max_percent) {
                Next::Measure(cores, batch) => {
                    assert!(!measured.contains(&(cores, batch)), "{cores} {batch} twice");
                    measured.push((cores, batch));
                    cells.push(Cell {
                        batch,
                        cores,
                        latency_ms: mean_ms(model, cores, batch, &mut chance),
                    });
                }
                Next::Enough(_) | Next::All => return (cells, fit.unwrap()),
            }
        }
    }

    #[test]
    fn emulated_servers_are_known_within_5_percent_with_at_most_12_points() {
        for model in emulated() {
            for seed in 0..40 {
                let (cells, fit) = sample(&model, seed, Some(3.0));
                assert!(
                    (POINTS_MIN..=12).contains(&cells.len()),
                    "seed {seed}: {}",
                    cells.len()
                );
                for (cores, batch) in
                    combinations(&CORES, &BATCHES).chain([(3.0, 3), (6.0, 12), (1.5, 6)])
                {
                    let off =
                        fit.model.service_ms(batch, cores) / model.service_ms(batch, cores) - 1.0;
                    assert!(
                        off.abs() < 0.05,
                        "seed {seed}, {model:?}, {batch} on {cores}: {off}\n{fit:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn all_combinations_are_measured_where_no_error_ends_it() {
        let (cells, _) = sample(&MODEL, 1, None);
        assert_eq!(cells.len(), CORES.len() * BATCHES.len());
        let first: Vec<_> = cells
            .iter()
            .take(5)
            .map(|cell| (cell.cores, cell.batch))
            .collect();
        assert_eq!(first, [(1.0, 1), (1.0, 16), (4.0, 4), (8.0, 1), (8.0, 16)]);
    }

    #[test]
    fn single_combinations_and_lines_end() {
        for (cores, batches, count) in [
            (&[2.0][..], &[1][..], 1),
            (&[1.0, 2.0], &[1], 2),
            (&[1.0], &[1, 2, 4], 3),
        ] {
            let mut measured = Vec::new();
            while let Next::Measure(cores, batch) = next((cores, batches), &measured, None, None) {
                measured.push((cores, batch));
            }
            assert_eq!(measured.len(), count, "{measured:?}");
        }
        assert_eq!(next((&[], &[]), &[], None, None), Next::All);
    }
}
