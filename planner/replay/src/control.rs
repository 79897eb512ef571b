//! Control planes: they decide cores and shares. Either the real planner on simulated ports (`desk`,
//! `steering`), utilisation-based autoscalers (`scaler`), or none. `kubelet` simulates the delay of a
//! change of cores.

mod desk;
mod kubelet;
mod scaler;
mod steering;

use std::time::Duration;

use weir_api::Cores;

pub(super) use kubelet::{Change, Kubelet};
pub(super) use scaler::{PERIOD as SCALER_PERIOD, Rule, Scaler, Use};
pub(super) use steering::Steering;

use super::scenario::{Control, Scenario};

/// Control plane of a contender.
pub(super) enum ControlPlane {
    /// Cores and shares never change.
    Static,
    /// The real planner.
    Planner(Box<Steering>),
    /// Utilisation-based autoscaler.
    Scaler(Box<Scaler>),
}

impl ControlPlane {
    pub(super) fn new(
        control: Control,
        scenario: &Scenario,
        cores: &[Cores],
        proxies: usize,
    ) -> ControlPlane {
        let kubelet = Kubelet::new(&scenario.variants, cores);
        let scaler = |rule, kubelet| {
            ControlPlane::Scaler(Box::new(Scaler::new(rule, &scenario.service, kubelet)))
        };
        match control {
            Control::Static => ControlPlane::Static,
            Control::Planner => {
                ControlPlane::Planner(Box::new(Steering::new(&scenario.service, kubelet, proxies)))
            }
            Control::HpaLike => scaler(Rule::Hpa, kubelet),
            Control::VpaLike => scaler(Rule::Vpa, kubelet),
        }
    }

    /// Period of its cycle; `None` if it has none.
    pub(super) fn period(&self, scenario: &Scenario) -> Option<Duration> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(_) => Some(scenario.service.scrape_interval),
            ControlPlane::Scaler(_) => Some(SCALER_PERIOD),
        }
    }

    /// Runs `act` on its simulated kubelet, if it has one.
    pub(super) fn with_kubelet<R>(&mut self, act: impl FnOnce(&mut Kubelet) -> R) -> Option<R> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(steering) => Some(act(&mut steering.desk.board().kubelet)),
            ControlPlane::Scaler(scaler) => Some(act(&mut scaler.kubelet)),
        }
    }
}
