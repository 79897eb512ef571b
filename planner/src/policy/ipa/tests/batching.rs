//! Batches of policy ipa and of the other policies.

use super::*;
use crate::profile::{Correction, Ratio};

#[test]
fn batches_follow_from_cores_and_leave_time_for_later_stages() {
    let service = pipeline(20);
    let all = |running, rps| batches(&service, &allocations(running), Some(forecast(rps, true)));
    // One core of n carries 1000·b/(20·b + 10): 33, 40, 43 …; of r 25, 28.6, 30 …
    assert_eq!(all([1, 0, 1, 0], 20.0), [1, 1, 1, 1]);
    assert_eq!(all([1, 0, 1, 0], 27.0), [1, 1, 2, 1]);
    // Above the capacity: the batches that carry the most within the 500 ms of both stages.
    let full = all([1, 0, 1, 0], 99.0);
    let takes = |b: u32, ms: f64| ms * f64::from(b) + 10.0 + f64::from(b - 1) * 1e3 / 99.0;
    let both = takes(full[0], 20.0) + takes(full[2], 30.0);
    assert!(both <= 500.0 && both > 400.0, "{full:?}: {both}");
    // Measured at thirty times that, no batch is in time. Single requests would carry the least.
    let mut slow = service.clone();
    for variant in &mut slow.variants {
        variant.profile.correction = Correction::of([Ratio {
            millis: 1000,
            percent: 3000,
        }]);
    }
    let running = allocations([1, 0, 1, 0]);
    assert_eq!(batches(&slow, &running, Some(forecast(99.0, true))), full);
    // While s hands over to r, it does not carry all the demand, and stays within the 470 ms that n leaves.
    let halves = all([2, 0, 1, 2], 30.0);
    assert_eq!((halves[0], halves[2]), (1, 3));
    let s_ms = 90.0 * f64::from(halves[3]) + 10.0 + f64::from(halves[3] - 1) * 1e3 / 30.0;
    assert!(s_ms <= 470.1 && s_ms > 300.0, "{halves:?}: {s_ms}");
    assert_eq!(
        batches(&service, &allocations([1, 0, 1, 0]), None),
        [1, 1, 1, 1]
    );
    let drafts = drafts(
        &service,
        &allocations([1, 0, 1, 0]),
        Some(forecast(27.0, true)),
    )
    .unwrap();
    let [detect, classify] = drafts.as_slice() else {
        panic!("{drafts:?}")
    };
    // A batch of two at r: 70 ms, and one more request after 37 ms.
    assert!((detect.downstream_ms - 70.0 - 1e3 / 27.0).abs() < 1e-9);
    assert_eq!(classify.downstream_ms, 0.0);
    assert_eq!(
        (detect.variants[0].name.as_str(), detect.variants[0].share.0),
        ("n", 1.0)
    );
    assert_eq!(
        (classify.variants[0].slots, classify.variants[0].batch),
        (2, 2)
    );
    let without = drafts_of(&service, [1, 0, 0, 0]);
    assert_eq!(without, None, "a stage without a core is no pipeline");
}

#[test]
fn batching_servers_get_slots_for_all_their_lanes() {
    let mut service = pipeline(20);
    let drafts = |service: &Service| {
        let drafts = drafts(
            service,
            &allocations([4, 0, 4, 0]),
            Some(forecast(110.0, true)),
        )
        .unwrap();
        let [detect, classify] = drafts.as_slice() else {
            panic!("{drafts:?}")
        };
        let confirmed = |index: usize, draft: &crate::plan::Draft| {
            let part = &draft.variants[index];
            (part.slots, part.batch, part.service_ms)
        };
        (
            confirmed(0, detect),
            detect.downstream_ms,
            confirmed(0, classify),
        )
    };
    // n carries the load in batches of 1, r in batches of 2, whose second request comes after 9 ms.
    let (n, downstream_ms, r) = drafts(&service);
    assert_eq!((n, r), ((4, 1, 30.0), (8, 2, 70.0)));
    assert!(
        (downstream_ms - 70.0 - 1e3 / 110.0).abs() < 1e-9,
        "{downstream_ms}"
    );
    for variant in &mut service.variants {
        variant.batch_delay = std::time::Duration::from_millis(5);
    }
    // Each of the four lanes has slots for the largest batch.
    let all = ((32, 1, 35.0), 75.0, (32, 1, 45.0));
    assert_eq!(drafts(&service), all);
    // A batch that takes longer than the latency budget gets no slots: 7 at n take 150 ms, 4 at r 130.
    service.latency_max_ms = 159.0;
    let all = ((28, 1, 35.0), 75.0, (16, 1, 45.0));
    assert_eq!(drafts(&service), all);
}

