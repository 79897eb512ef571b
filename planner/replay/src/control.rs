//! Control planes: they decide cores and shares. Either the real planner on simulated ports (`ports`,
//! `driver`), `baselines` after papers and products, or none. `kubelet` simulates the delay of a change of cores,
//! `resize_faults` what can go wrong with it, and `replicas` the starts and ends of replicas. `unplanned` makes the plans
//! of controls that do not plan.

mod baselines;
mod driver;
mod ipa;
mod kubelet;
mod ports;
mod replicas;
mod resize_faults;
mod unplanned;

use std::time::Duration;

use weir_api::Cores;

use baselines::Rule;
use baselines::infaas::{Heuristic, Removals};
use baselines::infadapter::Decisions;
use baselines::per_second::PerSecond;
use baselines::vpa_plus::VpaPlus;
pub(super) use baselines::{BaselineDriver, Observation, Usage};
pub(super) use driver::PlannerDriver;
use ipa::IpaDriver;
pub(super) use kubelet::{Change, Kubelet};
pub(super) use replicas::ReplicaDue;
pub(super) use unplanned::drafts as unplanned_drafts;

use super::request::Request;
use super::scenario::{Control, Scenario, Server};
use weir_planner::forecast::KnownLoad;

/// Changes of cores one after the other before a plan is in force: what shrinks, then what grows.
const CHANGES: u32 = 2;

/// Cores of each variant at the start: the service's, but for a control that has one variant only. That one has at
/// least one step.
pub(super) fn initial_cores(control: Control, scenario: &Scenario) -> Vec<Cores> {
    let each = scenario.variants.iter().enumerate();
    let cores = each.map(|(index, server)| {
        let initial = Cores::try_from(server.cores).unwrap_or_default();
        match (control, control.variant()) {
            (_, Some(only)) if only != index => Cores::ZERO,
            (Control::StaticAt { cores, .. }, _) => cores,
            (_, Some(_)) => initial.max(scenario.service.step),
            (_, None) => initial,
        }
    });
    cores.collect()
}

/// Control plane of a contender.
pub(super) enum ControlPlane {
    /// Cores and shares never change.
    Static,
    /// The real planner.
    Planner(Box<PlannerDriver>),
    /// Baseline after a paper or product.
    Baseline(Box<BaselineDriver>),
    /// IPA, or a baseline of its paper.
    Ipa(Box<IpaDriver>),
}

impl ControlPlane {
    pub(super) fn new(
        control: Control,
        scenario: &Scenario,
        requests: &[Request],
        cores: &[Cores],
        proxies: usize,
    ) -> ControlPlane {
        let kubelet = Kubelet::new(&scenario.variants, cores);
        let service = &scenario.service;
        let rule = match control {
            Control::Static | Control::StaticAt { .. } => return ControlPlane::Static,
            Control::Planner | Control::Clairvoyant => {
                let known = (control == Control::Clairvoyant).then(|| known(scenario, requests));
                let driver = PlannerDriver::new(service, kubelet, proxies, known);
                return ControlPlane::Planner(Box::new(driver));
            }
            Control::Ipa {
                rule,
                accuracy,
                predictor,
            } => {
                let arrivals = per_second(scenario, requests);
                let predictor = (predictor, arrivals);
                let driver = IpaDriver::new((rule, accuracy), predictor, service, kubelet);
                return ControlPlane::Ipa(Box::new(driver));
            }
            Control::Hpa => Rule::hpa(cores.len()),
            Control::Vpa => Rule::vpa(cores.len()),
            Control::VpaPlus { variant } => Rule::VpaPlus(variant, VpaPlus::default()),
            Control::MsPlus => Rule::MsPlus(Decisions::default()),
            Control::InfadapterCode => Rule::Infadapter(Decisions::default()),
            Control::SmPlus => Rule::SmPlus(Removals::default(), PerSecond::default()),
            Control::InfaasPaper => Rule::Infaas(Heuristic::default(), PerSecond::default()),
            Control::Fa2 { variant } => Rule::Fa2(variant, PerSecond::default()),
            Control::SpongePaper { variant } => Rule::SpongePaper(variant, PerSecond::default()),
            Control::SpongeCode { variant } => Rule::SpongeCode(variant, PerSecond::default()),
        };
        ControlPlane::Baseline(Box::new(BaselineDriver::new(rule, service, kubelet)))
    }

    /// Period of its cycle; `None` if it has none.
    pub(super) fn period(&self, scenario: &Scenario) -> Option<Duration> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(_) => Some(scenario.service.scrape_interval),
            ControlPlane::Baseline(driver) => Some(driver.period()),
            ControlPlane::Ipa(driver) => Some(driver.period()),
        }
    }

    /// Runs `act` on its simulated kubelet, if it has one.
    pub(super) fn with_kubelet<R>(&mut self, act: impl FnOnce(&mut Kubelet) -> R) -> Option<R> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(driver) => Some(act(&mut driver.ports.state().kubelet)),
            ControlPlane::Baseline(driver) => Some(act(&mut driver.kubelet)),
            ControlPlane::Ipa(driver) => Some(act(&mut driver.kubelet)),
        }
    }
}

/// Load of a planner that knows the future: what arrives in each second, as far ahead as the slowest change takes. It
/// counts what arrives within the objective, for which requests may wait, instead of means over a longer time.
fn known(scenario: &Scenario, requests: &[Request]) -> KnownLoad {
    let rates = per_second(scenario, requests);
    let change = |server: &Server| server.readiness + server.resize_delay * CHANGES;
    let slowest = scenario.variants.iter().map(change).max();
    let horizon = slowest.unwrap_or_default() + scenario.service.cycle;
    let counted = scenario.service.slo.min(scenario.service.demand.moving);
    KnownLoad::new(rates, horizon, counted)
}

/// Requests that arrive in each second.
fn per_second(scenario: &Scenario, requests: &[Request]) -> Vec<f64> {
    let mut rates = vec![0.0; scenario.length.as_secs() as usize + 1];
    for request in requests {
        if let Some(rate) = rates.get_mut(request.arrives.as_secs() as usize) {
            *rate += 1.0;
        }
    }
    rates
}
