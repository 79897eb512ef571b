//! Faults of resizes: a backend refuses them, defers them as a kubelet does, or carries them out late.

use weir_planner::backends::{ActuateError, BackendError, Reason};

use crate::scenario::ResizeFault;

/// Times until which the faults of each variant last, ns.
#[derive(Debug)]
pub(crate) struct ResizeFaults(Vec<OfVariant>);

#[derive(Debug, Clone, Copy, Default)]
struct OfVariant {
    refused: u64,
    infeasible: u64,
    deferred: u64,
    late: u64,
    /// Time that a late resize takes, in percent of the usual one.
    percent: u32,
}

impl ResizeFaults {
    pub(crate) fn new(variants: usize) -> ResizeFaults {
        ResizeFaults(vec![OfVariant::default(); variants])
    }

    /// Begins a fault of a variant, or of all, that lasts until `until`.
    pub(crate) fn begin(&mut self, fault: ResizeFault, variant: Option<usize>, until: u64) {
        for (index, known) in self.0.iter_mut().enumerate() {
            if variant.is_some_and(|variant| variant != index) {
                continue;
            }
            let lasts = match fault {
                ResizeFault::Refused => &mut known.refused,
                ResizeFault::Infeasible => &mut known.infeasible,
                ResizeFault::Deferred => &mut known.deferred,
                ResizeFault::Late { percent } => {
                    known.percent = percent;
                    &mut known.late
                }
            };
            *lasts = until.max(*lasts);
        }
    }

    /// Returns the answer to a change that is refused. A node always has the capacity for a change that does not grow.
    pub(crate) fn refusal(&self, now: u64, variant: usize, grows: bool) -> Option<ActuateError> {
        let known = self.0.get(variant)?;
        if now < known.refused {
            return Some(ActuateError::Status(409, "refused".to_owned()));
        }
        let infeasible = grows && now < known.infeasible;
        infeasible.then(|| {
            backend(
                Reason::Infeasible,
                "the nodes can never hold that many cores",
                false,
            )
        })
    }

    /// Returns the time at which a change that usually takes `delay` is in force.
    pub(crate) fn in_force_at(&self, now: u64, variant: usize, delay: u64) -> u64 {
        let Some(known) = self.0.get(variant) else {
            return now.saturating_add(delay);
        };
        let takes = match now < known.late {
            true => (u128::from(delay) * u128::from(known.percent) / 100) as u64,
            false => delay,
        };
        now.saturating_add(takes).max(known.deferred)
    }

    /// Returns the answer to a change that usually takes `delay` and is deferred, until `at`.
    pub(crate) fn deferral(
        &self,
        now: u64,
        variant: usize,
        (delay, at): (u64, u64),
    ) -> Option<ActuateError> {
        let known = self.0.get(variant)?;
        let deferred = known.deferred > now.saturating_add(delay) && at >= known.deferred;
        deferred.then(|| backend(Reason::Deferred, "the nodes have no capacity now", true))
    }
}

/// Answer to a change that was interrupted.
pub(crate) fn interrupted() -> ActuateError {
    backend(Reason::Refused, "the change was interrupted", false)
}

fn backend(reason: Reason, message: &str, indeterminate: bool) -> ActuateError {
    ActuateError::Backend(BackendError {
        reason,
        message: message.to_owned(),
        indeterminate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(fault: ResizeFault, variant: Option<usize>) -> ResizeFaults {
        let mut faults = ResizeFaults::new(2);
        faults.begin(fault, variant, 100);
        // A shorter one of the same kind ends nothing.
        faults.begin(fault, variant, 50);
        faults
    }

    fn reason(refusal: Option<ActuateError>) -> Option<Reason> {
        refusal.map(|refusal| refusal.reason())
    }

    #[test]
    fn refused_until_the_end_and_infeasible_only_where_it_grows() {
        let refused = faults(ResizeFault::Refused, None);
        for variant in [0, 1] {
            assert_eq!(
                reason(refused.refusal(99, variant, false)),
                Some(Reason::Refused)
            );
            assert_eq!(refused.refusal(100, variant, true), None);
        }
        let infeasible = faults(ResizeFault::Infeasible, Some(1));
        assert_eq!(
            reason(infeasible.refusal(99, 1, true)),
            Some(Reason::Infeasible)
        );
        assert_eq!(infeasible.refusal(99, 1, false), None);
        assert_eq!(
            infeasible.refusal(99, 0, true),
            None,
            "of the other variant"
        );
        assert_eq!(infeasible.refusal(100, 1, true), None);
    }

    #[test]
    fn deferred_until_the_end_and_late_by_its_factor() {
        let deferred = faults(ResizeFault::Deferred, Some(0));
        assert_eq!(deferred.in_force_at(20, 0, 10), 100);
        assert_eq!(
            reason(deferred.deferral(20, 0, (10, 100))),
            Some(Reason::Deferred)
        );
        assert_eq!(
            deferred.deferral(20, 0, (10, 25)),
            None,
            "it was under way before"
        );
        assert_eq!(deferred.in_force_at(20, 1, 10), 30);
        assert_eq!(deferred.deferral(20, 1, (10, 30)), None);
        assert_eq!(
            deferred.in_force_at(95, 0, 10),
            105,
            "it would take longer anyway"
        );
        assert_eq!(deferred.deferral(95, 0, (10, 105)), None);
        let late = faults(ResizeFault::Late { percent: 700 }, None);
        assert_eq!(late.in_force_at(99, 0, 10), 169);
        assert_eq!(late.in_force_at(100, 0, 10), 110);
        assert_eq!(late.deferral(99, 0, (10, 169)), None);
    }
}
