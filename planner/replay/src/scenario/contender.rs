//! Names of the contenders, and the default contenders of a scenario.

use weir_api::plan::SLOTS_MAX;
use weir_planner::service::Service;

use super::raw::RawContender;
use super::refused::ScenarioError;
use super::{Contender, Control, Plane, control};

/// Maximum number of contenders of a scenario.
const CONTENDERS_MAX: usize = 64;

impl Plane {
    /// All data planes.
    pub const ALL: [Plane; 9] = [
        Plane::Weir,
        Plane::WeirGlobal,
        Plane::EdfPerWorker,
        Plane::EdfWithoutFeasibility,
        Plane::GatewayReceipt,
        Plane::FifoRoundRobin,
        Plane::FifoWeights,
        Plane::FifoQuotas,
        Plane::FifoTimeout,
    ];

    /// Whether its weights and limits stay those of the cores at the start.
    fn has_fixed_weights(self) -> bool {
        matches!(self, Plane::FifoWeights | Plane::FifoTimeout)
    }

    /// Name in scenarios and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Plane::Weir => "weir",
            Plane::WeirGlobal => "weir-global",
            Plane::EdfPerWorker => "edf-per-worker",
            Plane::EdfWithoutFeasibility => "edf-without-feasibility",
            Plane::GatewayReceipt => "gateway-receipt",
            Plane::FifoRoundRobin => "fifo-round-robin",
            Plane::FifoWeights => "fifo-weights",
            Plane::FifoQuotas => "fifo-quotas",
            Plane::FifoTimeout => "fifo-timeout",
        }
    }
}

impl Contender {
    /// Name in reports and on the command line, for example `weir+planner` or `fifo-weights+vpa-plus-resnet18`.
    #[must_use]
    pub fn label(self, service: &Service) -> String {
        let control = self.control.label(service);
        let plane = self.plane.name();
        match self.breaker {
            Some(breaker) => format!("{plane}-{breaker}+{control}"),
            None => format!("{plane}+{control}"),
        }
    }

    /// Checks that a plane with fixed weights has a control whose plans have no quotas; `path` is that of the contender.
    pub(super) fn check_weights(self, path: &str) -> Result<(), ScenarioError> {
        if !self.plane.has_fixed_weights() || !self.control.makes_quotas() {
            return Ok(());
        }
        let (plane, control) = (self.plane.name(), self.control.name());
        let right = format!(
            "any plane but fifo-weights and fifo-timeout under control {control}, whose plans have quotas: {plane} \
             keeps the weights and limits of the cores at the start"
        );
        Err(ScenarioError::value(format!("{path}.plane"), plane, right))
    }
}

impl Contender {
    /// Checks that only a plane with a circuit breaker of its own is given one.
    fn check_breaker(self, path: &str) -> Result<(), ScenarioError> {
        let path = format!("{path}.breaker");
        match self.breaker {
            Some(breaker) if self.plane != Plane::FifoTimeout => {
                let right = "left out: fifo-timeout alone has a circuit breaker to set";
                Err(ScenarioError::value(path, breaker, right))
            }
            Some(breaker) => {
                super::refused::within(path, breaker, 1..=SLOTS_MAX, "requests").map(|_| ())
            }
            None => Ok(()),
        }
    }
}

/// Default contenders: Weir under every control plane without settings that is not a published program, and every
/// data plane with the initial cores, where those are no plan's quotas. The former compare the control planes, the
/// latter the data planes.
pub(super) fn standard() -> Vec<Contender> {
    let weir = Control::STANDARD.map(|control| Contender {
        plane: Plane::Weir,
        control,
        breaker: None,
    });
    let others = Plane::ALL.iter();
    let others = others.filter(|plane| !matches!(plane, Plane::Weir | Plane::FifoQuotas));
    let others = others.map(|plane| Contender {
        plane: *plane,
        control: Control::Static,
        breaker: None,
    });
    weir.into_iter().chain(others).collect()
}

pub(super) fn contenders(
    raw: Option<&[RawContender]>,
    service: &Service,
) -> Result<Vec<Contender>, ScenarioError> {
    let Some(raw) = raw else {
        return Ok(standard());
    };
    super::refused::within("contenders", raw.len(), 1..=CONTENDERS_MAX, "of them")?;
    let mut contenders = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("contenders[{index}]");
        let contender = Contender {
            plane: raw.plane,
            control: control::control(&path, raw, service)?,
            breaker: raw.breaker,
        };
        contender.check_weights(&path)?;
        contender.check_breaker(&path)?;
        if contenders.contains(&contender) {
            let right = "another one: this one stands twice";
            let label = contender.label(service);
            return Err(ScenarioError::value(path, label, right));
        }
        contenders.push(contender);
    }
    Ok(contenders)
}
