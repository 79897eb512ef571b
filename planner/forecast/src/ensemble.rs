//! Several forecasters on one load, and the one among them that is followed.

use crate::calibrated::{Calibrated, per_horizon};
use crate::choice::Choice;
use crate::history::History;
use crate::learnt::{Learnt, LearntError};
use crate::model::{Kind, Prediction, REFIT_SECONDS, Season, Settings, create};
use crate::task::Task;

/// Forecasters with their history.
#[derive(Debug)]
pub struct Ensemble {
    history: History,
    members: Vec<(Kind, Calibrated)>,
    choice: Choice,
    refitted_at: Option<u64>,
    task: Task,
    season: Option<Season>,
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
            task,
            season: settings.season,
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

    /// Numbers that have been learned until `at_ms` by the time of [`Ensemble::observe`].
    pub fn learnt(&self, at_ms: u64) -> Learnt {
        let members = self.members.iter();
        Learnt {
            horizon_s: self.task.horizon(),
            quantile: self.task.quantile(),
            season_s: self.season.map(Season::seconds),
            at_ms,
            members: members.map(|(kind, one)| one.learnt(*kind)).collect(),
            choice: self.choice.learnt(),
        }
    }

    /// Takes over numbers that another process has learned. The choice is taken over where it was among the same
    /// forecasters.
    ///
    /// # Errors
    /// Fails, and changes nothing of a new ensemble, if they are of another task or season, or out of range.
    pub fn relearn(&mut self, learnt: &Learnt) -> Result<(), LearntError> {
        let (own_horizon_s, own_quantile) = (self.task.horizon(), self.task.quantile());
        let (horizon_s, quantile) = (learnt.horizon_s, learnt.quantile);
        if (horizon_s, quantile) != (own_horizon_s, own_quantile) {
            return Err(LearntError::Task {
                horizon_s,
                quantile,
                own_horizon_s,
                own_quantile,
            });
        }
        if learnt.season_s != self.season.map(Season::seconds) {
            return Err(LearntError::Season);
        }
        learnt.check()?;
        let before = self.learnt(0);
        for (kind, one) in &mut self.members {
            let known = learnt.members.iter().find(|member| member.kind == *kind);
            if known.is_some_and(|known| !one.relearn(known)) {
                let name = kind.name();
                for ((_, one), before) in self.members.iter_mut().zip(&before.members) {
                    one.relearn(before);
                }
                return Err(LearntError::Value(name));
            }
        }
        let kinds = learnt.members.iter().map(|member| member.kind);
        if kinds.eq(self.members.iter().map(|(kind, _)| *kind)) {
            self.choice.relearn(&learnt.choice);
        }
        Ok(())
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
