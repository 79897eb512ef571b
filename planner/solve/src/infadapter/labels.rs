//! Labels of the search: dominance between them, and the path from one of the last layer back to its
//! cores.

use super::item::Item;

/// Resources left by the decided variants, and their value.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label {
    pub(super) cores: u32,
    pub(super) load: f64,
    pub(super) value: f64,
    /// Upper bound of its objective.
    pub(super) bound: f64,
    /// Its parent label in the layer before, and the cores that its last variant got.
    pub(super) from: u32,
    pub(super) got: u32,
}

/// Label and its index in its layer.
pub(super) type Place = (usize, Label);

/// Returns the cores that lead to a label of the last layer, in the order of the problem's variants.
pub(super) fn cores(items: &[Item], layers: &[Vec<Label>], label: usize) -> Vec<u32> {
    let most = items.iter().map(|item| item.index + 1).max().unwrap_or(0);
    let mut cores = vec![0; most];
    let mut at = label;
    for (item, layer) in items.iter().zip(layers.iter().skip(1)).rev() {
        let Some(label) = layer.get(at) else { break };
        if let Some(slot) = cores.get_mut(item.index) {
            *slot = label.got;
        }
        at = usize::try_from(label.from).unwrap_or(0);
    }
    cores
}

/// Removes dominated labels and sorts by rising cores; `to_come` is the value of load to the next
/// variant.
pub(super) fn undominated(mut labels: Vec<Label>, to_come: f64, budget: u32) -> Vec<Label> {
    let potential = |label: &Label| label.value + to_come * label.load;
    labels.sort_by(|a, b| {
        let cores = b.cores.cmp(&a.cores);
        let load = a.load.total_cmp(&b.load);
        potential(b).total_cmp(&potential(a)).then(cores).then(load)
    });
    let mut min = LeastLoad::new(budget);
    labels.retain(|label| {
        let used = budget - label.cores;
        let kept = label.load < min.up_to(used);
        if kept {
            min.add(used, label.load);
        }
        kept
    });
    labels.sort_by_key(|label| label.cores);
    labels
}

/// Minimum load among labels that used at most a number of cores: a Fenwick tree of minima.
struct LeastLoad(Vec<f64>);

impl LeastLoad {
    fn new(budget: u32) -> LeastLoad {
        let places = usize::try_from(budget).unwrap_or(0) + 2;
        LeastLoad(vec![f64::INFINITY; places])
    }

    fn add(&mut self, used: u32, load: f64) {
        let mut at = usize::try_from(used).unwrap_or(0) + 1;
        while let Some(min) = self.0.get_mut(at) {
            *min = min.min(load);
            at += at & at.wrapping_neg();
        }
    }

    fn up_to(&self, used: u32) -> f64 {
        let mut at = usize::try_from(used).unwrap_or(0) + 1;
        let mut min = f64::INFINITY;
        while at > 0 {
            min = min.min(self.0.get(at).copied().unwrap_or(f64::INFINITY));
            at -= at & at.wrapping_neg();
        }
        min
    }
}
