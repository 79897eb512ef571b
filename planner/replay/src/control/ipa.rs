//! IPA (JSys '24) and its baselines as a control plane: each 10 s a decision by [`rule`] for the load of
//! [`predictor`], carried out second by second.
//!
//! Replicas of a newly chosen variant load while those of before serve, and take over when all are ready, as in a
//! rolling update whose new pods may all exist beside the old ones. As in the program, nothing bounds the cores but the
//! replicas that a variant may have. The batch of a stage changes at once. Requests go to all ready replicas of a stage
//! in equal parts. Plans contain no downstream time: a request is dropped when its objective has passed, not earlier.

mod predictor;
mod rule;

use std::time::Duration;

use weir_api::plan::HOUR_MS;
use weir_api::{Cores, Plan, Revision, Share};
use weir_planner::capacity::{Allocation, Resize, Target};
use weir_planner::clock::Now;
use weir_planner::distribution::Publishers;
use weir_planner::plan::{Draft, drafts};
use weir_planner::profile::Profile;
use weir_planner::service::{Service, Stage, Variant};

use self::predictor::Predictor;
use self::rule::{Choice, Problem, Replicas};
use super::kubelet::Kubelet;
use crate::EPOCH_MS;
use crate::scenario::{IpaAccuracy, IpaPredictor, IpaRule};

/// Period in which replicas and plans follow; the program's pods do so by themselves.
const PERIOD: Duration = Duration::from_secs(1);
/// `adaptation_interval`.
const INTERVAL_S: u64 = 10;

/// Control plane of IPA.
pub(crate) struct IpaDriver {
    rule: IpaRule,
    accuracy: IpaAccuracy,
    service: Service,
    predictor: Predictor,
    /// Simulated backends.
    pub(crate) kubelet: Kubelet,
    publishers: Publishers,
    /// Choice of each stage; `None` until the first decision.
    choices: Option<Vec<Choice>>,
    /// Replicas of each stage at the start.
    initial: Vec<u32>,
    /// Target cores of each variant.
    pub(crate) target: Vec<Cores>,
}

impl IpaDriver {
    /// Creates the control plane; `arrivals` are the requests of each second, for the predictor that knows them.
    pub(crate) fn new(
        (rule, accuracy): (IpaRule, IpaAccuracy),
        (predictor, arrivals): (IpaPredictor, Vec<f64>),
        service: &Service,
        kubelet: Kubelet,
    ) -> IpaDriver {
        let count = |stage: &Stage| -> u32 {
            let variants = service.variants.get(stage.variants.clone());
            let each = variants.unwrap_or_default().iter();
            each.map(|variant| variant.initial.replicas()).sum()
        };
        let initial = service.variants.iter();
        IpaDriver {
            rule,
            accuracy,
            predictor: Predictor::new(predictor, &service.demand, arrivals),
            publishers: Publishers::new(service),
            choices: None,
            initial: service.stages.iter().map(count).collect(),
            target: initial.map(|variant| variant.initial.cores()).collect(),
            service: service.clone(),
            kubelet,
        }
    }

    /// Period of its cycle.
    pub(crate) fn period(&self) -> Duration {
        PERIOD
    }

    /// Decides when it is time, and requests the replicas; returns the new plans, each with its stage. `arrivals` are
    /// the requests that have arrived so far.
    pub(crate) fn run_cycle(&mut self, at: Duration, arrivals: u64) -> Vec<(u16, Plan)> {
        self.predictor.observe(at, arrivals);
        let second = at.as_secs();
        if second > 0
            && second.is_multiple_of(INTERVAL_S)
            && let Some(load_rps) = self.predictor.predict(at)
        {
            self.decide(load_rps);
        }
        self.request_replicas(at);
        self.plans(at)
    }

    /// Keeps the earlier choices where nothing meets the constraints, as the program does.
    fn decide(&mut self, load_rps: f64) {
        let replicas = match self.rule {
            IpaRule::Rim => Replicas::Fixed(&self.initial),
            IpaRule::Paper | IpaRule::Code => Replicas::Fewest,
        };
        let problem = Problem::new(
            (self.rule, self.accuracy),
            &self.service,
            load_rps,
            replicas,
        );
        let Some(choices) = problem.best() else {
            return;
        };
        for (target, variant) in self.target.iter_mut().zip(0..) {
            let chosen = choices.iter().find(|choice| choice.variant == variant);
            let each = self.service.variants.get(variant).map(each);
            let each = each.unwrap_or_default();
            *target = each.times(chosen.map_or(0, |choice| choice.replicas));
        }
        self.choices = Some(choices);
    }

