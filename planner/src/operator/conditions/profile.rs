//! Condition `ProfileReady`: where the profiles are from, or that they are measured in production.

use super::{ConditionType, ConditionValue};
use crate::service::{Service, Variant};

/// Condition of a service whose profiles have all been read. Its message has no measured number, so that it does not
/// change with each cycle: these are in the reason of the plan.
pub(super) fn condition(service: &Service) -> ConditionValue {
    let condition = |reason, message: &str| {
        ConditionValue::new(ConditionType::ProfileReady, true, reason, message)
    };
    let from = |variant: &Variant| match (&variant.profile_from, variant.has_profile()) {
        (Some(from), _) => Some(format!("{}: {from}", variant.name)),
        (None, true) => None,
        (None, false) => Some(format!(
            "{}: no profile, measured in production",
            variant.name
        )),
    };
    let all: Vec<String> = service.variants.iter().filter_map(from).collect();
    let has_all = service.variants.iter().all(Variant::has_profile);
    match (all.is_empty(), has_all) {
        (true, _) => condition("Given", "every variant's latency is given in the resource"),
        (false, true) => condition("Read", &all.join("; ")),
        (false, false) => condition("Measured", &all.join("; ")),
    }
}
