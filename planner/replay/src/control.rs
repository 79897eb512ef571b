//! Control planes: who decides about cores and shares. The real planner on simulated ports
//! (`desk`, `steering`), autoscalers by utilisation (`scaler`), or nobody. Cores change in their own
//! time (`kubelet`).

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

/// A control plane.
pub(super) enum ControlPlane {
    /// Nobody.
    Static,
    /// The planner.
    Planner(Box<Steering>),
    /// An autoscaler.
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

    /// How often it takes a turn, if it does.
    pub(super) fn period(&self, scenario: &Scenario) -> Option<Duration> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(_) => Some(scenario.service.scrape_interval),
            ControlPlane::Scaler(_) => Some(SCALER_PERIOD),
        }
    }

    /// Has its backends do something, if it has any.
    pub(super) fn with_kubelet<R>(&mut self, act: impl FnOnce(&mut Kubelet) -> R) -> Option<R> {
        match self {
            ControlPlane::Static => None,
            ControlPlane::Planner(steering) => Some(act(&mut steering.desk.board().kubelet)),
            ControlPlane::Scaler(scaler) => Some(act(&mut scaler.kubelet)),
        }
    }
}
