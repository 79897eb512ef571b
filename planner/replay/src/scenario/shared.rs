//! Scenario of several services that share a budget: each is a scenario of its own, without the keys that all have in
//! common.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use weir_api::Cores;
use weir_planner::division::{Member, SERVICES_MAX};
use weir_planner::policy::{min_steps, whole_steps};
use weir_planner::service::BUDGET_MAX;
use weir_planner::spec::from_yaml;
use weir_sim::load::SECONDS_MAX;

use super::raw::{RawScenario, RawShared, RawSharedContender, RawSharing, SharedControlName};
use super::read::{NAME_MAX, checked};
use super::refused::{ScenarioError, within};
use super::{Contender, Control, Overrides, Plane, Scenario};
use crate::input::Sending;

/// Maximum weight of a service: more than a thousandfold is a typing error.
const WEIGHT_MAX: f64 = 1000.0;
/// Maximum number of contenders of a scenario with several services.
const CONTENDERS_MAX: usize = 16;
/// Keys that all services have in common.
const COMMON: [&str; 4] = ["name", "seed", "length_s", "contenders"];

/// Checked scenario of several services that share a budget.
#[derive(Debug, Clone)]
pub struct SharedScenario {
    /// Name in the report.
    pub name: String,
    /// Seed of the first service; each further one has the next number.
    pub seed: u64,
    /// Duration of the load of all services.
    pub length: Duration,
    /// Budget of all services together, in steps.
    pub budget: u32,
    /// Step of cores of all services.
    pub step: Cores,
    /// Services, in the file's order.
    pub services: Vec<SharingService>,
    /// Contenders to play.
    pub contenders: Vec<SharedContender>,
}

/// Service with its weight.
#[derive(Debug, Clone)]
pub struct SharingService {
    /// Name in the report.
    pub name: String,
    /// Weight in the division.
    pub weight: f64,
    /// Service, servers, proxies and faults. The budget of its service is the maximum of its part.
    pub scenario: Scenario,
}

/// Contender with a rule of division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SharedContender {
    /// Planes of each service.
    pub contender: Contender,
    /// Division of the budget.
    pub division: DivisionRule,
}

/// Division of a budget among services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DivisionRule {
    /// Parts that follow the demands for cores.
    Shared,
    /// Constant parts, in proportion to the weights.
    Fixed,
}

impl DivisionRule {
    /// Name in scenarios and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            DivisionRule::Shared => "shared",
            DivisionRule::Fixed => "fixed",
        }
    }
}

impl SharedContender {
    /// Whether it takes and gives parts while it plays, as the planner does. Any other control keeps within its fixed
    /// part.
    pub(crate) fn takes_parts(self) -> bool {
        matches!(
            self.contender.control,
            Control::Planner | Control::Clairvoyant
        )
    }

    /// Name in reports and on the command line, for example `weir+planner-shared`.
    #[must_use]
    pub fn label(self) -> String {
        let Contender { plane, control, .. } = self.contender;
        let (plane, control) = (plane.name(), control.name());
        format!("{plane}+{control}-{}", self.division.name())
    }
}

impl SharingService {
    /// Weight and limits in the division.
    #[must_use]
    pub fn member(&self) -> Member {
        Member {
            weight: self.weight,
            min: min_steps(&self.scenario.service),
            max: self.scenario.service.budget,
        }
    }

    /// Cores at the start, in steps.
    pub(crate) fn initial(&self) -> u32 {
        let each = self.scenario.variants.iter();
        let cores = each.map(|server| {
            let cores = Cores::try_from(server.cores).unwrap_or_default();
            cores.times(server.count())
        });
        whole_steps(cores.sum(), self.scenario.service.step)
    }
}

