//! Gradient of a window's output by the weights: backpropagation through time.

use super::cell::{COLUMNS, GATES, Gates, Step, UNITS};
use super::window::INPUTS;

/// Adds the gradient by the weights to `gradient`, where the output's is `slope`.
pub(super) fn add(weights: &[f32], steps: &[Step], slope: f32, gradient: &mut [f32]) {
    let columns = COLUMNS * GATES;
    let (columns_of, output_of) = weights.split_at(columns.min(weights.len()));
    let (columns_to, output_to) = gradient.split_at_mut(columns.min(gradient.len()));
    let Some(last) = steps.last() else {
        return;
    };
    let hidden = last.hidden.iter().chain(&[1.0]);
    for (to, hidden) in output_to.iter_mut().zip(hidden) {
        *to += slope * hidden;
    }
    let mut by_hidden = [0.0; UNITS];
    for (by, weight) in by_hidden.iter_mut().zip(output_of) {
        *by = slope * weight;
    }
    let mut by_cell = [0.0; UNITS];
    for step in steps.iter().rev() {
        let by_gates = through_gates(step, &by_hidden, &mut by_cell);
        by_hidden = through_inputs(columns_of, step, &by_gates, columns_to);
    }
}

/// Slopes by the gates before their activation; `by_cell` becomes that of the cell before the step.
fn through_gates(
    step: &Step,
    by_hidden: &[f32; UNITS],
    by_cell: &mut [f32; UNITS],
) -> [f32; GATES] {
    let mut by_gates = [0.0; GATES];
    let (by_input, rest) = by_gates.split_at_mut(UNITS);
    let (by_forget, rest) = rest.split_at_mut(UNITS);
    let (by_output, by_candidate) = rest.split_at_mut(UNITS);
    let gates = Gates::of(&step.gates);
    let of = gates.input.iter().zip(gates.forget);
    let of = of.zip(gates.output).zip(gates.candidate);
    let cells = step.cell_before.iter().zip(&step.cell_tanh).zip(by_hidden);
    let to = by_input.iter_mut().zip(by_forget).zip(by_output);
    let to = to.zip(by_candidate).zip(by_cell);
    for ((gates, cells), to) in of.zip(cells).zip(to) {
        let (((input, forget), output), candidate) = gates;
        let ((cell_before, cell_tanh), by_hidden) = cells;
        let ((((to_input, to_forget), to_output), to_candidate), by_cell) = to;
        let cell = *by_cell + by_hidden * output * (1.0 - cell_tanh * cell_tanh);
        *to_output = by_hidden * cell_tanh * output * (1.0 - output);
        *to_input = cell * candidate * input * (1.0 - input);
        *to_forget = cell * cell_before * forget * (1.0 - forget);
        *to_candidate = cell * input * (1.0 - candidate * candidate);
        *by_cell = cell * forget;
    }
    by_gates
}

/// Adds the gradient by the gates' weights, and returns the slopes by the previous output.
fn through_inputs(
    weights: &[f32],
    step: &Step,
    by_gates: &[f32; GATES],
    gradient: &mut [f32],
) -> [f32; UNITS] {
    for (to, input) in gradient.chunks_exact_mut(GATES).zip(&step.input) {
        for (to, by) in to.iter_mut().zip(by_gates) {
            *to += input * by;
        }
    }
    let mut by_hidden = [0.0; UNITS];
    let columns = weights.chunks_exact(GATES).skip(INPUTS);
    for (by, column) in by_hidden.iter_mut().zip(columns) {
        *by = dot(column, by_gates);
    }
    by_hidden
}

/// Sum of products, in four lanes.
fn dot(a: &[f32], b: &[f32; GATES]) -> f32 {
    let mut lanes = [0.0_f32; 4];
    for (a, b) in a.chunks_exact(4).zip(b.chunks_exact(4)) {
        for (lane, (a, b)) in lanes.iter_mut().zip(a.iter().zip(b)) {
            *lane += a * b;
        }
    }
    lanes.iter().sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{History, WINDOW};
    use crate::lstm::train::initial;
    use crate::lstm::window::Window;
    use crate::lstm::{Network, WEIGHTS};

    #[test]
    fn gradient_equals_differences_of_the_output() {
        let mut weights = initial(7);
        let mut history = History::default();
        for at in 0..WINDOW as u64 {
            history.push(at + 1, 20.0 + 15.0 * libm::sin(at as f64 / 9.0));
        }
        let window = Window::of(&history).unwrap();
        let mut steps = Vec::new();
        Network::steps(&weights, &window, &mut steps);
        let mut gradient = vec![0.0; WEIGHTS];
        add(&weights, &steps, 1.0, &mut gradient);
        let largest = gradient
            .iter()
            .fold(0.0_f32, |most, one| most.max(one.abs()));
        for index in (0..WEIGHTS).step_by(37).chain(WEIGHTS - 5..WEIGHTS) {
            let before = weights[index];
            let mut at = |weight: f32| {
                weights[index] = weight;
                Network::steps(&weights, &window, &mut steps)
            };
            let difference = (at(before + 0.01) - at(before - 0.01)) / 0.02;
            weights[index] = before;
            let error = (difference - gradient[index]).abs();
            assert!(
                error < 0.01 * largest,
                "{index}: {difference}, {}",
                gradient[index]
            );
        }
    }
}
