//! Measured latency l(b, c) with monotone interpolation: it never falls with the batch, never rises with
//! the cores, and is never lower than the measurements imply.
//!
//! - A measurement that contradicts another one (a larger batch or fewer cores, yet faster) is raised to
//!   the slower one: a cumulative maximum. A rise of more than [`NOISE_PERCENT_MAX`] is refused, as more
//!   than noise.
//! - At a measured point the latency is the (possibly raised) measurement.
//! - The points span a grid of their batches and cores. A cell that was not measured is interpolated
//!   linearly between its measured neighbours of the same batch, or of the same cores, if it has them on
//!   both sides. If both are possible, the slower value counts, limited by the next rule's value.
//!   Otherwise the cell takes the fastest measurement of at least that batch on at most those cores. If
//!   there is none, it is infinite.
//! - Between the grid's lines it is bilinear.
//! - Beyond the largest batch or below the fewest cores it is unknown: infinite. Below the smallest batch
//!   it is that batch's, above the most cores it is the latency on the most cores.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{BATCH_MAX, CORES_MAX, MS_MAX};
use crate::InputError;
use crate::input::{positive, rule, within};

/// Maximum number of points of a table.
pub const POINTS_MAX: usize = 4096;
/// Maximum number of cells of a table's grid: the number of different batches times the number of
/// different numbers of cores.
pub const CELLS_MAX: usize = 65_536;
/// Maximum rise of a measurement to make the latency monotone, in percent of it. Sponge's published
/// profile needs 5 % (16 cores for one request are slower than 8).
pub const NOISE_PERCENT_MAX: f64 = 25.0;

/// Measured latencies. Only [`Table::new`] creates one, also from the `points` of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "Points", into = "Points")]
pub struct Table {
    points: Vec<Cell>,
    grid: Grid,
}

/// Table of measured latencies, as in a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename = "Table", deny_unknown_fields)]
struct Points {
    /// Measurements, in any order; each pair of batch and cores at most once.
    points: Vec<Cell>,
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cell {
    /// b: requests executed together, from 1.
    pub batch: u32,
    /// c: above 0.
    pub cores: f64,
    /// l(b, c) in ms, above 0.
    pub latency_ms: f64,
}

impl Table {
    /// Creates a table of `points`.
    ///
    /// # Errors
    /// No points or too many, invalid numbers, a repeated pair of batch and cores, or measurements that
    /// contradict each other by more than noise.
    pub fn new(points: Vec<Cell>) -> Result<Table, InputError> {
        let count = format!("1 to {POINTS_MAX}");
        rule(
            (1..=POINTS_MAX).contains(&points.len()),
            "points",
            points.len(),
            count,
        )?;
        for (index, point) in points.iter().enumerate() {
            let field = |name: &str| format!("points[{index}].{name}");
            within(field("batch"), point.batch, 1, BATCH_MAX, "requests")?;
            positive(field("cores"), point.cores, CORES_MAX, "")?;
            positive(field("latency_ms"), point.latency_ms, MS_MAX, "ms")?;
        }
        let grid = Grid::new(&points)?;
        Ok(Table { points, grid })
    }

    /// The points as given.
    pub fn points(&self) -> &[Cell] {
        &self.points
    }

    /// Largest batch measured: beyond it the latency is unknown.
    pub fn batch_max(&self) -> u32 {
        self.points
            .iter()
            .map(|point| point.batch)
            .max()
            .unwrap_or(0)
    }

    /// Numbers of cores measured, rising. Between two of them the latency of a batch is linear.
    pub fn cores(&self) -> &[f64] {
        &self.grid.cores
    }

    /// Latency in ms; infinite where it is unknown.
    pub fn ms(&self, batch: u32, cores: f64) -> f64 {
        self.grid.ms(f64::from(batch), cores)
    }
}

impl TryFrom<Points> for Table {
    type Error = InputError;