/// Reads and checks the text of a scenario with several services.
pub(super) fn check(
    text: &str,
    folder: &Path,
    overrides: Overrides,
) -> Result<(SharedScenario, Vec<Sending>), ScenarioError> {
    let raw: RawShared =
        from_yaml(text, "scenario").map_err(|error| ScenarioError::config("", &error))?;
    let seed = overrides.seed.unwrap_or(raw.seed);
    within("name", raw.name.chars().count(), 1..=NAME_MAX, "characters")?;
    within("length_s", raw.length_s, 1..=SECONDS_MAX as u64, "s")?;
    within("services", raw.services.len(), 1..=SERVICES_MAX, "of them")?;
    check_names(&raw.services)?;
    let contenders = contenders(raw.contenders.as_deref())?;
    let (mut services, mut sendings) = (Vec::new(), Vec::new());
    for (index, service) in (0_u64..).zip(&raw.services) {
        let prefix = format!("services[{index}].scenario");
        let overrides = Overrides {
            seed: Some(seed.wrapping_add(index)),
            ..overrides
        };
        let own = nested(&prefix, service, &raw, &contenders)?;
        let read = checked(own, folder, overrides, Some(raw.budget.cores));
        let (scenario, sending) = read.map_err(|wrong| match wrong {
            // The budget of all, which the service has for its own.
            ScenarioError::InScenario { path, .. }
                if path == "service.budget.cores" && !has_budget(service) =>
            {
                wrong_budget(raw.budget.cores)
            }
            wrong => wrong.below(&prefix),
        })?;
        sendings.push(sending);
        services.push(SharingService {
            name: service.name.clone(),
            weight: service.weight,
            scenario,
        });
    }
    let (budget, step) = budget(raw.budget.cores, &services)?;
    let scenario = SharedScenario {
        name: raw.name,
        seed,
        length: Duration::from_secs(raw.length_s),
        budget,
        step,
        services,
        contenders,
    };
    Ok((scenario, sendings))
}

fn check_names(services: &[RawSharing]) -> Result<(), ScenarioError> {
    for (index, service) in services.iter().enumerate() {
        let path = format!("services[{index}].name");
        let characters = service.name.chars().count();
        within(&path, characters, 1..=NAME_MAX, "characters")?;
        let before = services.iter().take(index);
        if before.clone().any(|other| other.name == service.name) {
            let right = "another name: a service before has this one";
            return Err(ScenarioError::value(path, &service.name, right));
        }
        let path = format!("services[{index}].weight");
        if !(service.weight > 0.0 && service.weight <= WEIGHT_MAX) {
            let right = format!("more than 0, at most {WEIGHT_MAX}");
            return Err(ScenarioError::value(path, service.weight, right));
        }
    }
    Ok(())
}

/// Whether a service may have a budget of its own.
fn has_budget(service: &RawSharing) -> bool {
    let written = service.scenario.get("service");
    let own = written.and_then(|service| service.get("budget")?.get("cores"));
    own.is_some() || written.is_some_and(serde_json::Value::is_string)
}

fn wrong_budget(cores: f64) -> ScenarioError {
    let right = format!("1 to {BUDGET_MAX} steps, whole ones (budget.step of the services)");
    ScenarioError::value("budget.cores", cores, right)
}

/// Scenario of one service, with the keys that all have in common.
fn nested(
    prefix: &str,
    service: &RawSharing,
    shared: &RawShared,
    contenders: &[SharedContender],
) -> Result<RawScenario, ScenarioError> {
    let mut own = service.scenario.clone();
    for key in COMMON {
        if let Some(value) = own.get(key) {
            let right = format!("left out: {key} is that of all services");
            let right = match key {
                "name" => "left out: the name is that of the service".to_owned(),
                _ => right,
            };
            return Err(ScenarioError::value(
                format!("{prefix}.{key}"),
                value,
                right,
            ));
        }
    }
    own.insert("name".to_owned(), json!(service.name));
    own.insert("length_s".to_owned(), json!(shared.length_s));
    let mut planes: Vec<Contender> = Vec::new();
    for one in contenders {
        if !planes.contains(&one.contender) {
            planes.push(one.contender);
        }
    }
    let planes = planes.iter().map(|one| {
        let (plane, control) = (one.plane.name(), one.control.name());
        json!({"plane": plane, "control": control})
    });
    own.insert("contenders".to_owned(), planes.collect());
    // JSON is YAML.
    let text = serde_json::Value::Object(own).to_string();
    from_yaml(&text, "(top level)").map_err(|error| ScenarioError::config(prefix, &error))
}

