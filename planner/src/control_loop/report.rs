//! Report of a cycle: its decision in the log, and the state of each variant.

use std::collections::BTreeMap;

use weir_api::{Rps, VariantPlan};

use super::{Planner, no_capacity};
use crate::capacity::{Actual, Allocation, ResourceLimit, Target};
use crate::observe::RoutedShare;
use crate::plan::capacities;
use crate::rollout::shortage;
use crate::service::{Decision, Inputs, Mode, SolveStatus, Stage};
use crate::spec::RawDuration;
use crate::telemetry::status::{ForecastReport, ResourceReport, VariantReport};

impl Planner {
    /// Logs a decision if it has changed.
    pub(super) fn log_decision(&mut self, decision: &Decision) {
        let new = (decision.status, decision.targets.clone());
        if self.last.as_ref() == Some(&new) {
            return;
        }
        let cores = |allocations: &[Allocation]| -> String {
            let named = self.service.variants.iter().zip(allocations);
            named
                .map(|(variant, allocation)| format!(" {} {allocation}", variant.name))
                .collect()
        };
        let desired = decision.targets.iter();
        let desired: Vec<Allocation> = desired
            .map(|target| Allocation::new(target.replicas, target.each))
            .collect();
        let verb = if self.service.mode == Mode::Advisory {
            "would have"
        } else {
            "to have"
        };
        let (desired, actual) = (cores(&desired), cores(&self.rollout.ready()));
        let (status, why) = (decision.status.label(), &decision.why);
        tracing::info!("{status}: {why}; cores {verb}:{desired}, actual:{actual}");
        self.last = Some(new);
    }

    /// Forecast of this cycle.
    pub(super) fn forecast_report(&self, inputs: Inputs) -> ForecastReport {
        let forecast = inputs.forecast;
        ForecastReport {
            demand_rps: forecast.demand,
            present_rps: forecast.present,
            arriving_rps: forecast.arriving,
            rises: forecast.rises,
            window_full: forecast.window_full,
            ahead: self.observations.demand.ahead(),
        }
    }

    /// Reasons for capacities lower than what servers execute.
    pub(super) fn capacity_notes(&self, status: SolveStatus, inputs: Option<Inputs>) -> String {
        let service = &self.service;
        no_capacity::utilisation(service, status)
            + &no_capacity::over_latency_budget(service, &self.rollout.actual, inputs)
            + &no_capacity::measured_beyond_budget(service, &self.rollout.actual, inputs)
    }

    /// Names the variants that got less than their quota. The plan's shares are not wrong then, but the solver's
    /// prediction is.
    pub(super) fn shortfalls(&self, routed: Option<&[RoutedShare]>) -> String {
        let each = self
            .service
            .variants
            .iter()
            .zip(routed.into_iter().flatten());
        each.filter_map(|(variant, routed)| routed.shortfall(&variant.name))
            .map(|shortfall| format!("; {shortfall}"))
            .collect()
    }

    /// Names the failing variants, and for how long they have failed.
    pub(super) fn failures(&self) -> String {
        let since = self.observations.failing_since();
        let each = self.service.variants.iter().zip(since);
        let failing = each.zip(self.out_of_service());
        let failing = failing.filter_map(|((variant, since), out)| {
            let lasts_s = self.now.saturating_sub((*since)?).as_secs();
            let name = &variant.name;
            let cores = if out {
                ", and only the cores to try it"
            } else {
                ""
            };
            Some(format!(
                "; {name} has been failing for {lasts_s} s: it gets no share{cores}"
            ))
        });
        failing.collect()
    }

    /// Part of the demand that is carried while more capacity is starting.
    pub(super) fn shortage(&self, inputs: Option<Inputs>) -> String {
        let comes = |actual: &Actual| {
            actual.starting != Allocation::NONE || actual.reserved > actual.ready.cores()
        };
        let each = self.service.variants.iter().zip(&self.rollout.actual);
        let come = each.filter(|(_, actual)| comes(actual));
        let come: Vec<&str> = come.map(|(variant, _)| variant.name.as_str()).collect();
        shortage(self.carried(&self.rollout.ready(), inputs), &come)
    }