    fn try_from(raw: Points) -> Result<Table, InputError> {
        Table::new(raw.points)
    }
}

impl From<Table> for Points {
    fn from(table: Table) -> Points {
        Points {
            points: table.points,
        }
    }
}

/// Every measured batch combined with every measured number of cores.
#[derive(Debug, Clone, PartialEq)]
struct Grid {
    /// Rising, not empty.
    batches: Vec<f64>,
    /// Rising, not empty.
    cores: Vec<f64>,
    /// Latency by batch, then by cores; infinite where it is unknown.
    ms: Vec<f64>,
}

impl Grid {
    fn new(points: &[Cell]) -> Result<Grid, InputError> {
        let batches = axis(points.iter().map(|point| f64::from(point.batch)));
        let cores = axis(points.iter().map(|point| point.cores));
        let cells = batches.len() * cores.len();
        rule(
            cells <= CELLS_MAX,
            "points",
            format!("{} batches × {} cores", batches.len(), cores.len()),
            format!("at most {CELLS_MAX} together"),
        )?;
        let mut grid = Grid {
            batches,
            cores,
            ms: vec![f64::NAN; cells],
        };
        let measured = grid.place(points)?;
        grid.raise(points, &measured)?;
        grid.fill();
        Ok(grid)
    }

    /// Maps each measured cell to its point; refuses two points of the same cell.
    fn place(&mut self, points: &[Cell]) -> Result<BTreeMap<usize, usize>, InputError> {
        let mut at = BTreeMap::new();
        for (index, point) in points.iter().enumerate() {
            let row = self
                .batches
                .partition_point(|b| *b < f64::from(point.batch));
            let column = self.cores.partition_point(|c| *c < point.cores);
            let cell = row * self.cores.len() + column;
            if let Some(ms) = self.ms.get_mut(cell) {
                *ms = point.latency_ms;
            }
            let before = at.insert(cell, index);
            let right = format!(
                "measured once: points[{}] is the same",
                before.unwrap_or_default()
            );
            let value = format!("batch {} on {} cores", point.batch, point.cores);
            rule(before.is_none(), format!("points[{index}]"), value, right)?;
        }
        Ok(at)
    }

    /// Raises each measurement to the greatest one of at most its batch on at least its cores.
    fn raise(
        &mut self,
        points: &[Cell],
        measured: &BTreeMap<usize, usize>,
    ) -> Result<(), InputError> {
        let slowest = slowest_within(&self.ms, self.cores.len());
        for (cell, index) in measured {
            let (Some(ms), Some(slowest)) = (self.ms.get_mut(*cell), slowest.get(*cell)) else {
                continue;
            };
            if *slowest > *ms * (1.0 + NOISE_PERCENT_MAX / 100.0) {
                return Err(no_noise(points, *index, *slowest));
            }
            *ms = *slowest;
        }
        Ok(())
    }

    /// Fills the cells that were not measured (NaN until then).
    fn fill(&mut self) {
        let (height, width) = (self.batches.len(), self.cores.len());
        let mut between = vec![f64::NAN; self.ms.len()];
        for row in 0..height {
            let line = (0..width).map(|column| row * width + column);
            interpolate(&self.cores, line.collect(), &self.ms, &mut between);
        }
        for column in 0..width {
            let line = (0..height).map(|row| row * width + column);
            interpolate(&self.batches, line.collect(), &self.ms, &mut between);
        }
        let ceiling = fastest_beyond(&self.ms, width);
        for ((ms, between), ceiling) in self.ms.iter_mut().zip(between).zip(ceiling) {
            if ms.is_nan() && !between.is_nan() {
                *ms = between.min(ceiling);
            }
        }
        // Interpolated cells may contradict each other, but never a measurement: a measured cell is its
        // own limit.
        let slowest = slowest_within(&self.ms, width);
        for (ms, slowest) in self.ms.iter_mut().zip(slowest) {
            if !ms.is_nan() {
                *ms = slowest;
            }
        }
        let ceiling = fastest_beyond(&self.ms, width).into_iter();
        self.ms = ceiling
            .map(|ms| if ms.is_nan() { f64::INFINITY } else { ms })
            .collect();
    }

    fn ms(&self, batch: f64, cores: f64) -> f64 {
        let (Some(min), Some(fewest)) = (self.batches.first(), self.cores.first()) else {
            return f64::INFINITY;
        };
        let most = self.cores.last().copied().unwrap_or(*fewest);
        let max = self.batches.last().copied().unwrap_or(*min);
        if batch > max || cores < *fewest || cores.is_nan() {
            return f64::INFINITY;
        }
        let (row, down) = position(&self.batches, batch.max(*min));
        let (column, across) = position(&self.cores, cores.min(most));
        let line = |row: usize| {
            mix(self.cell(row, column), across, || {
                self.cell(row, column + 1)
            })
        };
        mix(line(row), down, || line(row + 1))
    }

