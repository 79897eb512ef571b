//! Contenders of a service with replicas or stages: autoscalers that change the cores of single servers do not play.

use weir_planner::service::{Replicas, Service};

use super::refused::ScenarioError;
use super::{Contender, Control};

/// Returns the contenders that can play the service; refuses one that cannot, if it is `given`.
pub(super) fn contenders(
    service: &Service,
    mut contenders: Vec<Contender>,
    given: bool,
) -> Result<Vec<Contender>, ScenarioError> {
    let mut replicated = service.variants.iter();
    let replicated = replicated.find(|variant| variant.replicas != Replicas::ONE);
    let why = match (replicated, service.stages.len()) {
        (None, 1) => return Ok(contenders),
        (Some(variant), _) => format!("variant {} has replicas", variant.name),
        (None, _) => "the service has stages".to_owned(),
    };
    let plays = |contender: &Contender| {
        use Control::{Clairvoyant, Ipa, Planner, Static};
        matches!(
            contender.control,
            Planner | Clairvoyant | Static | Ipa { .. }
        )
    };
    let refused = contenders.iter().position(|contender| !plays(contender));
    if let Some(index) = refused.filter(|_| given) {
        let control = contenders
            .get(index)
            .map_or("", |contender| contender.control.name());
        let right = format!(
            "planner, clairvoyant, static or one of IPA's, as {why}: the others change the cores of one service's single servers"
        );
        return Err(ScenarioError::value(
            format!("contenders[{index}].control"),
            control,
            right,
        ));
    }
    contenders.retain(plays);
    Ok(contenders)
}
