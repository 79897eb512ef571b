//! State of a service in a budget that several services share.

use std::fmt::Write;

use serde::Serialize;
use weir_api::Cores;

/// State of a service in its shared budget.
#[derive(Debug, Clone, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct SharedBudgetReport {
    /// Name of the shared budget.
    pub name: String,
    /// Cores of all services that share it.
    pub cores: Cores,
    /// Part of this service; `null` until the cores of its pods and servers are known.
    pub part: Option<Cores>,
    /// Minimum part of this service.
    pub min: Cores,
    /// Fewest cores that carry its demand; `null` while it is unknown.
    pub need: Option<Cores>,
    /// Cores that its policy takes with the whole budget; `null` while the demand is unknown.
    pub preferred: Option<Cores>,
    /// Other services whose cores are not known yet: until then no part changes.
    pub unknown: Vec<String>,
    /// Other services that have not yet released what is above their parts, while this one needs more than its part.
    pub awaits: Vec<String>,
}

impl SharedBudgetReport {
    /// Sentence about the part, for the reason of a decision.
    pub fn note(&self) -> String {
        let Self { name, cores, .. } = self;
        let mut note = match self.part {
            None => {
                format!("; shared budget {name}: its cores are not known yet, none are changed")
            }
            Some(part) if part < self.min => {
                let min = self.min;
                format!(
                    "; shared budget {name}: waits for its minimum of {min} cores, none are changed"
                )
            }
            Some(part) => format!("; {part} of the {cores} cores of shared budget {name}"),
        };
        let short = self.part.zip(self.need).filter(|(part, need)| need > part);
        // Writing into a string cannot fail.
        if let Some((_, need)) = short {
            let _ = write!(note, ", where the demand needs {need}");
        }
        if !self.unknown.is_empty() {
            let names = self.unknown.join(", ");
            let _ = write!(
                note,
                "; no part changes until the cores of {names} are known"
            );
        }
        if !self.awaits.is_empty() {
            let names = self.awaits.join(", ");
            let _ = write!(note, "; waits for cores of {names}");
        }
        note
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn note_states_part_need_and_what_is_waited_for() {
        let report = SharedBudgetReport {
            name: "pool".to_owned(),
            cores: Cores::whole(24),
            part: Some(Cores::whole(8)),
            min: Cores::whole(2),
            need: Some(Cores::whole(8)),
            ..SharedBudgetReport::default()
        };
        assert_eq!(report.note(), "; 8 of the 24 cores of shared budget pool");
        let names = |name: &str| vec![name.to_owned()];
        let short = SharedBudgetReport {
            need: Some(Cores::whole(12)),
            awaits: names("b"),
            ..report.clone()
        };
        assert_eq!(
            short.note(),
            "; 8 of the 24 cores of shared budget pool, where the demand needs 12; waits for cores of b"
        );
        let unknown = SharedBudgetReport {
            part: None,
            unknown: names("c"),
            ..report.clone()
        };
        assert_eq!(
            unknown.note(),
            "; shared budget pool: its cores are not known yet, none are changed; \
             no part changes until the cores of c are known"
        );
        let below = SharedBudgetReport {
            part: Some(Cores::whole(1)),
            need: None,
            ..report
        };
        assert_eq!(
            below.note(),
            "; shared budget pool: waits for its minimum of 2 cores, none are changed"
        );
    }
}
