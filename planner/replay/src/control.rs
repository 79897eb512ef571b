//! Control planes: they decide cores and shares. Either the real planner on simulated ports (`ports`,
//! `driver`), utilisation-based autoscalers (`autoscaler`), or none. `kubelet` simulates the delay of a
//! change of cores, and `replicas` the starts and ends of replicas.

mod autoscaler;
mod driver;
mod kubelet;
mod ports;
mod replicas;

use std::time::Duration;

use weir_api::Cores;

pub(super) use autoscaler::{Autoscaler, PERIOD as AUTOSCALER_PERIOD, Rule, Usage};
pub(super) use driver::PlannerDriver;
pub(super) use kubelet::{Change, Kubelet};
pub(super) use replicas::ReplicaDue;

use super::scenario::{Control, Scenario};

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
        cores: &[Cores],
        proxies: usize,
    ) -> ControlPlane {
        let kubelet = Kubelet::new(&scenario.variants, cores);
        let autoscaler = |rule, kubelet| {
            ControlPlane::Autoscaler(Box::new(Autoscaler::new(rule, &scenario.service, kubelet)))
        };
        match control {
            Control::Static => ControlPlane::Static,
            Control::Planner => ControlPlane::Planner(Box::new(PlannerDriver::new(
                &scenario.service,
                kubelet,
                proxies,
            ))),
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
