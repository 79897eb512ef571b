//! Prices on the resource types: the Lagrangian dual of the resource rows.
//!
//! g(μ) = Σ_i min { cost + μ·usage of a choice of architecture i } − μ·available bounds the optimum from
//! below for every μ ≥ 0, and is concave. It is maximised by column generation (Dantzig–Wolfe, the dual
//! view of Kelley's cutting planes). The master programme mixes the answers so far at the least cost,
//! such that the mixture keeps the rows; its duals are the next prices. The master has one row per
//! resource type and one for the mixture, so its basis is a matrix of at most 9 × 9.

use super::cover::{Choice, Cover};
use super::units::{RESOURCES_MAX, Units};
use crate::TimeLimit;

/// Maximum number of iterations.
const ROUNDS_MAX: usize = 120;
/// Step from the best known prices towards the master's, as a fraction of the distance (stabilisation).
const STEP: f64 = 0.6;
/// Relative gap between the bound and the master's value at which the iteration stops.
const NEAR: f64 = 1e-9;
/// Rows of the master.
const ROWS: usize = RESOURCES_MAX + 1;

/// Prices, with the bound that they prove.
#[derive(Debug, Clone)]
pub(super) struct Prices {
    pub(super) prices: Units,
    /// Lower bound of any plan's cost.
    pub(super) bound: f64,
    /// Cheapest choice of each architecture at these prices.
    pub(super) choices: Vec<Choice>,
}

impl Prices {
    pub(super) fn usage(&self) -> Units {
        self.choices
            .iter()
            .fold(Units::default(), |sum, choice| sum.plus(&choice.usage, 1.0))
    }

    pub(super) fn cost(&self) -> f64 {
        self.choices.iter().map(|choice| choice.cost).sum()
    }
}

/// Returns the answer at `prices`; `None` if an architecture has no choice at all.
pub(super) fn evaluate(
    covers: &[Cover],
    available: &Units,
    prices: Units,
    known: Option<&Prices>,
    time_limit: &TimeLimit<'_>,
) -> Option<Prices> {
    let mut bound = -prices.dot(available);
    let mut choices = Vec::with_capacity(covers.len());
    for (index, cover) in covers.iter().enumerate() {
        if time_limit.is_over() {
            return None;
        }
        let known = known.and_then(|known| known.choices.get(index));
        let (choice, min) = cover.cheapest(&prices, known, time_limit);
        bound += min;
        choices.push(choice?);
    }
    Some(Prices {
        prices,
        bound,
        choices,
    })
}

/// Returns the best prices found, and others met on the way, the latest first.
pub(super) fn raise(
    covers: &[Cover],
    available: &Units,
    first: Prices,
    most: &Units,
    time_limit: &TimeLimit<'_>,
) -> (Prices, Vec<Units>) {
    let mut master = Master::new(available, most);
    master.add(&first);
    let mut best = first;
    let mut seen = Vec::new();
    for _ in 0..ROUNDS_MAX {
        let Some((value, prices)) = master.solve() else {
            break;
        };
        if value - best.bound <= NEAR * value.abs() || time_limit.is_over() {
            break;
        }
        let between = best.prices.plus(&prices.plus(&best.prices, -1.0), STEP);
        let mut added = false;
        for prices in [between, prices] {
            let Some(answer) = evaluate(covers, available, prices, Some(&best), time_limit) else {
                return (best, seen);
            };
            seen.push(prices);
            added = master.add(&answer);
            if answer.bound > best.bound {
                best = answer;
            }
            if added {
                break;
            }
        }
        if !added {
            break;
        }
    }
    seen.reverse();
    (best, seen)
}

type Row = [f64; ROWS];

#[derive(Clone)]
struct Column {
    row: Row,
    cost: f64,
}

struct Master {
    available: Units,
    /// Units of the usage.
    scale: Units,
    columns: Vec<Column>,
    basis: Vec<usize>,
    duals: Row,
}

impl Master {
    /// Creates a master with prices of at most `most`: artificial columns sell missing resources at that
    /// price.
    fn new(available: &Units, most: &Units) -> Master {
        let scale = Units::collect(available.0.iter().map(|amount| amount.max(1e-9)));
        let mut columns = Vec::new();
        for index in 0..RESOURCES_MAX {
            for (side, each) in [(1.0, 0.0), (-1.0, most.at(index) * scale.at(index))] {
                let mut row = [0.0; ROWS];
                if let Some(entry) = row.get_mut(index + 1) {
                    *entry = side;
                }
                columns.push(Column { row, cost: each });
            }
        }
        Master {
            available: *available,
            scale,
            columns,
            basis: Vec::new(),
            duals: [0.0; ROWS],
        }
    }

