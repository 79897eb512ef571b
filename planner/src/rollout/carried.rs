//! Part of a demand that allocations can carry. Pure.

use std::ops::Range;

use crate::capacity::Allocation;
use crate::rollout::SERVES_AT_ALL;

/// Part of the demand that all stages together are taken to carry while one of them has no core: a tenth of
/// [`SERVES_AT_ALL`].
const SOME_SERVE: f64 = SERVES_AT_ALL / 10.0;

/// Returns the part of the demand that the weakest stage carries with these `allocations`; 1 if the demand is
/// unknown. A stage with a core counts as serving, whatever its capacity: without one there is no plan. Among
/// allocations that serve nobody, the one with more serving stages counts more.
pub(crate) fn carried_part(
    stages: impl Iterator<Item = Range<usize>>,
    capacities: &[f64],
    allocations: &[Allocation],
    demand: Option<f64>,
) -> f64 {
    let (mut min, mut serving, mut count) = (f64::INFINITY, 0.0, 0.0);
    for stage in stages {
        let all = allocations.get(stage.clone()).unwrap_or_default();
        let serves = all.iter().any(|one| *one != Allocation::NONE);
        let capacity: f64 = capacities.get(stage).unwrap_or_default().iter().sum();
        let carried = demand.map_or(1.0, |demand| capacity / demand.max(f64::MIN_POSITIVE));
        min = min.min(if serves {
            carried.max(SERVES_AT_ALL)
        } else {
            0.0
        });
        serving += f64::from(u8::from(serves));
        count += 1.0;
    }
    min + SOME_SERVE * serving / count
}

/// Describes how much of the demand is carried while these variants start; empty if all of it is, or none starts.
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

    fn allocations(cores: [u32; 3]) -> Vec<Allocation> {
        Allocation::ones(&cores.map(Cores::whole))
    }

    #[test]
    fn weakest_stage_determines_carried_part() {
        // Two stages, 10 requests/s per core.
        let part = |cores: [u32; 3], demand| {
            let rates = cores.map(|cores| f64::from(cores) * 10.0);
            carried_part(
                [0..2, 2..3].into_iter(),
                &rates,
                &allocations(cores),
                demand,
            )
        };
        for (cores, demand, min) in [
            ([1, 1, 4], Some(40.0), 0.5),
            ([4, 4, 1], Some(40.0), 0.25),
            ([4, 0, 4], Some(20.0), 2.0),
            ([4, 0, 4], None, 1.0),
            ([4, 0, 0], Some(20.0), 0.0),
            ([4, 0, 0], None, 0.0),
        ] {
            let got = part(cores, demand);
            assert!(
                (got - min).abs() < SERVES_AT_ALL / 5.0,
                "{cores:?} {demand:?} {got}"
            );
        }
        // More stages with a core count more, even if they carry nothing.
        assert!(part([0, 0, 0], None) < part([1, 0, 0], None));
        let rates = [0.0; 3];
        let nothing = carried_part(
            [0..2, 2..3].into_iter(),
            &rates,
            &allocations([1, 0, 1]),
            Some(9.0),
        );
        assert!(nothing > part([9, 0, 0], Some(9.0)));
    }

    #[test]
    fn shortage_is_reported_while_variants_start() {
        assert_eq!(shortage(1.2, &["b"]), "");
        assert_eq!(shortage(0.5, &[]), "");
        let message = shortage(0.629, &["b", "c"]);
        assert_eq!(
            message,
            "; 62 % of the demand is carried until more of b, c serves"
        );
    }
}