fn contenders(raw: Option<&[RawSharedContender]>) -> Result<Vec<SharedContender>, ScenarioError> {
    let Some(raw) = raw else {
        let each = [DivisionRule::Shared, DivisionRule::Fixed].into_iter();
        let contender = Contender {
            plane: Plane::Weir,
            control: Control::Planner,
            breaker: None,
        };
        return Ok(each
            .map(|division| SharedContender {
                contender,
                division,
            })
            .collect());
    };
    within("contenders", raw.len(), 1..=CONTENDERS_MAX, "of them")?;
    let mut contenders = Vec::new();
    for (index, raw) in raw.iter().enumerate() {
        let path = format!("contenders[{index}]");
        let control = match raw.control {
            SharedControlName::Planner => Control::Planner,
            SharedControlName::Clairvoyant => Control::Clairvoyant,
            SharedControlName::Static => Control::Static,
            SharedControlName::Hpa => Control::Hpa,
            SharedControlName::SmPlus => Control::SmPlus,
            SharedControlName::InfaasPaper => Control::InfaasPaper,
        };
        let plane = raw.plane;
        let mut contender = SharedContender {
            contender: Contender {
                plane,
                control,
                breaker: None,
            },
            division: DivisionRule::Shared,
        };
        if !contender.takes_parts() {
            contender.division = DivisionRule::Fixed;
        }
        if let Some(division) = raw.division {
            if division == DivisionRule::Shared && !contender.takes_parts() {
                let control = control.name();
                let right = format!("fixed: control {control} keeps within one part");
                let path = format!("{path}.division");
                return Err(ScenarioError::value(path, division.name(), right));
            }
            contender.division = division;
        }
        contender.contender.check_weights(&path)?;
        if contenders.contains(&contender) {
            let right = "another one: this one stands twice";
            return Err(ScenarioError::value(path, contender.label(), right));
        }
        contenders.push(contender);
    }
    Ok(contenders)
}

/// Returns the budget in steps, and the step.
fn budget(cores: f64, services: &[SharingService]) -> Result<(u32, Cores), ScenarioError> {
    let steps = services.iter().map(|one| one.scenario.service.step);
    let step = steps.clone().next().unwrap_or(Cores::whole(1));
    if let Some(index) = steps.clone().position(|other| other != step) {
        let path = format!("services[{index}].scenario.service.budget.step");
        let other = steps.clone().nth(index).unwrap_or_default();
        let right = format!("{step}, as of the first service");
        return Err(ScenarioError::value(path, other, right));
    }
    let total = Cores::try_from(cores).ok();
    let total = total.filter(|total| *total > Cores::ZERO && total.is_multiple(step));
    let budget = total.map(|total| total.count(step));
    let budget = budget.filter(|budget| *budget <= BUDGET_MAX);
    let budget = budget.ok_or_else(|| wrong_budget(cores))?;
    for (index, service) in services.iter().enumerate() {
        let (own, path) = (&service.scenario.service, "scenario.service.budget.cores");
        if own.budget > budget {
            let path = format!("services[{index}].{path}");
            let right = format!("at most budget.cores ({cores})");
            return Err(ScenarioError::value(path, own.budget_cores(), right));
        }
    }
    let least = |of: &dyn Fn(&SharingService) -> u32| services.iter().map(of).sum::<u32>();
    let floors = least(&|one| one.member().min);
    if floors > budget {
        let right = format!(
            "at least {}, the least cores of all services",
            step.times(floors)
        );
        return Err(ScenarioError::value("budget.cores", cores, right));
    }
    let initial = least(&|one| one.member().min.max(one.initial()));
    if initial > budget {
        let initial = step.times(initial);
        let right =
            format!("at least {initial}, what all services have at the start (cores.initial)");
        return Err(ScenarioError::value("budget.cores", cores, right));
    }
    Ok((budget, step))
}
