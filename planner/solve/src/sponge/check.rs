//! Check of a plan in plain arithmetic, batch by batch and request by request.

use super::{Plan, Problem};
use crate::{Check, TOLERANCE};

impl Check for Problem {
    type Plan = Plan;

    /// Checks that each waiting and each arriving request is on time, and that the rate is
    /// sustained.
    fn check(&self, plan: &Plan) -> Result<(), String> {
        self.check_best_effort(plan)?;
        let latency_ms = self.latency.ms(plan.batch, f64::from(plan.cores));
        let mut done_ms = 0.0;
        let step = usize::try_from(plan.batch).unwrap_or(usize::MAX);
        for members in self.left_ms.chunks(step) {
            done_ms += latency_ms;
            for left_ms in members {
                if done_ms > left_ms + TOLERANCE * done_ms {
                    return Err(format!(
                        "a request with {left_ms} ms left is answered after {done_ms} ms"
                    ));
                }
            }
        }
        let carried = f64::from(plan.batch) * 1000.0 / latency_ms;
        if carried < self.rate_rps * (1.0 - 2.0 * TOLERANCE) {
            return Err(format!(
                "{} requests/s on what carries {carried}",
                self.rate_rps
            ));
        }
        if let Some(left_ms) = self.arriving_ms {
            let fills_ms = f64::from(plan.batch - 1) * 1000.0 / self.rate_rps;
            let done_ms = fills_ms + latency_ms;
            if done_ms > left_ms + TOLERANCE * done_ms {
                return Err(format!(
                    "a request that comes has {left_ms} ms and is answered after {done_ms} ms"
                ));
            }
        }
        if let Some(peak) = self.peak {
            let fills_ms = f64::from(plan.batch - 1) * 1000.0 / self.rate_rps;
            let left_ms = self.arriving_ms.unwrap_or(0.0);
            let spare_s = (left_ms - fills_ms - latency_ms).max(0.0) / 1000.0;
            let come = peak.rate_rps * peak.seconds;
            let answered = carried * (peak.seconds + spare_s);
            if answered < come * (1.0 - 2.0 * TOLERANCE) {
                return Err(format!(
                    "{answered} requests answered of the {come} of a peak"
                ));
            }
        }
        Ok(())
    }

    /// Checks that cores and batch are among the choices.
    fn check_best_effort(&self, plan: &Plan) -> Result<(), String> {
        if !self.cores.contains(&plan.cores) {
            return Err(format!("{} cores are none of the choices", plan.cores));
        }
        if !self.batches.contains(&plan.batch) {
            return Err(format!("a batch of {} is none of the choices", plan.batch));
        }
        Ok(())
    }
}
