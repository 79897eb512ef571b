//! Several forecasters on one load, and the one among them that is followed.

use crate::calibrated::{Calibrated, per_horizon};
use crate::choice::Choice;
use crate::history::History;
use crate::model::{Kind, Prediction, REFIT_SECONDS, Settings, create};
use crate::task::Task;

/// Forecasters with their history.
#[derive(Debug)]
pub struct Ensemble {
    history: History,
    members: Vec<(Kind, Calibrated)>,
    choice: Choice,
    refitted_at: Option<u64>,
}

impl Ensemble {
    /// Creates these forecasters, of which the LSTM needs a network and is left out without one. The choice begins
    /// with the moving maximum, which needs nothing to be learned.
    pub fn new(kinds: &[Kind], task: Task, settings: Settings<'_>) -> Ensemble {
        let created = |kind: &Kind| {
            let model = create(*kind, task, settings)?;
            Some((*kind, Calibrated::new(model, task)))
        };
        let members: Vec<_> = kinds.iter().filter_map(created).collect();
        let first = members.iter().position(|(kind, _)| *kind == Kind::Maximum);
        let choice = Choice::new(members.len(), first.unwrap_or(0), per_horizon(task));
        Ensemble {
            history: History::default(),
            members,
            choice,
            refitted_at: None,
        }
    }

    /// Takes in the rate of the second `at`, counted from the epoch.
    pub fn observe(&mut self, at: u64, rate: f64) {
        self.history.push(at, rate);
        if self.history.is_empty() {
            return;
        }
        let history = &self.history;
        let outcomes = self.members.iter_mut().map(|(_, one)| one.observe(history));
        let losses: Vec<_> = outcomes
            .map(|outcome| outcome.map(|one| one.loss))
            .collect();
        if losses.iter().any(Option::is_some) {
            self.choice.observe(&losses);
        }
    }

    /// Lets the models fit again if it is time to, which may take a second or so. Returns whether it was.
    pub fn refit_if_due(&mut self) -> bool {
        let now = self.history.at();
        let last = *self.refitted_at.get_or_insert(now);
        let due = now.saturating_sub(last) >= REFIT_SECONDS;
        if due {
            self.refitted_at = Some(now);
            self.members.iter_mut().for_each(|(_, one)| one.refit());
        }
        due
    }

    /// Latest seconds.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Number of changes of the choice so far.
    pub fn changes(&self) -> u64 {
        self.choice.changes()
    }

    /// Forecasters and their names, in the order they were given.
    pub fn members(&self) -> impl Iterator<Item = (Kind, &Calibrated)> {
        self.members.iter().map(|(kind, one)| (*kind, one))
    }

    /// Index of the chosen forecaster among the members.
    pub fn chosen(&self) -> usize {
        self.choice.current()
    }

    /// Forecast of the chosen one; `None` until it knows enough.
    pub fn forecast(&self) -> Option<Prediction> {
        let (_, chosen) = self.members.get(self.chosen())?;
        chosen.forecast(&self.history)
    }
}
