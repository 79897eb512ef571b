//! Control planes: they decide cores and shares. Either the real planner on simulated ports (`ports`,
//! `driver`), utilisation-based autoscalers (`autoscaler`), or none. `kubelet` simulates the delay of a
//! change of cores.

mod autoscaler;
mod driver;
mod kubelet;
mod ports;

use std::time::Duration;

use weir_api::Cores;

pub(super) use autoscaler::{Autoscaler, PERIOD as AUTOSCALER_PERIOD, Rule, Usage};
pub(super) use driver::PlannerDriver;
pub(super) use kubelet::{Change, Kubelet};

use super::request::Request;
use super::scenario::{Control, Scenario, Server};
use weir_planner::forecast::KnownLoad;

/// Changes of cores one after the other before a plan is in force: what shrinks, then what grows.
const CHANGES: u32 = 2;

/// Control plane of a contender.
pub(super) enum ControlPlane {
    /// Cores and shares never change.
    Static,
    /// The real planner.
    Planner(Box<PlannerDriver>),
    /// Utilisation-based autoscaler.
    Autoscaler(Box<Autoscaler>),
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
        let autoscaler = |rule, kubelet| {
            ControlPlane::Autoscaler(Box::new(Autoscaler::new(rule, &scenario.service, kubelet)))
        };
        match control {
            Control::Static => ControlPlane::Static,
            Control::Planner | Control::Clairvoyant => {
                let known = (control == Control::Clairvoyant).then(|| known(scenario, requests));
                let service = &scenario.service;
                let driver = PlannerDriver::new(service, kubelet, proxies, known);
                ControlPlane::Planner(Box::new(driver))
            }
            Control::HpaLike => autoscaler(Rule::Hpa, kubelet),
            Control::VpaLike => autoscaler(Rule::Vpa, kubelet),
        }
    }

    /// Period of its cycle; `None` if it has none.
    pub(super) fn period(&self, scenario: &Scenario) -> Option<Duration> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(_) => Some(scenario.service.scrape_interval),
            ControlPlane::Autoscaler(_) => Some(AUTOSCALER_PERIOD),
        }
    }

    /// Runs `act` on its simulated kubelet, if it has one.
    pub(super) fn with_kubelet<R>(&mut self, act: impl FnOnce(&mut Kubelet) -> R) -> Option<R> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(driver) => Some(act(&mut driver.ports.state().kubelet)),
            ControlPlane::Autoscaler(autoscaler) => Some(act(&mut autoscaler.kubelet)),
        }
    }
}

/// Load of a planner that knows the future: what arrives in each second, as far ahead as the slowest change takes.
fn known(scenario: &Scenario, requests: &[Request]) -> KnownLoad {
    let mut rates = vec![0.0; scenario.length.as_secs() as usize + 1];
    for request in requests {
        if let Some(rate) = rates.get_mut(request.arrives.as_secs() as usize) {
            *rate += 1.0;
        }
    }
    let change = |server: &Server| server.readiness + server.resize_delay * CHANGES;
    let slowest = scenario.variants.iter().map(change).max();
    let horizon = slowest.unwrap_or_default() + scenario.service.cycle;
    KnownLoad::new(rates, horizon, scenario.service.demand.moving)
}
