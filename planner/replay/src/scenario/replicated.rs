//! Contenders of a service with replicas: autoscalers that change the cores of single servers do not play.

use weir_planner::service::{Replicas, Service};

use super::refused::ScenarioError;
use super::{Contender, Control};

/// Returns the contenders that can play the service; refuses one that cannot, if it is `given`.
pub(super) fn contenders(
    service: &Service,
    mut contenders: Vec<Contender>,
    given: bool,
) -> Result<Vec<Contender>, ScenarioError> {
    let replicated = |variant: &weir_planner::service::Variant| variant.replicas != Replicas::ONE;
    let Some(first) = service.variants.iter().find(|variant| replicated(variant)) else {
        return Ok(contenders);
    };
    let plays =
        |contender: &Contender| matches!(contender.control, Control::Planner | Control::Static);
    let refused = contenders.iter().position(|contender| !plays(contender));
    if let Some(index) = refused.filter(|_| given) {
        let control = contenders
            .get(index)
            .map_or("", |contender| contender.control.name());
        let right = format!(
            "planner or static, as variant {} has replicas: the others change the cores of one server",
            first.name
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
