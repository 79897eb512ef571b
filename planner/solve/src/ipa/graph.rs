//! Order of the stages: an acyclic graph with one entry.

use super::input::PATHS_MAX;
use crate::InputError;
use crate::input::rule;

/// A checked graph of stages, by their index in the input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Graph {
    /// Topological order; the input's own order if it is one.
    pub(super) order: Vec<usize>,
    /// Predecessors of each stage.
    pub(super) before: Vec<Vec<usize>>,
    /// All paths from the entry to an end.
    pub(super) paths: Vec<Vec<usize>>,
}

impl Graph {
    /// Creates the graph. `after[i]` names the predecessors of stage i; `None` means the stage
    /// written before it.
    pub(super) fn new(names: &[&str], after: &[Option<Vec<String>>]) -> Result<Graph, InputError> {
        let mut before = Vec::with_capacity(names.len());
        for (index, after) in after.iter().enumerate() {
            before.push(match after {
                None => index.checked_sub(1).into_iter().collect(),
                Some(after) => known(names, index, after)?,
            });
        }
        one_entry(&before)?;
        let order = order(&before)?;
        let paths = paths(&before, &order)?;
        Ok(Graph {
            order,
            before,
            paths,
        })
    }

    /// Returns the longest path for each stage's own time, and its length.
    pub(super) fn longest(&self, times: &[f64]) -> (f64, &[usize]) {
        let mut longest: (f64, &[usize]) = (f64::NEG_INFINITY, &[]);
        for path in &self.paths {
            let time = path.iter().filter_map(|stage| times.get(*stage)).sum();
            if time > longest.0 {
                longest = (time, path);
            }
        }
        longest
    }
}

fn known(names: &[&str], index: usize, after: &[String]) -> Result<Vec<usize>, InputError> {
    let mut before: Vec<usize> = Vec::with_capacity(after.len());
    for (place, name) in after.iter().enumerate() {
        let field = || format!("stages[{index}].after[{place}]");
        let value = || format!("'{name}'");
        let Some(found) = names.iter().position(|n| n == name) else {
            rule(false, field(), value(), "the name of a stage")?;
            continue;
        };
        rule(
            found != index,
            field(),
            value(),
            "another stage than itself",
        )?;
        let right = "another name: this one stands twice";
        rule(!before.contains(&found), field(), value(), right)?;
        before.push(found);
    }
    Ok(before)
}

fn one_entry(before: &[Vec<usize>]) -> Result<(), InputError> {
    let mut entries = (0..before.len()).filter(|i| before.get(*i).is_some_and(Vec::is_empty));
    let (first, second) = (entries.next(), entries.next());
    let right = "the one entry: some stage must come after none";
    rule(first.is_some(), "stages", "a cycle", right)?;
    if let (Some(first), Some(second)) = (first, second) {
        let right = format!(
            "the name of a stage: stages[{first}] comes after none, and there is one entry"
        );
        rule(false, format!("stages[{second}].after"), "[]", right)?;
    }
    Ok(())
}

fn order(before: &[Vec<usize>]) -> Result<Vec<usize>, InputError> {
    let mut order: Vec<usize> = Vec::with_capacity(before.len());
    while order.len() < before.len() {
        let ready = |index: &usize| {
            let waits = before.get(*index);
            !order.contains(index) && waits.is_some_and(|b| b.iter().all(|s| order.contains(s)))
        };
        match (0..before.len()).find(ready) {
            Some(index) => order.push(index),
            None => {
                let blocked = (0..before.len()).find(|index| !order.contains(index));
                let field = format!("stages[{}].after", blocked.unwrap_or_default());
                rule(false, field, "a cycle", "without one")?;
            }
        }
    }
    Ok(order)
}

fn paths(before: &[Vec<usize>], order: &[usize]) -> Result<Vec<Vec<usize>>, InputError> {
    // Paths are counted first: memory might not hold them.
    let mut ways = vec![0usize; before.len()];
    let mut all = 0usize;
    for stage in order {
        let into = before.get(*stage).map_or(&[][..], Vec::as_slice);
        let sum = into
            .iter()
            .filter_map(|b| ways.get(*b))
            .fold(0usize, |sum, ways| sum.saturating_add(*ways));
        if let Some(way) = ways.get_mut(*stage) {
            *way = if into.is_empty() { 1 } else { sum };
            if is_end(before, *stage) {
                all = all.saturating_add(*way);
            }
        }
    }
    let right = format!("stages with at most {PATHS_MAX} paths from the entry to an end");
    rule(all <= PATHS_MAX, "stages", format!("{all} paths"), right)?;
    let mut done = Vec::with_capacity(all);
    for end in (0..before.len()).filter(|stage| is_end(before, *stage)) {
        let mut open = vec![vec![end]];
        while let Some(path) = open.pop() {
            let into = path.last().and_then(|first| before.get(*first));
            match into.map(Vec::as_slice) {
                None | Some([]) => done.push(path.into_iter().rev().collect()),
                Some(into) => {
                    for stage in into {
                        let mut longer = path.clone();
                        longer.push(*stage);
                        open.push(longer);
                    }
                }
            }
        }
    }
    done.sort();
    Ok(done)
}

fn is_end(before: &[Vec<usize>], stage: usize) -> bool {
    !before.iter().any(|before| before.contains(&stage))
}
