//! Check of a plan against the pipeline's constraints, in plain arithmetic.

use super::choices::{BatchOptions, Variant, needed, ranks};
use super::{Accuracy, Plan, Problem, StagePlan, Weights};
use crate::{Check, TOLERANCE};

impl Check for Problem {
    type Plan = Plan;

    fn check(&self, plan: &Plan) -> Result<(), String> {
        self.check_best_effort(plan)?;
        for path in &self.graph.paths {
            let along = path.iter().filter_map(|stage| plan.stages.get(*stage));
            let ms: f64 = along.map(|stage| stage.latency_ms + stage.queue_ms).sum();
            if ms > self.sla_ms * (1.0 + TOLERANCE) {
                let sla = self.sla_ms;
                return Err(format!("{ms} ms along a path exceed the SLA of {sla} ms"));
            }
        }
        Ok(())
    }

    /// Checks all constraints except the SLA.
    fn check_best_effort(&self, plan: &Plan) -> Result<(), String> {
        let (count, planned) = (self.stages.len(), plan.stages.len());
        if planned != count {
            return Err(format!("{planned} stages planned of {count}"));
        }
        let mut rank = 0.0;
        for (stage, planned) in self.stages.iter().zip(&plan.stages) {
            let found = stage.variants.iter().zip(ranks(&stage.variants));
            let mut found = found.filter(|(v, _)| v.name == planned.variant);
            let Some((variant, of)) = found.next().filter(|_| stage.name == planned.stage) else {
                let (a, b) = (&planned.stage, &planned.variant);
                return Err(format!("'{a}' has no variant '{b}'"));
            };
            rank += of;
            check_option(variant, planned).map_err(|why| format!("{}: {why}", stage.name))?;
            self.check_capacity(variant, planned)
                .map_err(|why| format!("{}: {why}", stage.name))?;
        }
        self.figures(plan, rank)
    }
}

/// Checks that the variant is offered in that batch, with those replicas and that latency.
fn check_option(variant: &Variant, planned: &StagePlan) -> Result<(), String> {
    let (batch, replicas, ms) = (planned.batch, planned.replicas, planned.latency_ms);
    let given = match &variant.options {
        BatchOptions::Given(options) => options
            .iter()
            .any(|o| o.batch == batch && o.replicas == replicas && same(o.latency_ms, ms)),
        BatchOptions::LatencyModel {
            latency,
            batches,
            replicas_max,
            ..
        } => {
            batches.contains(&batch)
                && replicas <= *replicas_max
                && same(latency.ms(batch, variant.replica_cores), ms)
        }
    };
    if given {
        return Ok(());
    }
    let name = &variant.name;
    Err(format!(
        "{replicas} of '{name}' with batches of {batch} in {ms} ms are none of its options"
    ))
}

impl Problem {
    fn check_capacity(&self, variant: &Variant, planned: &StagePlan) -> Result<(), String> {
        let (batch, replicas) = (planned.batch, planned.replicas);
        let occupancy_ms = variant.occupancy_ms(batch, planned.latency_ms);
        let needed = needed(batch, occupancy_ms, self.arrival_rps);
        if f64::from(replicas) < needed {
            return Err(format!(
                "{replicas} replicas where {needed} carry the arrival"
            ));
        }
        let queue_ms = variant.queue_ms(batch, self.arrival_rps);
        let cores = f64::from(replicas) * variant.replica_cores;
        let own = [
            ("queue", planned.queue_ms, queue_ms),
            ("cores", planned.cores, cores),
            (
                "accuracy",
                planned.accuracy_percent,
                variant.accuracy_percent,
            ),
        ];
        agree(&own)
    }

    /// Checks the totals of the plan.
    fn figures(&self, plan: &Plan, rank: f64) -> Result<(), String> {
        let stages = &plan.stages;
        let product = stages
            .iter()
            .fold(100.0, |all, s| all * (s.accuracy_percent / 100.0));
        let cores = stages.iter().fold(0.0, |sum, s| sum + s.cores);
        let batches = stages.iter().fold(0.0, |sum, s| sum + f64::from(s.batch));
        let mut longest = 0.0f64;
        for path in &self.graph.paths {
            let along = path.iter().filter_map(|stage| stages.get(*stage));
            longest = longest.max(along.map(|s| s.latency_ms + s.queue_ms).sum());
        }
        let (value, ranks) = match self.accuracy {
            Accuracy::Product => (product, None),
            Accuracy::Ranks => (rank, Some(rank)),
        };
        agree(&[
            ("accuracy", plan.accuracy_percent, product),
            (
                "ranks",
                plan.accuracy_ranks.unwrap_or_default(),
                ranks.unwrap_or_default(),
            ),
            ("cores", plan.cores, cores),
            ("latency", plan.latency_ms, longest),
        ])?;
        let Weights { alpha, beta, delta } = self.weights;
        let objective = alpha * value - beta * cores - delta * batches;
        let size = alpha * value + beta * cores + delta * batches;
        let reported = plan.objective;
        // NaN fails this comparison.
        if (objective - reported).abs() <= TOLERANCE * size {
            return Ok(());
        }
        Err(format!(
            "an objective of {reported}, where it is {objective}"
        ))
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE * a.abs().max(b.abs())
}

fn agree(figures: &[(&str, f64, f64)]) -> Result<(), String> {
    match figures
        .iter()
        .find(|(_, reported, is)| !same(*reported, *is))
    {
        Some((what, reported, is)) => Err(format!("{what} of {reported}, where it is {is}")),
        None => Ok(()),
    }
}
