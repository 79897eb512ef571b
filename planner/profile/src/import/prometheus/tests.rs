//! Tests of the metrics of MLServer and TensorFlow Serving.

use super::*;

/// Text in the form of MLServer's `/metrics`.
const MLSERVER: &str = "# HELP model_infer_request_success_total Model infer request success count\n\
    model_infer_request_success_total{model=\"digits\",version=\"v1\"} 400.0\n\
    # TYPE model_infer_request_duration summary\n\
    model_infer_request_duration_count{model=\"digits\",version=\"v1\"} 400.0\n\
    model_infer_request_duration_sum{model=\"digits\",version=\"v1\"} 8.0\n\
    # TYPE model_infer_request_duration_created gauge\n\
    model_infer_request_duration_created{model=\"digits\",version=\"v1\"} 1.7e+09\n\
    # TYPE rest_server_request_duration_seconds histogram\n\
    rest_server_request_duration_seconds_bucket{app_name=\"mlserver\",le=\"0.025\",method=\"POST\",path=\"/v2/models/{model_name}/infer\",status_code=\"200\"} 300.0\n\
    rest_server_request_duration_seconds_bucket{app_name=\"mlserver\",le=\"0.05\",method=\"POST\",path=\"/v2/models/{model_name}/infer\",status_code=\"200\"} 400.0\n\
    rest_server_request_duration_seconds_bucket{app_name=\"mlserver\",le=\"+Inf\",method=\"POST\",path=\"/v2/models/{model_name}/infer\",status_code=\"200\"} 400.0\n\
    rest_server_request_duration_seconds_count{app_name=\"mlserver\",method=\"POST\",path=\"/v2/models/{model_name}/infer\",status_code=\"200\"} 400.0\n\
    rest_server_request_duration_seconds_sum{app_name=\"mlserver\",method=\"POST\",path=\"/v2/models/{model_name}/infer\",status_code=\"200\"} 10.0\n\
    rest_server_request_duration_seconds_count{app_name=\"mlserver\",method=\"GET\",path=\"/v2/models/{model_name}/ready\",status_code=\"200\"} 90.0\n";

/// Text in the form of TensorFlow Serving's `/monitoring/prometheus/metrics`.
fn tf_serving(count: u32) -> String {
    let mut text = "# TYPE :tensorflow:serving:request_count counter\n\
        :tensorflow:serving:request_count{model_name=\"resnet\",status=\"OK\"} 9\n\
        # TYPE :tensorflow:serving:request_latency histogram\n"
        .to_owned();
    for api in ["REST", "GRPC"] {
        let labels = format!("model_name=\"resnet\",API=\"predict\",entrypoint=\"{api}\"");
        let name = ":tensorflow:serving:request_latency";
        for (le, value) in [
            ("10000", 0),
            ("20000", count / 2),
            ("40000", count),
            ("+Inf", count),
        ] {
            text += &format!("{name}_bucket{{{labels},le=\"{le}\"}} {value}\n");
        }
        text += &format!(
            "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {count}\n",
            20_000 * count
        );
    }
    text + ":tensorflow:serving:runtime_latency_count{model_name=\"resnet\"} 3\n"
}

fn given(model: Option<&str>) -> Given {
    Given {
        cores: 1.0,
        batch: 2,
        model: model.map(str::to_owned),
        ..Given::default()
    }
}

fn near(value: Option<f64>, expected: f64) -> bool {
    (value.unwrap() - expected).abs() < 1e-9
}

#[test]
fn mlserver_has_the_mean_of_the_model_and_the_tail_of_rest() {
    let found = import(Program::Mlserver, MLSERVER, None, &given(None)).unwrap();
    let one = found.measurements[0];
    assert!(near(one.mean_ms, 20.0), "{one:?}");
    // 95 % of 400 lie at 45 ms of a mean of 25.
    assert!(near(one.p95_ms, 20.0 * 45.0 / 25.0), "{one:?}");
    assert_eq!(
        (one.p99_ms, one.batch, one.executions),
        (None, 2, Some(400))
    );
    let without: String = MLSERVER
        .lines()
        .filter(|line| !line.starts_with("rest_"))
        .map(|line| format!("{line}\n"))
        .collect();
    let found = import(Program::Mlserver, &without, None, &given(Some("digits"))).unwrap();
    assert_eq!(found.measurements[0].p80_ms, None);
    assert!(found.notes.join("\n").contains("no percentiles are known"));
}

