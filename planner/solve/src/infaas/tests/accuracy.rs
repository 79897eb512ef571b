//! Shares of the load that require an accuracy.

use super::*;

/// Variants of one core: 10 queries/s at 70 %, 5 at 80 %, 2 at 90 %.
fn three() -> Vec<Variant> {
    let columns = [("a", 10.0, 70.0), ("b", 5.0, 80.0), ("c", 2.0, 90.0)];
    let one = |(name, qps, percent)| Variant {
        accuracy_percent: Some(percent),
        ..variant(name, "cpu", (1.0, qps, 1.0, 0))
    };
    columns.map(one).to_vec()
}

fn input(load_qps: f64, accuracies: &[(f64, f64)], cores: f64) -> Input {
    let share = |(percent, share): &(f64, f64)| AccuracyShare {
        percent: *percent,
        share: *share,
    };
    let mut one = architecture("resnet", load_qps, three());
    one.accuracies = accuracies.iter().map(share).collect();
    Input {
        resources: vec![resource("cpu", cores)],
        architectures: vec![one],
        loading_weight_per_s: 0.0,
        gap: 0.0,
    }
}

fn replicas(plan: &Plan) -> Vec<u32> {
    let variants = &plan.architectures[0].variants;
    variants.iter().map(|action| action.replicas).collect()
}

#[test]
fn cheap_variants_carry_what_requires_less() {
    for (load_qps, accuracies, expected) in [
        (100.0, vec![], [10, 0, 0]),
        (100.0, vec![(60.0, 1.0)], [10, 0, 0]),
        (100.0, vec![(75.0, 0.5)], [5, 10, 0]),
        (100.0, vec![(80.0, 0.5)], [5, 10, 0]),
        (100.0, vec![(90.0, 0.2), (75.0, 0.3)], [5, 6, 10]),
        // What is left over of accurate replicas carries the others.
        (14.0, vec![(75.0, 0.3)], [1, 1, 0]),
        (14.0, vec![(75.0, 0.2), (71.0, 0.1)], [1, 1, 0]),
        (12.0, vec![(85.0, 0.25)], [1, 0, 2]),
        (100.0, vec![(75.0, 1.0)], [0, 20, 0]),
        (100.0, vec![(75.0, 0.0), (90.0, 0.0)], [10, 0, 0]),
    ] {
        let problem = Problem::try_from(input(load_qps, &accuracies, 100.0)).unwrap();
        let Outcome::Optimal(plan) = solved(&problem) else {
            panic!("{accuracies:?}: not optimal")
        };
        assert_eq!(replicas(&plan), expected, "{load_qps} {accuracies:?}");
    }
}

#[test]
fn best_effort_serves_each_share_by_variants_that_may() {
    // 12 cores instead of 21: most by the cheap variant, the rest as accurate as is required.
    let problem = Problem::try_from(input(100.0, &[(90.0, 0.2), (75.0, 0.3)], 12.0)).unwrap();
    let Outcome::Infeasible { why, best_effort } = solved(&problem) else {
        panic!("feasible")
    };
    assert!(why.contains("cpu: load and slack take 21 units"), "{why}");
    assert_eq!(replicas(&best_effort.unwrap()), [5, 6, 1]);
}

#[test]
fn accuracy_that_no_variant_has_is_named() {
    let problem = Problem::try_from(input(100.0, &[(95.0, 0.1)], 50.0)).unwrap();
    let Outcome::Infeasible { why, .. } = solved(&problem) else {
        panic!("feasible")
    };
    let words = "its variants of 95 % accuracy or more can carry 0 queries/s at most";
    assert!(why.contains(words), "{why}");
}

#[test]
fn wrong_accuracies_are_refused() {
    let many: Vec<(f64, f64)> = (1..=ACCURACIES_MAX + 1).map(|n| (n as f64, 0.01)).collect();
    for (accuracies, message) in [
        (vec![(0.0, 0.5)], "accuracies[0].percent: 0 must be above 0"),
        (
            vec![(101.0, 0.5)],
            "accuracies[0].percent: 101 must be above 0 and at most 100",
        ),
        (
            vec![(70.0, -0.1)],
            "accuracies[0].share: -0.1 must be 0 to 1",
        ),
        (
            vec![(70.0, f64::NAN)],
            "accuracies[0].share: NaN must be 0 to 1",
        ),
        (
            vec![(70.0, 0.6), (80.0, 0.5)],
            "accuracies: 1.1 must be shares whose sum",
        ),
        (
            vec![(70.0, 0.6), (70.0, 0.1)],
            "accuracies[1].percent: '70' must be another name",
        ),
        (many, "accuracies: 9 must be 1 to 8 accuracies"),
    ] {
        let refused = Problem::try_from(input(1.0, &accuracies, 1.0)).unwrap_err();
        assert!(refused.to_string().contains(message), "{refused}");
    }
    let mut unknown = input(1.0, &[(70.0, 0.5)], 1.0);
    unknown.architectures[0].variants[1].accuracy_percent = None;
    let refused = Problem::try_from(unknown).unwrap_err().to_string();
    assert!(
        refused.contains("b.accuracy_percent: nothing must be given"),
        "{refused}"
    );
}
