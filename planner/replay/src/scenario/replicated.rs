//! Contenders of a service with replicas or stages: the controls that change the number of replicas play, those that
//! change the cores of single servers do not.

use weir_api::Cores;
use weir_planner::service::{Replicas, Service, Variant};

use super::refused::ScenarioError;
use super::{Contender, Control};

/// Returns the contenders that can play the service; refuses one that cannot, if it is `given`.
pub(super) fn contenders(
    service: &Service,
    mut contenders: Vec<Contender>,
    given: bool,
) -> Result<Vec<Contender>, ScenarioError> {
    let refused = |contender: &Contender| refused(service, contender.control);
    for (index, contender) in contenders.iter().enumerate().filter(|_| given) {
        if let Some(right) = refused(contender) {
            let path = format!("contenders[{index}].control");
            return Err(ScenarioError::value(path, contender.control.name(), right));
        }
    }
    contenders.retain(|contender| refused(contender).is_none());
    Ok(contenders)
}

/// Returns the right value instead of a control that cannot play the service.
fn refused(service: &Service, control: Control) -> Option<String> {
    use Control::{Clairvoyant, Fa2, Hpa, InfaasPaper, Ipa, Planner, SmPlus, Static};
    let mut replicated = service.variants.iter();
    let replicated = replicated.find(|variant| variant.replicas != Replicas::ONE);
    let stages = service.stages.len();
    let why = match replicated {
        _ if stages > 1 => "the service has stages".to_owned(),
        Some(variant) => format!("variant {} has replicas", variant.name),
        None => return None,
    };
    let all = match stages {
        1 => "planner, clairvoyant, static, hpa, sm-plus, infaas-paper, fa2 or one of IPA's",
        _ => "planner, clairvoyant, static, hpa or one of IPA's",
    };
    match control {
        Planner | Clairvoyant | Static | Hpa | Ipa { .. } => None,
        SmPlus | InfaasPaper if stages == 1 => None,
        Fa2 { .. } if stages == 1 => {
            let fits = service.variants.len() == 1 && service.variants.iter().all(has_one_core);
            let right = "another one, unless the service has one variant, with replicas of one core (cores.initial)";
            (!fits).then(|| right.to_owned())
        }
        _ => Some(format!(
            "{all}, as {why}: the others change the cores of one service's single servers"
        )),
    }
}

fn has_one_core(variant: &Variant) -> bool {
    variant.initial.each() == Cores::whole(1)
}
