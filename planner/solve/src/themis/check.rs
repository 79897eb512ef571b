//! Check of a plan against the problem, from the latency models themselves.

use super::{Fits, Phase, Plan, Problem, Scaling, Setting, Stage};
use crate::{Check, TOLERANCE};

impl Check for Problem {
    type Plan = Plan;

    fn check(&self, plan: &Plan) -> Result<(), String> {
        self.check_best_effort(plan)?;
        for scaling in [&plan.vertical, &plan.horizontal].into_iter().flatten() {
            self.carries_in_time(scaling)?;
        }
        let both = plan.vertical.is_some() && plan.horizontal.is_some();
        if both && (plan.phase == Phase::Horizontal) != self.lasting {
            return Err(format!(
                "{:?}, and the load is {}to last",
                plan.phase,
                if self.lasting { "" } else { "not known " }
            ));
        }
        Ok(())
    }

    fn check_best_effort(&self, plan: &Plan) -> Result<(), String> {
        let of = |phase| match phase {
            Phase::Vertical => plan.vertical.as_ref(),
            Phase::Horizontal => plan.horizontal.as_ref(),
        };
        if of(plan.phase).is_none() {
            return Err(format!("{:?} without settings for it", plan.phase));
        }
        for phase in [Phase::Vertical, Phase::Horizontal] {
            if let Some(scaling) = of(phase) {
                self.check_scaling(phase, scaling)?;
            }
        }
        self.hands_over(plan)
    }
}

impl Problem {
    fn check_scaling(&self, phase: Phase, scaling: &Scaling) -> Result<(), String> {
        let (count, settings) = (self.stages.len(), scaling.stages.len());
        if settings != count {
            return Err(format!("{settings} settings for {count} stages"));
        }
        let (mut cores, mut latency_ms) = (0_u64, 0.0);
        for (stage, setting) in self.stages.iter().zip(&scaling.stages) {
            let name = &stage.name;
            if setting.name != *name {
                return Err(format!(
                    "a setting of '{}' for stage '{name}'",
                    setting.name
                ));
            }
            self.is_a_choice(phase, stage, setting)
                .map_err(|what| format!("{name}: {what}"))?;
            let ms = stage.latency.ms(setting.batch, f64::from(setting.cores));
            let fill_ms = f64::from(setting.batch - 1) / self.load_rps * 1000.0;
            let wait_ms = stage.wait_ms.unwrap_or(fill_ms);
            let rps = f64::from(setting.instances * setting.batch) / ms * 1000.0;
            for (what, reported, is) in [
                ("latency_ms", setting.latency_ms, ms),
                ("wait_ms", setting.wait_ms, wait_ms),
                ("throughput_rps", setting.throughput_rps, rps),
            ] {
                equal(reported, is).map_err(|off| format!("{name}: {what} {off}"))?;
            }
            cores += u64::from(setting.instances) * u64::from(setting.cores);
            latency_ms += ms + wait_ms;
        }
        if cores != u64::from(scaling.cores) {
            return Err(format!("{} cores given, {cores} in use", scaling.cores));
        }
        if cores > u64::from(self.budget_cores) {
            return Err(format!(
                "{cores} cores exceed the budget of {}",
                self.budget_cores
            ));
        }
        equal(scaling.latency_ms, latency_ms).map_err(|off| format!("the latency {off}"))
    }

    fn is_a_choice(&self, phase: Phase, stage: &Stage, setting: &Setting) -> Result<(), String> {
        let Setting {
            instances,
            cores,
            batch,
            ..
        } = *setting;
        if !(1..=stage.batch_max).contains(&batch) {
            return Err(format!("a batch of {batch}"));
        }
        if !(1..=stage.instances_max).contains(&instances) {
            return Err(format!("{instances} instances"));
        }
        match phase {
            Phase::Vertical if instances != stage.running.instances => Err(format!(
                "{instances} instances where {} run",
                stage.running.instances
            )),
            Phase::Vertical if !(1..=stage.cores_max).contains(&cores) => {
                Err(format!("{cores} cores for an instance"))
            }
            Phase::Horizontal if cores != self.horizontal_cores => Err(format!(
                "{cores} cores for an instance, not {}",
                self.horizontal_cores
            )),
            _ => Ok(()),
        }
    }

    fn carries_in_time(&self, scaling: &Scaling) -> Result<(), String> {
        let (load, slo) = (self.load_rps, self.slo_ms);
        for setting in &scaling.stages {
            let (name, rps) = (&setting.name, setting.throughput_rps);
            if rps < load * (1.0 - 2.0 * TOLERANCE) {
                return Err(format!("{name}: {rps} requests/s of a load of {load}"));
            }
        }
        if scaling.latency_ms > slo * (1.0 + 2.0 * TOLERANCE) {
            return Err(format!(
                "{} ms exceed the SLO of {slo} ms",
                scaling.latency_ms
            ));
        }
        Ok(())
    }

    fn hands_over(&self, plan: &Plan) -> Result<(), String> {
        let (target, handover) = match (&plan.horizontal, &plan.handover) {
            (None, None) => return Ok(()),
            (Some(target), Some(handover)) => (target, handover),
            _ => return Err("a hand-over without a target, or the other way".to_owned()),
        };
        let (mut simultaneous, mut before_all) = (0, 0);
        let mut steps = Vec::new();
        for (index, (stage, new)) in self.stages.iter().zip(&target.stages).enumerate() {
            let vertical = plan.vertical.as_ref().and_then(|v| v.stages.get(index));
            let old_each = vertical.map_or(stage.running.cores, |setting| setting.cores);
            let old = stage.running.instances * old_each;
            let new_ones = new.instances.max(stage.running.instances) - stage.running.instances;
            let during = (old + new_ones * new.cores).max(new.instances * new.cores);
            simultaneous += during;
            before_all += old;
            steps.push((old, during, new.instances * new.cores));
        }
        // One stage after another, from all old instances on: each stage's rise and then its fall.
        let (mut sequential, mut level) = (0, before_all);
        for (old, during, new) in steps {
            sequential = sequential.max(level - old + during);
            level = level - old + new;
        }
        let fits = match self.budget_cores {
            budget if simultaneous <= budget => Fits::Simultaneous,
            budget if sequential <= budget => Fits::Sequential,
            _ => Fits::Never,
        };
        let is = (simultaneous, sequential, fits);
        let reported = (
            handover.simultaneous_cores,
            handover.sequential_cores,
            handover.fits,
        );
        if reported != is {
            return Err(format!("a hand-over of {reported:?} that is {is:?}"));
        }
        Ok(())
    }
}

fn equal(reported: f64, is: f64) -> Result<(), String> {
    if (reported - is).abs() <= TOLERANCE * reported.abs().max(is.abs()) {
        return Ok(());
    }
    Err(format!("is given as {reported} and is {is}"))
}