#[test]
fn mlservers_failures_are_left_out_and_named() {
    let line = |model: &str, count: u32, sum: f64| {
        let labels = format!("{{model=\"{model}\",version=\"v1\"}}");
        let name = "model_infer_request_duration";
        format!("{name}_count{labels} {count}\n{name}_sum{labels} {sum}\n")
    };
    // Somebody has asked 30 times for a model that the server does not have.
    let text = MLSERVER.to_owned() + &line("nope", 30, 0.0006);
    let found = import(Program::Mlserver, &text, None, &given(None)).unwrap();
    assert_eq!(found.measurements[0].executions, Some(400));
    assert!(found.measurements[0].p95_ms.is_some());
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("without the time of REST or gRPC and of JSON"),
        "{notes}"
    );
    let refused = import(Program::Mlserver, &text, None, &given(Some("nope"))).unwrap_err();
    let expected = "--model nope: no such model; it must be one of: digits";
    assert_eq!(refused.to_string(), expected);
    // 400 successes and 100 failures, which took no time.
    let part = MLSERVER.replacen(
        "_duration_count{model=\"digits\",version=\"v1\"} 400",
        "_duration_count{model=\"digits\",version=\"v1\"} 500",
        1,
    );
    let found = import(Program::Mlserver, &part, None, &given(None)).unwrap();
    assert!(near(found.measurements[0].mean_ms, 20.0), "{found:?}");
    let notes = found.notes.join("\n");
    assert!(
        notes.contains("100 of 500 requests failed (20.0 %)"),
        "{notes}"
    );
    let most = part.replace("} 500", "} 900");
    let error = import(Program::Mlserver, &most, None, &given(None)).unwrap_err();
    let expected = "model digits: 500 of 900 requests failed; it must be half";
    assert!(error.to_string().starts_with(expected), "{error}");
}

#[test]
fn tf_servings_entry_points_are_added() {
    let found = import(Program::TfServing, &tf_serving(1000), None, &given(None)).unwrap();
    let one = found.measurements[0];
    assert!(near(one.mean_ms, 20.0) && near(one.p95_ms, 38.0), "{one:?}");
    assert_eq!(one.executions, Some(2000));
    let before = tf_serving(980);
    let found = import(
        Program::TfServing,
        &tf_serving(1000),
        Some(&before),
        &given(None),
    );
    assert_eq!(found.unwrap().measurements[0].executions, Some(40));
}

#[test]
fn wrong_metrics_are_refused() {
    let two = MLSERVER.to_owned() + &MLSERVER.replace("digits", "iris");
    for (program, text, earlier, model, expected) in [
        (
            Program::Mlserver,
            String::new(),
            None,
            None,
            "no model_infer_request_duration of a request that succeeded; is it the right",
        ),
        (
            Program::TfServing,
            MLSERVER.to_owned(),
            None,
            None,
            "no :tensorflow:serving:request_latency; is it",
        ),
        (
            Program::Mlserver,
            two,
            None,
            None,
            "2 models; --model must name one of: digits, iris",
        ),
        (
            Program::Mlserver,
            MLSERVER.to_owned(),
            None,
            Some("x"),
            "--model x: no such model; it must be one of: digits",
        ),
        (
            Program::Mlserver,
            MLSERVER
                .replace("} 400.0", "} 20.0")
                .replace("} 300.0", "} 20.0"),
            None,
            None,
            "model digits: 20 requests; it must be 30",
        ),
        (
            Program::Mlserver,
            MLSERVER.replace("} 8.0", "} NaN"),
            None,
            None,
            "line 5: model_infer_request_duration_sum: NaN",
        ),
        (
            Program::TfServing,
            tf_serving(40),
            Some(tf_serving(90)),
            None,
            ":tensorflow:serving:request_latency: the count fell from 180 to 80",
        ),
        (
            Program::TfServing,
            tf_serving(100),
            Some(tf_serving(90)),
            None,
            "model resnet: 20 requests",
        ),
    ] {
        let error = import(program, &text, earlier.as_deref(), &given(model))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{expected}\n{error}");
    }
}
