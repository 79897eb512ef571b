//! Requests by outcome in the report of a cycle.

use super::*;
use crate::observe::VariantOutcomes;

/// Outcomes of a proxy: on time by a and late by b, refusals, and requests that wait.
fn outcomes(on_time: f64, late: f64, refused: f64, held: f64) -> Arc<Outcomes> {
    let a = VariantOutcomes {
        served: on_time,
        on_time,
        ..VariantOutcomes::default()
    };
    let b = VariantOutcomes {
        served: late,
        late,
        ..VariantOutcomes::default()
    };
    let mut outcomes = Outcomes {
        held,
        variants: [("a".to_owned(), a), ("b".to_owned(), b)].into(),
        ..Outcomes::default()
    };
    *outcomes.refused.of("expired") = refused;
    outcomes.into()
}

#[tokio::test]
async fn report_has_the_outcomes_of_its_cycle() {
    let mut bed = Bed::new(service(8), &[2, 2]);
    *bed.sim.outcomes.lock().unwrap() = outcomes(500.0, 20.0, 30.0, 4.0);
    assert_eq!(bed.run_cycle(600.0).await.requests, None, "counted before");
    *bed.sim.outcomes.lock().unwrap() = outcomes(515.0, 23.0, 32.0, 1.0);
    let report = bed.run_cycle(20.0).await;
    let requests = report.requests.unwrap();
    let counts = &requests.counts;
    assert_eq!((counts.arrivals, counts.on_time, counts.late), (20, 15, 3));
    assert_eq!((counts.ended, counts.refused["expired"]), (20, 2));
    assert_eq!(
        (requests.on_time_share, requests.waiting),
        (Some(0.75), Some(1))
    );
    let [a, b] = [0, 1].map(|index| bed.planner.service.variants[index].accuracy);
    let accuracy = requests.accuracy_percent.unwrap();
    assert!(
        (accuracy - (15.0 * a + 3.0 * b) / 18.0).abs() < 1e-9,
        "{accuracy}"
    );
    let sample = bed.planner.take_requests();
    assert_eq!(sample.sum().map(|sum| sum.arrivals), Some(20.0));

    *bed.sim.lost.lock().unwrap() = true;
    assert_eq!(bed.run_cycle(10.0).await.requests, None, "no answer");
    *bed.sim.lost.lock().unwrap() = false;
    *bed.sim.outcomes.lock().unwrap() = outcomes(535.0, 23.0, 32.0, 0.0);
    let counts = bed.run_cycle(10.0).await.requests.unwrap().counts;
    assert_eq!(
        (counts.arrivals, counts.on_time, counts.ended),
        (20, 20, 20),
        "both cycles'"
    );
}
