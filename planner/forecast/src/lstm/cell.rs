//! One step of the LSTM: gates from inputs and previous output, then cell and output.

use super::window::INPUTS;

/// Units of the layer.
pub(super) const UNITS: usize = 25;
/// Gates: input, forget and output gate and the candidate, for each unit.
pub(super) const GATES: usize = 4 * UNITS;
/// Inputs of the gates: those of the window, the previous output, a constant.
pub(super) const COLUMNS: usize = INPUTS + UNITS + 1;

/// State after a step, with all that its gradient needs.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) input: [f32; COLUMNS],
    /// Activated gates, in the order of [`Gates`].
    pub(super) gates: [f32; GATES],
    pub(super) cell: [f32; UNITS],
    pub(super) cell_before: [f32; UNITS],
    pub(super) cell_tanh: [f32; UNITS],
    pub(super) hidden: [f32; UNITS],
}

impl Default for Step {
    fn default() -> Step {
        Step {
            input: [0.0; COLUMNS],
            gates: [0.0; GATES],
            cell: [0.0; UNITS],
            cell_before: [0.0; UNITS],
            cell_tanh: [0.0; UNITS],
            hidden: [0.0; UNITS],
        }
    }
}

/// The four gates of all units.
pub(super) struct Gates<'a> {
    pub(super) input: &'a [f32],
    pub(super) forget: &'a [f32],
    pub(super) output: &'a [f32],
    pub(super) candidate: &'a [f32],
}

impl Gates<'_> {
    pub(super) fn of(gates: &[f32; GATES]) -> Gates<'_> {
        let (input, rest) = gates.split_at(UNITS);
        let (forget, rest) = rest.split_at(UNITS);
        let (output, candidate) = rest.split_at(UNITS);
        Gates {
            input,
            forget,
            output,
            candidate,
        }
    }
}

impl Step {
    /// Step after `before`.
    pub(super) fn next(weights: &[f32], input: &[f32; INPUTS], before: &Step) -> Step {
        let mut step = Step {
            cell_before: before.cell,
            ..Step::default()
        };
        let inputs = input.iter().chain(&before.hidden).chain(&[1.0]);
        for (to, from) in step.input.iter_mut().zip(inputs) {
            *to = *from;
        }
        for (column, input) in weights.chunks_exact(GATES).zip(&step.input) {
            for (gate, weight) in step.gates.iter_mut().zip(column) {
                *gate += weight * input;
            }
        }
        for (index, gate) in step.gates.iter_mut().enumerate() {
            *gate = match index < 3 * UNITS {
                true => sigmoid(*gate),
                false => tanh(*gate),
            };
        }
        let gates = Gates::of(&step.gates);
        let units = gates.input.iter().zip(gates.forget);
        let units = units.zip(gates.output).zip(gates.candidate);
        let cells = step.cell.iter_mut().zip(&step.cell_before);
        let states = cells.zip(&mut step.cell_tanh).zip(&mut step.hidden);
        for ((((input, forget), output), candidate), state) in units.zip(states) {
            let (((cell, cell_before), cell_tanh), hidden) = state;
            *cell = forget * *cell_before + input * candidate;
            *cell_tanh = tanh(*cell);
            *hidden = output * *cell_tanh;
        }
        step
    }
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-x))
}

fn tanh(x: f32) -> f32 {
    2.0 * sigmoid(2.0 * x) - 1.0
}