    /// Names the variants whose readiness time differs from the service file's.
    pub(super) fn readiness_notes(&self) -> String {
        let each = self.service.variants.iter().enumerate();
        let notes = each.filter_map(|(index, variant)| {
            let configured = variant.readiness;
            let took = self
                .measured
                .readiness
                .learnt(index, configured, self.service.cycle)?;
            let (name, took, configured) =
                (&variant.name, took.as_secs_f64(), RawDuration(configured));
            Some(format!(
                "; {name} took {took:.0} s to be ready, readiness says {configured}"
            ))
        });
        notes.collect()
    }

    /// Resources of all reserved replicas.
    pub(super) fn resources(&self) -> BTreeMap<String, ResourceReport> {
        let each = self.rollout.actual.iter().map(|one| one.replicas_reserved);
        let replicas: Vec<u32> = each.collect();
        let limits = self.service.limits.0.iter();
        let report = |limit: &ResourceLimit| {
            let report = ResourceReport {
                used: limit.used(&replicas),
                budget: limit.most,
            };
            (limit.name.clone(), report)
        };
        limits.map(report).collect()
    }

    /// Mean accuracy of the requests as routed, not as planned. Over several stages it is the product of their means.
    pub(super) fn accuracy(&self, routed: &[RoutedShare]) -> f64 {
        let of_stage = |stage: &Stage| -> f64 {
            let variants = self.service.variants.get(stage.variants.clone());
            let routed = routed.get(stage.variants.clone());
            let each = variants
                .into_iter()
                .flatten()
                .zip(routed.into_iter().flatten());
            each.map(|(variant, routed)| variant.accuracy / 100.0 * routed.share.0)
                .sum()
        };
        100.0 * self.service.stages.iter().map(of_stage).product::<f64>()
    }

    pub(super) fn variants(
        &self,
        requested: &[Target],
        plan: &[VariantPlan],
        routed: Option<&[RoutedShare]>,
        inputs: Option<Inputs>,
    ) -> BTreeMap<String, VariantReport> {
        let capacities = capacities(
            &self.service,
            &self.rollout.ready(),
            inputs,
            self.rollout.batches.confirmed(),
        );
        let lists = self
            .service
            .variants
            .iter()
            .zip(requested.iter().zip(&self.rollout.actual))
            .zip(capacities);
        let reports = lists.enumerate().map(|(index, lists)| {
            let ((variant, (requested, actual)), capacity) = lists;
            let part = plan.iter().find(|part| part.name == variant.name);
            let confirmed = self
                .rollout
                .batches
                .confirmed()
                .get(index)
                .copied()
                .flatten();
            let report = VariantReport {
                cores_target: requested.cores(actual.ready),
                cores_actual: actual.ready.cores(),
                replicas_target: requested.replicas,
                replicas_ready: actual.ready.replicas(),
                share: part.map(|part| part.share).unwrap_or_default(),
                slots: part.map_or(0, |part| part.slots),
                batch: confirmed.unwrap_or_else(|| part.map_or(0, |part| part.batch)),
                capacity_rps: Rps(match variant.profile.is_unknown() {
                    true => 0.0,
                    false => capacity,
                }),
                routed: routed.and_then(|routed| routed.get(index)).copied(),
                service_time: self.service_time(index),
                blocker: self.rollout.blockers.get(index).cloned().flatten(),
                failing_ms: self
                    .observations
                    .failing_since()
                    .get(index)
                    .copied()
                    .flatten()
                    .map(|since| {
                        let lasts = self.now.saturating_sub(since).as_millis();
                        u64::try_from(lasts).unwrap_or(u64::MAX)
                    }),
            };
            (variant.name.clone(), report)
        });
        reports.collect()
    }
}
