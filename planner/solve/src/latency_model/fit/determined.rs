//! Fit of those coefficients of Sponge's latency model that the measured points determine.

use super::choice::columns;
use super::{Fit, Regression, rows};
use crate::InputError;
use crate::latency_model::{Cell, LatencyModel};

/// Fits the coefficients of Sponge's latency model that the points determine, by least squares of the relative errors
/// and without negative ones; the others are 0. With one number of cores these are δ and η, with one batch γ and η,
/// with one of both η. `rmse` is the root mean squared relative error.
///
/// # Errors
/// Fewer points than coefficients, invalid numbers, or points too similar to determine the coefficients.
pub fn determined(points: &[Cell]) -> Result<Fit<LatencyModel>, InputError> {
    const NAMES: &str = "points with different batches on each of the numbers of cores";
    let all = rows(points)?;
    let columns = columns(points);
    let relative = points.iter().zip(&all).map(|(point, row)| {
        let of = |column: &usize| row.get(*column).copied().unwrap_or_default();
        columns.iter().map(|c| of(c) / point.latency_ms).collect()
    });
    let regression = Regression {
        rows: relative.collect(),
        targets: vec![1.0; points.len()],
        coefficients: columns.len(),
        negative: false,
    };
    let found = regression.checked(NAMES)?.fit()?;
    let mut model = vec![0.0; 4];
    for (column, value) in columns.iter().zip(&found.model) {
        if let Some(coefficient) = model.get_mut(*column) {
            *coefficient = *value;
        }
    }
    let absolute = Regression {
        rows: all,
        targets: points.iter().map(|point| point.latency_ms).collect(),
        coefficients: 4,
        negative: false,
    };
    let fit = absolute.quality(model);
    Ok(Fit {
        rmse: found.rmse,
        ..fit.model()
    })
}