#[test]
fn confirmed_batch_limits_the_planned_one() {
    let mut service = pipeline(20);
    let (allocations, forecast) = (allocations([4, 0, 4, 0]), Some(forecast(110.0, true)));
    let plans = |service: &Service, confirmed: &[Option<u32>]| {
        let conditions = Conditions {
            confirmed,
            ..Conditions::default()
        };
        let drafts = drafts_under(service, &allocations, forecast, conditions).unwrap();
        let part = |index: usize| &drafts[index].variants[0];
        [0, 1].map(|stage| (part(stage).slots, part(stage).batch))
    };
    let confirmed = [Some(1), None, Some(2), None];
    // The filter sends no larger batches than the servers make.
    assert_eq!(plans(&service, &confirmed), [(4, 1), (8, 2)]);
    let less = [Some(3), None, Some(1), None];
    assert_eq!(plans(&service, &less), [(4, 1), (4, 1)]);
    for variant in &mut service.variants {
        variant.batch_delay = std::time::Duration::from_millis(5);
    }
    // The servers make the batches, no larger than confirmed: no lane idles.
    assert_eq!(plans(&service, &confirmed), [(4, 1), (8, 1)]);
    assert_eq!(plans(&service, &less), [(12, 1), (4, 1)]);
    let unknown = [None, None, Some(2), None];
    assert_eq!(plans(&service, &unknown), [(32, 1), (8, 1)]);
    let capacities =
        |confirmed: &[Option<u32>]| capacities(&service, &allocations, forecast, confirmed)[2];
    let [one, two, none] =
        [Some(1), Some(2), None].map(|confirmed| capacities(&[None, None, confirmed]));
    assert!(one < two && two == none, "{one} {two} {none}");
}

#[test]
fn batching_server_counts_its_own_batch_delay() {
    let mut service = pipeline(4);
    // Two cores a stage carry 50 requests/s in batches of two or more of r; a request arrives every 20 ms.
    let decision = decided(&service, [2, 0, 2, 0], 52.0);
    assert!(
        decision.why.contains("r in batches of 2"),
        "{}",
        decision.why
    );
    service.latency_max_ms = 115.0;
    let decision = decided(&service, [2, 0, 2, 0], 52.0);
    assert_eq!(decision.status, SolveStatus::Infeasible, "{}", decision.why);
    for variant in &mut service.variants {
        variant.batch_delay = std::time::Duration::from_millis(5);
    }
    let decision = decided(&service, [2, 0, 2, 0], 52.0);
    assert_eq!(decision.status, SolveStatus::Optimal, "{}", decision.why);
    assert!(decision.why.contains("in 110 ms"), "{}", decision.why);
}

fn drafts_of(service: &Service, running: [u32; 4]) -> Option<Vec<crate::plan::Draft>> {
    drafts(service, &allocations(running), Some(forecast(27.0, true)))
}

#[test]
fn other_policies_choose_their_own_batches() {
    let mut service = pipeline(20);
    service.policy = SharedPolicy::new(Infadapter);
    let all = |service: &Service| batches(service, &allocations([1; 4]), Some(forecast(1.0, true)));
    assert_eq!(all(&service), [8; 4]);
    service.policy = SharedPolicy::new(Sponge {
        delta: 0.001,
        percentile: 99.0,
    });
    assert_eq!(all(&service), [1; 4]);
}