    fn cell(&self, row: usize, column: usize) -> f64 {
        let cell = row * self.cores.len() + column;
        self.ms.get(cell).copied().unwrap_or(f64::INFINITY)
    }
}

fn no_noise(points: &[Cell], index: usize, slowest_ms: f64) -> InputError {
    let batch_cores = |cell: &Cell| format!("batch {} on {} cores", cell.batch, cell.cores);
    let point = points.get(index).map(batch_cores).unwrap_or_default();
    let slower = points.iter().position(|p| p.latency_ms == slowest_ms);
    let slower = slower.unwrap_or_default();
    let other = points.get(slower).map(batch_cores).unwrap_or_default();
    InputError {
        field: format!("points[{index}].latency_ms"),
        value: points.get(index).map_or(0.0, |p| p.latency_ms).to_string(),
        right: format!(
            "{slowest_ms} ms, less {NOISE_PERCENT_MAX} % of noise, or more: {point} cannot be quicker than {other} (points[{slower}])"
        ),
    }
}

fn axis(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    values
}

/// Per cell, the minimum over at least its batch on at most its cores; NaN if there is none.
fn fastest_beyond(cells: &[f64], width: usize) -> Vec<f64> {
    let mut rows: Vec<Vec<f64>> = Vec::new();
    let mut below = vec![f64::NAN; width];
    for row in cells.chunks(width).rev() {
        let mut left = f64::NAN;
        for (below, ms) in below.iter_mut().zip(row) {
            left = below.min(*ms).min(left);
            *below = left;
        }
        rows.push(below.clone());
    }
    rows.into_iter().rev().flatten().collect()
}

/// Per cell, the maximum over at most its batch on at least its cores; NaN if there is none.
fn slowest_within(cells: &[f64], width: usize) -> Vec<f64> {
    let mut slowest = Vec::with_capacity(cells.len());
    let mut above = vec![f64::NAN; width];
    for row in cells.chunks(width) {
        let mut right = f64::NAN;
        for (above, ms) in above.iter_mut().zip(row).rev() {
            right = above.max(*ms).max(right);
            *above = right;
        }
        slowest.extend_from_slice(&above);
    }
    slowest
}

/// For each unmeasured (NaN) cell of a line with measured cells on both sides, raises `into` to the
/// interpolated value.
fn interpolate(axis: &[f64], cells: Vec<usize>, known: &[f64], into: &mut [f64]) {
    let line: Vec<(usize, f64, f64)> = cells
        .into_iter()
        .zip(axis)
        .filter_map(|(cell, at)| Some((cell, *at, *known.get(cell)?)))
        .collect();
    let measured = line
        .iter()
        .enumerate()
        .filter(|(_, (_, _, ms))| !ms.is_nan());
    let ends: Vec<(usize, f64, f64)> = measured.map(|(i, (_, at, ms))| (i, *at, *ms)).collect();
    for pair in ends.windows(2) {
        let [(from, start, first), (to, end, last)] = pair else {
            continue;
        };
        for (cell, at, _) in line.iter().take(*to).skip(from + 1) {
            let ms = mix(*first, (at - start) / (end - start), || *last);
            if let Some(value) = into.get_mut(*cell) {
                *value = value.max(ms);
            }
        }
    }
}

/// Returns the index of the last value of the axis at or below `value`, and the fraction of the way to the
/// next, 0 to 1.
fn position(axis: &[f64], value: f64) -> (usize, f64) {
    let index = axis.partition_point(|at| *at <= value).saturating_sub(1);
    match (axis.get(index), axis.get(index + 1)) {
        (Some(from), Some(to)) => (index, (value - from) / (to - from)),
        _ => (index, 0.0),
    }
}

/// Interpolates between `from` and `to`; exactly `from` for the fraction 0, even if `to` is infinite.
fn mix(from: f64, part: f64, to: impl Fn() -> f64) -> f64 {
    if part > 0.0 {
        let to = to();
        // This form gives exactly the common value if both ends are equal.
        if from.is_infinite() || to.is_infinite() {
            f64::INFINITY
        } else {
            from + part * (to - from)
        }
    } else {
        from
    }
}