    fn request_replicas(&mut self, at: Duration) {
        let now = crate::nanos(at);
        let choices = self.choices.clone().unwrap_or_default();
        let stages: Vec<_> = self
            .service
            .stages
            .iter()
            .map(|one| one.variants.clone())
            .collect();
        for (choice, variants) in choices.iter().zip(stages) {
            let takes_over = self.ready(choice.variant).replicas() >= choice.replicas;
            for variant in variants {
                let replicas = match variant == choice.variant {
                    true => choice.replicas,
                    false if takes_over => 0,
                    // Those that still load serve no purpose any more.
                    false => self.ready(variant).replicas(),
                };
                self.request(now, variant, replicas);
                self.kubelet.send_batch(variant, choice.batch);
            }
        }
    }

    /// Requests that many replicas of a variant. A change that is refused is requested again in the next cycle.
    fn request(&mut self, now: u64, variant: usize, replicas: u32) {
        let each = self.service.variants.get(variant).map(each);
        let change = Resize {
            variant,
            target: Target::of(Allocation::new(replicas, each.unwrap_or_default())),
            ready: self.ready(variant),
            limited: false,
        };
        let _ = self.kubelet.resize(now, &change);
    }

    fn ready(&self, variant: usize) -> Allocation {
        self.kubelet.actual(variant).ready
    }

    /// Returns the plans of the ready replicas that are new to the filters; none while a stage has no replica.
    fn plans(&mut self, at: Duration) -> Vec<(u16, Plan)> {
        let ready: Vec<Allocation> = (0..self.service.variants.len())
            .map(|variant| self.ready(variant))
            .collect();
        let Some(mut drafts) = drafts(&self.service, &ready, None) else {
            return Vec::new();
        };
        for (index, (draft, stage)) in drafts.iter_mut().zip(&self.service.stages).enumerate() {
            let choice = self.choices.as_ref().and_then(|choices| choices.get(index));
            let batch = choice.map_or(1, |choice| choice.batch);
            let variants = self.service.variants.get(stage.variants.clone());
            let ready = ready.get(stage.variants.clone());
            amend(
                draft,
                variants.unwrap_or_default(),
                ready.unwrap_or_default(),
                batch,
            );
        }
        let before: Vec<_> = self.revisions().collect();
        let ms = u64::try_from(at.as_millis()).unwrap_or(u64::MAX);
        let now = Now {
            at,
            unix_ms: EPOCH_MS.saturating_add(ms),
        };
        if self.publishers.publish(drafts, now).is_err() {
            return Vec::new();
        }
        let newest = self.publishers.all().map(|publisher| publisher.newest());
        let plans = (0_u16..).zip(newest).zip(before);
        plans
            .filter_map(|((stage, newest), before)| {
                let newest = newest?;
                (Some(newest.plan.revision) != before).then(|| (stage, newest.plan.clone()))
            })
            .collect()
    }

    fn revisions(&self) -> impl Iterator<Item = Option<Revision>> {
        let newest = self.publishers.all().map(|publisher| publisher.newest());
        newest.map(|newest| newest.map(|newest| newest.plan.revision))
    }
}

/// Cores of a replica, its base allocation: those that it has at first, or the most if it has none then.
fn each(variant: &Variant) -> Cores {
    match variant.initial.each() {
        Cores::ZERO => variant.cores(variant.max),
        initial => initial,
    }
}

/// Puts the batch and equal parts for all ready replicas into a draft.
fn amend(draft: &mut Draft, variants: &[Variant], ready: &[Allocation], batch: u32) {
    draft.downstream_ms = 0.0;
    let all: u32 = ready.iter().map(|one| one.replicas()).sum();
    for ((part, variant), ready) in draft.variants.iter_mut().zip(variants).zip(ready) {
        part.share = Share(f64::from(ready.replicas()) / f64::from(all.max(1)));
        if *ready == Allocation::NONE {
            continue;
        }
        let profile = Profile {
            batch: batch.min(variant.profile.batch),
            ..variant.profile
        };
        part.batch = profile.batch;
        part.slots = profile.slots(ready.each()).saturating_mul(ready.replicas());
        part.service_ms = profile.service_ms(ready.each()).min(HOUR_MS as f64);
    }
}
