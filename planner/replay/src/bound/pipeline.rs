//! Upper bound of a pipeline: the least of the bounds of its stages, each with the windows that the others leave it.
//!
//! A request that is on time passes every stage, one after another. At stage k it is executed after its release and the
//! shortest times of the stages before, and before its due time less the shortest times of the stages after. So no more
//! requests are on time than the bound of stage k alone, for every k. The bound is exact for no pipeline: it does not
//! see that stages delay one another.

use super::{Bound, Kind, Servers, Window, most_on_time as of_stage};
use crate::request::Play;
use crate::scenario::Scenario;

/// Returns the bound on the number of on-time requests with the cores of a play.
pub(super) fn most_on_time(scenario: &Scenario, windows: &[Window], play: &Play) -> Bound {
    let servers = Servers::played(scenario, play);
    let stages: Vec<Servers> = scenario
        .stages()
        .map(|variants| servers.of(variants))
        .collect();
    let names = scenario.service.stages.iter().map(|stage| &*stage.name);
    let bounds = (0..stages.len()).zip(names).map(|(stage, name)| {
        let left = windows
            .iter()
            .filter_map(|window| at_stage(window, &stages, stage));
        let bound = match stages.get(stage) {
            Some(servers) => of_stage(&left.collect::<Vec<Window>>(), servers),
            None => of_stage(&[], &servers),
        };
        Bound {
            kind: match bound.kind {
                Kind::Exact => Kind::Upper,
                kind => kind,
            },
            why: format!(
                "stage {name} alone, with the shortest times of the others: {}",
                bound.why
            ),
            ..bound
        }
    });
    let least = bounds.min_by_key(|bound| bound.on_time);
    least.unwrap_or_else(|| of_stage(windows, &servers))
}

/// Window that the other stages leave one; `None` if a stage cannot serve the request at all.
fn at_stage(window: &Window, stages: &[Servers], stage: usize) -> Option<Window> {
    let mut left = *window;
    for (index, servers) in stages.iter().enumerate() {
        let fastest = servers.fastest(window.min_accuracy)?;
        if index < stage {
            left.release += fastest;
        }
        if index > stage {
            left.due = left.due.checked_sub(fastest)?;
        }
    }
    Some(left)
}