    /// Adds an answer; returns whether it improves the mixture.
    fn add(&mut self, answer: &Prices) -> bool {
        let over = answer.usage().plus(&self.available, -1.0);
        let mut row = [1.0; ROWS];
        for (entry, (over, scale)) in row.iter_mut().skip(1).zip(over.0.iter().zip(&self.scale.0)) {
            *entry = over / scale;
        }
        let column = Column {
            row,
            cost: answer.cost(),
        };
        let index = self.columns.len();
        let betters = self.reduced(&column) < -1e-11 * column.cost.abs();
        if self.basis.is_empty() {
            let rest = row.iter().skip(1).enumerate();
            let sides = rest.map(|(t, over)| 2 * t + usize::from(*over > 0.0));
            self.basis = std::iter::once(index).chain(sides).collect();
        }
        self.columns.push(column);
        betters
    }

    fn reduced(&self, column: &Column) -> f64 {
        column.cost - dot(&column.row, &self.duals)
    }

    /// Returns the least cost of a mixture, and its prices.
    fn solve(&mut self) -> Option<(f64, Units)> {
        for _ in 0..500 {
            let inverse = inverse(&self.basis_columns())?;
            let costs: Vec<f64> = self.basis_columns().iter().map(|c| c.cost).collect();
            let mut duals = [0.0; ROWS];
            for (line, cost) in inverse.iter().zip(&costs) {
                for (dual, entry) in duals.iter_mut().zip(line) {
                    *dual += cost * entry;
                }
            }
            self.duals = duals;
            let size = costs.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
            let entering = self
                .columns
                .iter()
                .enumerate()
                .map(|(index, column)| (index, self.reduced(column)))
                .min_by(|a, b| a.1.total_cmp(&b.1))?;
            if entering.1 >= -1e-12 * size {
                let [value, rest @ ..] = duals;
                let prices = rest
                    .iter()
                    .zip(&self.scale.0)
                    .map(|(y, s)| (-y / s).max(0.0));
                return Some((value, Units::collect(prices)));
            }
            let row = self.columns.get(entering.0)?.row;
            let leaving = inverse
                .iter()
                .enumerate()
                .filter_map(|(place, line)| {
                    let [amount, ..] = line;
                    let slope = dot(line, &row);
                    (slope > 1e-10).then(|| (place, amount.max(0.0) / slope))
                })
                .min_by(|a, b| a.1.total_cmp(&b.1))?;
            *self.basis.get_mut(leaving.0)? = entering.0;
        }
        None
    }

    fn basis_columns(&self) -> Vec<Column> {
        let columns = self
            .basis
            .iter()
            .filter_map(|index| self.columns.get(*index));
        columns.cloned().collect()
    }
}

fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Inverts by Gauss–Jordan elimination, with the greatest pivot of each column.
fn inverse(columns: &[Column]) -> Option<Vec<Row>> {
    let mut lines: Vec<(Row, Row)> = (0..ROWS)
        .map(|line| {
            let mut left = [0.0; ROWS];
            let mut right = [0.0; ROWS];
            for (entry, column) in left.iter_mut().zip(columns) {
                *entry = column.row.get(line).copied().unwrap_or_default();
            }
            if let Some(entry) = right.get_mut(line) {
                *entry = 1.0;
            }
            (left, right)
        })
        .collect();
    for place in 0..ROWS {
        let entry = |line: &(Row, Row)| line.0.get(place).copied().unwrap_or_default();
        let (pivot, max) = lines
            .iter()
            .enumerate()
            .skip(place)
            .map(|(index, line)| (index, entry(line).abs()))
            .max_by(|a, b| a.1.total_cmp(&b.1))?;
        if max < 1e-13 {
            return None;
        }
        lines.swap(place, pivot);
        let mut own = *lines.get(place)?;
        let by = 1.0 / entry(&own);
        own.0.iter_mut().chain(&mut own.1).for_each(|e| *e *= by);
        for (index, line) in lines.iter_mut().enumerate() {
            let times = if index == place { 0.0 } else { entry(line) };
            for (e, o) in line.0.iter_mut().zip(&own.0) {
                *e -= times * o;
            }
            for (e, o) in line.1.iter_mut().zip(&own.1) {
                *e -= times * o;
            }
        }
        *lines.get_mut(place)? = own;
    }
    Some(lines.into_iter().map(|line| line.1).collect())
}
