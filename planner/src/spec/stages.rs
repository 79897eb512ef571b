//! Validation of stages, and of all variants together.

use std::collections::BTreeSet;

use weir_api::Cores;

use super::raw::{RawStage, RawVariant};
use super::variant::{Frame, variant};
use crate::policy::pipeline_policies;
use crate::service::rule::{refusal, rule, valid_name, within};
use crate::service::{ConfigError, OPTIONS_MAX, STAGES_MAX, Stage, Variant};

/// Returns the stages, and their variants in stage order.
pub(super) fn stages(
    service: &str,
    variants: Option<Vec<RawVariant>>,
    stages: Option<Vec<RawStage>>,
    frame: Frame<'_>,
) -> Result<(Vec<Stage>, Vec<Variant>), ConfigError> {
    let right = "exactly one of the two: variants (of a service) or stages (of a pipeline)";
    let (stages, all) = match (variants, stages) {
        (Some(variants), None) => single_stage(service, &variants, frame)?,
        (None, Some(stages)) => {
            let policies = pipeline_policies().join(" or ");
            let right = format!("left out, unless policy is {policies}: the others know one stage");
            rule(frame.policy.plans_pipelines(), "stages", "given", &right)?;
            pipeline_stages(&stages, frame)?
        }
        (None, None) => return Err(refusal("variants, stages", "both missing", right)),
        (Some(_), Some(_)) => return Err(refusal("variants, stages", "both given", right)),
    };
    check_totals(&all, frame)?;
    Ok((stages, all))
}

/// Returns the only stage of a service that is no pipeline; it carries the service's name.
fn single_stage(
    service: &str,
    raw: &[RawVariant],
    frame: Frame<'_>,
) -> Result<(Vec<Stage>, Vec<Variant>), ConfigError> {
    let mut names = BTreeSet::new();
    let variants = stage_variants("variants", raw, frame, &mut names)?;
    let stage = Stage {
        name: service.to_owned(),
        variants: 0..variants.len(),
    };
    Ok((vec![stage], variants))
}

fn pipeline_stages(
    raw: &[RawStage],
    frame: Frame<'_>,
) -> Result<(Vec<Stage>, Vec<Variant>), ConfigError> {
    within("stages", raw.len(), 1..=STAGES_MAX, "of them")?;
    let (mut stages, mut all): (Vec<Stage>, Vec<Variant>) = (Vec::new(), Vec::new());
    let mut names = BTreeSet::new();
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("stages[{index}]");
        let name = valid_name(format!("{path}.name"), &raw.name)?;
        let right = "another name: this one stands twice";
        let new = stages.iter().all(|stage| stage.name != name);
        rule(new, format!("{path}.name"), &name, right)?;
        let variants = stage_variants(
            &format!("{path}.variants"),
            &raw.variants,
            frame,
            &mut names,
        )?;
        let begin = all.len();
        all.extend(variants);
        stages.push(Stage {
            name,
            variants: begin..all.len(),
        });
    }
    Ok((stages, all))
}

/// Returns the variants of one stage. Names are unique over all stages, because reports identify variants
/// by name.
fn stage_variants(
    path: &str,
    raw: &[RawVariant],
    frame: Frame<'_>,
    names: &mut BTreeSet<String>,
) -> Result<Vec<Variant>, ConfigError> {
    let (most, unit) = frame.policy.variants_max();
    within(path, raw.len(), 1..=most, unit)?;
    let mut variants = Vec::with_capacity(raw.len());
    for (index, raw) in raw.iter().enumerate() {
        let at = format!("{path}[{index}]");
        let variant = variant(&at, raw, frame)?;
        let right = "another name: this one stands twice";
        let new = names.insert(variant.name.clone());
        rule(new, format!("{at}.name"), &variant.name, right)?;
        variants.push(variant);
    }
    Ok(variants)
}

/// Checks workloads, cores and options over all stages.
fn check_totals(variants: &[Variant], frame: Frame<'_>) -> Result<(), ConfigError> {
    let workloads = variants.iter().filter_map(|variant| {
        let workload = variant.workload.as_ref()?;
        Some((workload.kind.label(), &workload.name))
    });
    let mut seen = BTreeSet::new();
    for (kind, name) in workloads {
        // Two variants on one workload would both resize its pods and count them twice.
        rule(
            seen.insert((kind, name)),
            "variants[].workload",
            format!("{kind} {name}"),
            "another workload: this one stands twice",
        )?;
    }
    let mut groups = BTreeSet::new();
    for name in variants
        .iter()
        .filter_map(|variant| variant.cgroup.as_ref())
    {
        let right = "another control group: this one stands twice";
        rule(groups.insert(name), "variants[].cgroup", name, right)?;
    }
    let sum = |cores: fn(&Variant) -> u32| variants.iter().map(cores).sum::<u32>();
    let budget = frame.step.times(frame.budget);
    let right = format!("at most budget.cores ({budget}) over all variants");
    let within_budget = |path, cores| rule(cores <= budget, path, cores, &right);
    let initial = variants.iter().map(|variant| variant.initial.cores());
    within_budget("variants[].cores.initial", initial.sum::<Cores>())?;
    let min = variants.iter();
    let min = min.map(|variant| variant.cores(variant.min).times(variant.replicas.min));
    within_budget("variants[].cores.min", min.sum::<Cores>())?;
    let options = sum(|variant| {
        let replicas = variant.replicas.max - variant.replicas.min + 1;
        replicas * (variant.max - variant.min + 1)
    });
    let right =
        format!("at most {OPTIONS_MAX} (max − min + 1, of cores × of replicas, over all variants)");
    rule(options <= OPTIONS_MAX, "variants[].cores", options, &right)
}
