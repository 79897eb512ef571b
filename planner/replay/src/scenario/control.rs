//! Control planes of contenders: their names, and the settings of those that have any.

use weir_api::Cores;
use weir_planner::service::Service;

use super::raw::{ControlName, RawContender};
use super::refused::ScenarioError;
use super::{Control, IpaRule};

/// Maximum number of combinations of cores that InfAdapter's program tries in a decision.
const COMBINATIONS_MAX: u64 = 2_000_000;

impl Control {
    /// Control planes of the default contenders.
    pub const STANDARD: [Control; 4] = [
        Control::Planner,
        Control::Static,
        Control::Hpa,
        Control::Vpa,
    ];

    /// Name in scenarios.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Control::Planner => "planner",
            Control::Clairvoyant => "clairvoyant",
            Control::Static | Control::StaticAt { .. } => "static",
            Control::Hpa => "hpa",
            Control::Vpa => "vpa",
            Control::VpaPlus { .. } => "vpa-plus",
            Control::MsPlus => "ms-plus",
            Control::InfadapterCode => "infadapter-code",
            Control::SmPlus => "sm-plus",
            Control::InfaasPaper => "infaas-paper",
            Control::Fa2 { .. } => "fa2",
            Control::SpongePaper { .. } => "sponge-paper",
            Control::SpongeCode { .. } => "sponge-code",
            Control::Ipa { rule, .. } => match rule {
                IpaRule::Paper => "ipa-paper",
                IpaRule::Code => "ipa-code",
                IpaRule::Rim => "rim",
            },
        }
    }

    /// Whether its plans have quotas that it has decided.
    pub(super) fn makes_quotas(self) -> bool {
        matches!(
            self,
            Control::Planner | Control::Clairvoyant | Control::MsPlus | Control::InfadapterCode
        )
    }

    /// Whether it plans the batches of all variants.
    pub(crate) fn plans_batches(self) -> bool {
        matches!(
            self,
            Control::Planner | Control::Clairvoyant | Control::Ipa { .. }
        )
    }

    /// Index of the only variant that has cores; `None` if all may have some.
    #[must_use]
    pub fn variant(self) -> Option<usize> {
        match self {
            Control::StaticAt { variant, .. }
            | Control::VpaPlus { variant }
            | Control::Fa2 { variant }
            | Control::SpongePaper { variant }
            | Control::SpongeCode { variant } => Some(variant),
            _ => None,
        }
    }

    /// Name with its settings, for example `static-8`; the variant is named where there are several.
    pub(super) fn label(self, service: &Service) -> String {
        let several = service.variants.len() > 1;
        let only = self.variant().filter(|_| several);
        let only = only.and_then(|variant| service.variants.get(variant));
        let only = only.map(|variant| format!("-{}", variant.name));
        let cores = match self {
            Control::StaticAt { cores, .. } => format!("-{cores}"),
            Control::Ipa {
                accuracy,
                predictor,
                ..
            } => super::ipa::label(accuracy, predictor),
            _ => String::new(),
        };
        format!("{}{}{cores}", self.name(), only.unwrap_or_default())
    }
}

/// Checks the control plane of the contender at `path`.
pub(super) fn control(
    path: &str,
    raw: &RawContender,
    service: &Service,
) -> Result<Control, ScenarioError> {
    let at = |key: &str| format!("{path}.{key}");
    let given = |right: &str| {
        let variant = raw.variant.as_ref().map(|name| ("variant", name.clone()));
        let cores = raw.cores.map(|cores| ("cores", cores.to_string()));
        match variant.or(cores) {
            Some((key, value)) => Err(ScenarioError::value(at(key), value, right)),
            None => Ok(()),
        }
    };
    let name = raw.control;
    if name != ControlName::Static
        && let Some(cores) = raw.cores
    {
        let right = "left out, unless control is static";
        return Err(ScenarioError::value(at("cores"), cores, right));
    }
    let ipa = |rule| {
        given("left out: this control changes all variants")?;
        super::ipa::control(path, raw, service, rule)
    };
    super::ipa::refuse_keys(path, raw)?;
    Ok(match name {
        ControlName::Planner
        | ControlName::Clairvoyant
        | ControlName::Hpa
        | ControlName::Vpa
        | ControlName::SmPlus
        | ControlName::InfaasPaper => {
            given("left out: this control changes all variants")?;
            match name {
                ControlName::SmPlus => Control::SmPlus,
                ControlName::InfaasPaper => Control::InfaasPaper,
                ControlName::Planner => Control::Planner,
                ControlName::Clairvoyant => Control::Clairvoyant,
                ControlName::Hpa => Control::Hpa,
                _ => Control::Vpa,
            }
        }
        ControlName::MsPlus | ControlName::InfadapterCode => {
            given("left out: this control changes all variants")?;
            let (tried, most) = (combinations(service), COMBINATIONS_MAX);
            if tried > most {
                let value = format!("{tried} combinations of cores");
                let right = format!("at most {most} with this control: it tries them all");
                return Err(ScenarioError::value("service.budget", value, right));
            }
            match name {
                ControlName::MsPlus => Control::MsPlus,
                _ => Control::InfadapterCode,
            }
        }
        ControlName::Static if raw.cores.is_none() && raw.variant.is_none() => Control::Static,
        ControlName::Static => {
            let variant = variant(path, raw, service)?;
            Control::StaticAt {
                variant,
                cores: cores(&at("cores"), raw, service)?,
            }
        }
        ControlName::VpaPlus => Control::VpaPlus {
            variant: variant(path, raw, service)?,
        },
        ControlName::Fa2 => Control::Fa2 {
            variant: variant(path, raw, service)?,
        },
        ControlName::SpongePaper => Control::SpongePaper {
            variant: variant(path, raw, service)?,
        },
        ControlName::SpongeCode => Control::SpongeCode {
            variant: variant(path, raw, service)?,
        },
        ControlName::IpaPaper => ipa(IpaRule::Paper)?,
        ControlName::IpaCode => ipa(IpaRule::Code)?,
        ControlName::Rim => ipa(IpaRule::Rim)?,
    })
}

/// Number of combinations of cores within the budget: (B + n over n) for n variants and B steps.
fn combinations(service: &Service) -> u64 {
    let (budget, variants) = (u64::from(service.budget), service.variants.len() as u64);
    (1..=variants).fold(1_u64, |ways, n| ways.saturating_mul(budget + n) / n)
}

/// The variant that is named, or the only one.
fn variant(path: &str, raw: &RawContender, service: &Service) -> Result<usize, ScenarioError> {
    let names: Vec<&str> = service.variants.iter().map(|v| v.name.as_str()).collect();
    let named = raw.variant.as_deref().unwrap_or("missing");
    match (&raw.variant, names.as_slice()) {
        (None, [_]) => Ok(0),
        _ => {
            let place = names.iter().position(|name| *name == named);
            let right = format!("a variant of the service: {}", names.join(", "));
            place.ok_or_else(|| ScenarioError::value(format!("{path}.variant"), named, right))
        }
    }
}

fn cores(path: &str, raw: &RawContender, service: &Service) -> Result<Cores, ScenarioError> {
    let (step, budget) = (service.step, service.budget_cores());
    let right = format!("{step} to {budget} (service.budget), in steps of {step}");
    let Some(value) = raw.cores else {
        return Err(ScenarioError::value(path, "missing", right));
    };
    let cores = Cores::try_from(value).ok();
    let cores =
        cores.filter(|cores| *cores > Cores::ZERO && *cores <= budget && cores.is_multiple(step));
    cores.ok_or_else(|| ScenarioError::value(path, value, right))
}
