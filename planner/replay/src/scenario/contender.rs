//! Names of the contenders, and the default contenders of a scenario.

use std::fmt;

use super::raw::RawContender;
use super::refused::ScenarioError;
use super::{Contender, Control, Plane};

/// Maximum number of contenders of a scenario, more than exist.
const CONTENDERS_MAX: usize = 64;

impl Plane {
    /// All data planes.
    pub const ALL: [Plane; 8] = [
        Plane::Weir,
        Plane::WeirGlobal,
        Plane::EdfPerWorker,
        Plane::EdfWithoutFeasibility,
        Plane::GatewayReceipt,
        Plane::FifoRoundRobin,
        Plane::FifoWeights,
        Plane::FifoTimeout,
    ];

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
            Plane::FifoTimeout => "fifo-timeout",
        }
    }
}

impl Control {
    /// All control planes.
    pub const ALL: [Control; 5] = [
        Control::Planner,
        Control::Clairvoyant,
        Control::Static,
        Control::HpaLike,
        Control::VpaLike,
    ];

    /// Name in scenarios and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Control::Planner => "planner",
            Control::Clairvoyant => "clairvoyant",
            Control::Static => "static",
            Control::HpaLike => "hpa-like",
            Control::VpaLike => "vpa-like",
        }
    }
}

impl fmt::Display for Contender {
    /// Writes for example `weir+planner`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}+{}", self.plane.name(), self.control.name())
    }
}

/// Default contenders: Weir under every control plane, and every data plane with the initial cores. The
/// former compare the control planes, the latter the data planes.
pub(super) fn standard() -> Vec<Contender> {
    let controls = Control::ALL
        .iter()
        .filter(|one| **one != Control::Clairvoyant);
    let weir = controls.map(|control| Contender {
        plane: Plane::Weir,
        control: *control,
    });
    let others = Plane::ALL.iter().filter(|plane| **plane != Plane::Weir);
    let others = others.map(|plane| Contender {
        plane: *plane,
        control: Control::Static,
    });
    weir.chain(others).collect()
}

pub(super) fn contenders(raw: Option<&[RawContender]>) -> Result<Vec<Contender>, ScenarioError> {
    let Some(raw) = raw else {
        return Ok(standard());
    };
    super::refused::within("contenders", raw.len(), 1..=CONTENDERS_MAX, "of them")?;
    let mut contenders = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let contender = Contender {
            plane: raw.plane,
            control: raw.control,
        };
        if contenders.contains(&contender) {
            let right = "another one: this one stands twice";
            let path = format!("contenders[{index}]");
            return Err(ScenarioError::value(path, contender, right));
        }
        contenders.push(contender);
    }
    Ok(contenders)
}
