//! Status of a service, and its cycles.

use super::*;

#[tokio::test]
async fn status_shows_plan_proxies_counters_and_cycles() {
    let endpoints = Endpoints::open(Duration::from_millis(1), 64).await;
    let empty: Value = endpoints.status("").await.json().await.unwrap();
    assert_eq!(
        (&empty["revision"], &empty["latest"]),
        (&Value::Null, &Value::Null)
    );
    let first = endpoints.publish(1);
    for after in [Revision(0), first] {
        let query = format!("?after={after}&proxy=envoy-1&incarnation=3&workers=2&role=gate");
        endpoints.poll(&query).await;
    }
    let reports = crate::control_loop::tests::reports(5).await;
    for report in &reports {
        endpoints.handle.metrics.record(report);
        endpoints.handle.status.push(report.clone());
    }
    let status: Value = endpoints.status("?cycles=2").await.json().await.unwrap();
    assert_eq!(status["service"], "demo");
    assert_eq!(status["revision"], first.0);
    assert_eq!(status["plan"]["variants"][0]["name"], "a");
    assert_eq!(status["counters"]["cycles"], 5);
    let proxy = &status["proxies"]["envoy-1"];
    assert_eq!(
        (&proxy["incarnation"], &proxy["workers"], &proxy["role"]),
        (&3.into(), &2.into(), &"gate".into())
    );
    assert_eq!(proxy["revision"], first.0);
    assert_eq!(status["cycles"].as_array().unwrap().len(), 2);
    assert_eq!(status["latest"], status["cycles"][1]);
    assert_eq!(status["latest"]["at_ms"], reports[4].at_ms);
    let a = &status["latest"]["variants"]["a"];
    for key in [
        "cores_target",
        "cores_actual",
        "share",
        "slots",
        "capacity_rps",
    ] {
        assert!(a[key].is_number(), "{key}: {a}");
    }
    let requests = &status["requests"];
    assert_eq!(requests["on_time_target"], 0.99, "{requests}");
    assert_eq!(
        (&requests["latest"], &requests["waiting"]),
        (&Value::Null, &Value::Null)
    );
    let windows = requests["windows"].as_array().unwrap();
    let lengths: Vec<_> = windows.iter().map(|it| it["window_s"].as_f64()).collect();
    assert_eq!(lengths, [Some(300.0), Some(3600.0), Some(21_600.0)]);
    let first = &windows[0];
    assert_eq!(
        (&first["ended"], &first["on_time_share"]),
        (&0.into(), &Value::Null)
    );
    let predicted = &first["variants"]["a"]["predicted_ms"];
    assert_eq!(predicted, &status["plan"]["variants"][0]["service_ms"]);
    let none: Value = endpoints.status("?cycles=0").await.json().await.unwrap();
    assert_eq!(none["cycles"].as_array().unwrap().len(), 0);
    assert_eq!(none["latest"], status["latest"]);
    assert!(
        error(endpoints.with_key("/v1/services/other").await, 404)
            .await
            .contains("'other'")
    );
    let text = endpoints.get("/metrics").await.text().await.unwrap();
    for line in [
        "weir_planner_cycle_duration_seconds_count{service=\"demo\"} 5",
        "weir_planner_polls_total{answer=\"none\",service=\"demo\"} 1",
        "weir_planner_proxies{service=\"demo\"} 1",
        "weir_planner_proxies_owning{service=\"demo\"} 1",
        "weir_planner_proxy_slots{proxy=\"envoy-1\",role=\"gate\",service=\"demo\"}",
        "weir_planner_proxy_plan_revision{proxy=\"envoy-1\",role=\"gate\",service=\"demo\"}",
        "weir_planner_proxy_info{incarnation=\"3\",proxy=\"envoy-1\",role=\"gate\",variant=\"\",version=\"\",workers=\"2\",service=\"demo\"} 1",
        "weir_planner_slots{variant=\"a\",service=\"demo\"}",
        "weir_planner_stage_duration_seconds_bucket{stage=\"solve\",service=\"demo\"",
    ] {
        assert!(text.contains(line), "no '{line}' in\n{text}");
    }
}

#[tokio::test]
async fn status_shows_ten_cycles_by_default() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let report = crate::control_loop::tests::reports(3).await.remove(2);
    for at_ms in 0..CYCLES_MAX as u64 + 10 {
        endpoints
            .handle
            .status
            .push(crate::telemetry::status::CycleReport {
                at_ms,
                ..report.clone()
            });
    }
    let newest = CYCLES_MAX as u64 + 9;
    for (query, cycles) in [
        ("", 10),
        ("?cycles=1", 1),
        ("?cycles=11", 11),
        ("?cycles=1024", CYCLES_MAX),
    ] {
        let answer = endpoints.status(query).await;
        assert_eq!(answer.status(), 200, "{query}");
        let body = answer.text().await.unwrap();
        let status: Value = serde_json::from_str(&body).unwrap();
        let shown = status["cycles"].as_array().unwrap();
        assert_eq!(shown.len(), cycles, "{query}");
        assert_eq!(shown[cycles - 1]["at_ms"], newest, "{query}");
        // A cycle of two variants takes some 1.3 KB.
        assert!(body.len() <= 4096 * (cycles + 1), "{query}: {}", body.len());
    }
    for value in ["1025", "-1", "+1", "x", "", "1.5", "99999999999999999999"] {
        let refused = error(endpoints.status(&format!("?cycles={value}")).await, 400).await;
        let right = "must be a whole number from 0 to 1024";
        let value = value.replace('+', " ");
        assert_eq!(refused, format!("cycles: '{value}' {right}"));
    }
    let refused = error(endpoints.status("?turns=3").await, 400).await;
    assert!(refused.contains("turns"), "{refused}");
}

#[tokio::test]
async fn ring_of_cycles_is_bounded() {
    let status = Status::default();
    let report = crate::control_loop::tests::reports(1).await.remove(0);
    for index in 0..CYCLES_MAX as u64 + 10 {
        status.push(crate::telemetry::status::CycleReport {
            at_ms: index,
            ..report.clone()
        });
    }
    let kept = status.latest(usize::MAX);
    assert_eq!((kept.len(), kept[0].at_ms), (CYCLES_MAX, 10));
}
