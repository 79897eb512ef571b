//! Allocations and a demand → the part of it that they carry. Pure.

use std::ops::Range;

use crate::capacity::Allocation;
use crate::rollout::SERVES_AT_ALL;

/// Part of the demand that all stages together are taken to carry while one of them has no core: a tenth of what
/// serves at all.
const SOME_SERVE: f64 = SERVES_AT_ALL / 10.0;

/// The part of the demand that the weakest of the stages carries with what is `there`; 1 where the demand is not known.
/// A stage that has a core serves, whatever its capacity: without one there is no plan. Of what serves nobody, what
/// leaves more stages with a core is more.
pub(crate) fn carried_part(
    stages: impl Iterator<Item = Range<usize>>,
    capacities: &[f64],
    there: &[Allocation],
    demand: Option<f64>,
) -> f64 {
    let (mut least, mut serving, mut count) = (f64::INFINITY, 0.0, 0.0);
    for stage in stages {
        let all = there.get(stage.clone()).unwrap_or_default();
        let serves = all.iter().any(|one| *one != Allocation::NONE);
        let capacity: f64 = capacities.get(stage).unwrap_or_default().iter().sum();
        let carried = demand.map_or(1.0, |demand| capacity / demand.max(f64::MIN_POSITIVE));
        least = least.min(if serves {
            carried.max(SERVES_AT_ALL)
        } else {
            0.0
        });
        serving += f64::from(u8::from(serves));
        count += 1.0;
    }
    least + SOME_SERVE * serving / count
}

/// Says how much of the demand is carried while these variants come to serve; nothing where it is all, or none does.
pub(crate) fn shortage(part: f64, come: &[&str]) -> String {
    if part >= 1.0 || come.is_empty() {
        return String::new();
    }
    let percent = (part * 100.0).floor();
    format!(
        "; {percent} % of the demand is carried until more of {} serves",
        come.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use weir_api::Cores;

    use super::*;

    fn there(cores: [u32; 3]) -> Vec<Allocation> {
        Allocation::ones(&cores.map(Cores::whole))
    }

    #[test]
    fn the_weakest_stage_says_what_is_carried() {
        // Of two stages, 10 requests/s by each core.
        let part = |cores: [u32; 3], demand| {
            let rates = cores.map(|cores| f64::from(cores) * 10.0);
            carried_part([0..2, 2..3].into_iter(), &rates, &there(cores), demand)
        };
        for (cores, demand, least) in [
            ([1, 1, 4], Some(40.0), 0.5),
            ([4, 4, 1], Some(40.0), 0.25),
            ([4, 0, 4], Some(20.0), 2.0),
            ([4, 0, 4], None, 1.0),
            ([4, 0, 0], Some(20.0), 0.0),
            ([4, 0, 0], None, 0.0),
        ] {
            let got = part(cores, demand);
            assert!(
                (got - least).abs() < SERVES_AT_ALL / 5.0,
                "{cores:?} {demand:?} {got}"
            );
        }
        // A stage more or less that has a core, and one that has, and carries nothing.
        assert!(part([0, 0, 0], None) < part([1, 0, 0], None));
        let rates = [0.0; 3];
        let nothing = carried_part(
            [0..2, 2..3].into_iter(),
            &rates,
            &there([1, 0, 1]),
            Some(9.0),
        );
        assert!(nothing > part([9, 0, 0], Some(9.0)));
    }

    #[test]
    fn less_than_the_demand_is_said_while_something_comes() {
        assert_eq!(shortage(1.2, &["b"]), "");
        assert_eq!(shortage(0.5, &[]), "");
        let said = shortage(0.629, &["b", "c"]);
        assert_eq!(
            said,
            "; 62 % of the demand is carried until more of b, c serves"
        );
    }
}
