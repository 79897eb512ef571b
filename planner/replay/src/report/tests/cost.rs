//! Tests of the mean cost.

use super::*;

/// 14 core-seconds at 1 and 7 at 0.25, in 7 s.
#[test]
fn mean_cost_is_reported_where_a_variant_has_a_price() {
    let (mut scenario, requests, play) = by_hand();
    let plays = [Play {
        variant_core_seconds: vec![14.0, 7.0],
        ..play
    }];
    let texts = |scenario: &Scenario| {
        let report = Report::new(scenario, &requests, &plays, &[]).unwrap();
        let texts = [report.table(), report.html(), report.json().unwrap()];
        (report.contenders()[0].mean_cost, texts)
    };
    let (none, without) = texts(&scenario);
    assert_eq!(none, None);
    assert!(without.iter().all(|text| !text.contains("cost")));
    scenario.service.variants[1].price = 0.25;
    let (cost, [table, page, json]) = texts(&scenario);
    assert_eq!(cost, Some(2.25));
    for (text, part) in [
        (table, "mean cost"),
        (page, "<td>mean cost</td><td>2.250</td>"),
        (json, "\"mean_cost\": 2.25"),
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}
