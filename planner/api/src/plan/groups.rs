//! Rules of the groups of a variant in a plan.

use super::PlanError;
use crate::group::{GROUPS_MAX, GroupName, GroupTime, RATIO_MAX};
use crate::plan::NAME_MAX;

/// Length of the longest name, for messages.
const NAME_SHOWN: usize = NAME_MAX + 7;

/// Checks the groups of the variant with that index.
pub(super) fn check(index: usize, groups: &[GroupTime]) -> Result<(), PlanError> {
    if groups.len() > GROUPS_MAX {
        let count = groups.len();
        return Err(PlanError::Groups { index, count });
    }
    for (at, one) in groups.iter().enumerate() {
        let wrong = |field, value: String, right| PlanError::Group {
            index,
            at,
            field,
            value,
            right,
        };
        let name = || {
            format!(
                "'{}'",
                one.group.chars().take(NAME_SHOWN).collect::<String>()
            )
        };
        if GroupName::parse(&one.group).is_none() {
            let right = "class-, and the name of a class; or size-, and a number of bytes";
            return Err(wrong("group", name(), right));
        }
        if groups.iter().take(at).any(|other| other.group == one.group) {
            return Err(wrong("group", name(), "a group that no other has"));
        }
        if !(one.mean > 0.0 && one.mean <= RATIO_MAX) {
            return Err(wrong("mean", one.mean.to_string(), "above 0, at most 4096"));
        }
        if !(0.0..=RATIO_MAX).contains(&one.deviation) {
            return Err(wrong("deviation", one.deviation.to_string(), "0 to 4096"));
        }
    }
    Ok(())
}
