//! Metrics of model servers: MLServer's summary `model_infer_request_duration` in seconds, and TensorFlow Serving's
//! histogram `:tensorflow:serving:request_latency` in µs. Both are of requests and include the server's own queue.

use std::collections::BTreeMap;

use super::{EXECUTIONS_MIN, Given, Imported, only};
use crate::ProfileError;
use crate::exposition::{Sample, histograms, samples};
use crate::histogram::Histogram;
use crate::measurement::{Measurement, Percentile};

/// Server whose metrics are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// MLServer.
    Mlserver,
    /// TensorFlow Serving.
    TfServing,
}

/// Metrics of one reading.
struct Metrics {
    /// Times of requests, by model.
    times: BTreeMap<String, Histogram>,
    /// Times of all inference requests over REST (MLServer), whose summary has no percentiles.
    rest: Option<Histogram>,
}

/// Value of a label; empty without it.
fn label<'a>(sample: &Sample<'a>, name: &str) -> &'a str {
    sample.label(name).unwrap_or_default()
}

impl Program {
    /// Unit of its times, in ms.
    fn unit_ms(self) -> f64 {
        match self {
            Program::Mlserver => 1e3,
            Program::TfServing => 1e-3,
        }
    }

    fn read(self, text: &str) -> Result<Metrics, ProfileError> {
        match self {
            Program::Mlserver => {
                const NAMES: [&str; 2] = [
                    "model_infer_request_duration",
                    "rest_server_request_duration_seconds",
                ];
                let samples = samples(text, &NAMES)?;
                // The library also exports the time of creation.
                let model = |sample: &Sample, base: &str| {
                    (base == NAMES[0]).then(|| label(sample, "model").to_owned())
                };
                let infer = |sample: &Sample, base: &str| {
                    let is_infer = label(sample, "path").ends_with("/infer")
                        && label(sample, "status_code").starts_with('2');
                    (base == NAMES[1] && is_infer).then_some(())
                };
                Ok(Metrics {
                    times: histograms(&samples, model)?,
                    rest: histograms(&samples, infer)?.remove(&()),
                })
            }
            Program::TfServing => {
                let samples = samples(text, &[":tensorflow:serving:request_latency"])?;
                let model = |sample: &Sample, base: &str| {
                    (base == ":tensorflow:serving:request_latency")
                        .then(|| label(sample, "model_name").to_owned())
                };
                Ok(Metrics {
                    times: histograms(&samples, model)?,
                    rest: None,
                })
            }
        }
    }
}

pub(super) fn import(
    program: Program,
    text: &str,
    earlier: Option<&str>,
    given: &Given,
) -> Result<Imported, ProfileError> {
    let now = program.read(text)?;
    let before = earlier.map(|text| program.read(text)).transpose()?;
    let models: Vec<(String, Histogram)> = now.times.into_iter().collect();
    let thing = match program {
        Program::Mlserver => "model_infer_request_duration",
        Program::TfServing => ":tensorflow:serving:request_latency",
    };
    let (name, times) = only(&models, given, thing)?;
    let since = |now: &Histogram, before: Option<&Histogram>| match before {
        Some(before) => now.since(before),
        None => Ok(now.clone()),
    };
    let times = since(times, before.as_ref().and_then(|one| one.times.get(name)))?;
    let executions = times.count();
    let too_few = || {
        ProfileError(format!(
            "model {name}: {executions} requests; it must be {EXECUTIONS_MIN} or more"
        ))
    };
    if executions < EXECUTIONS_MIN as f64 {
        return Err(too_few());
    }
    let mean_ms = times.mean().ok_or_else(too_few)? * program.unit_ms();
    let mut notes = vec![
        "times are of requests and include the server's own queue and batch window".to_owned(),
    ];
    // The REST histogram names no model.
    let rest = match (&now.rest, models.len()) {
        (Some(rest), 1) => {
            let before = before.as_ref().and_then(|one| one.rest.as_ref());
            Some(since(rest, before)?)
        }
        _ => None,
    };
    let at = |percentile: Percentile| {
        let of = rest.as_ref().unwrap_or(&times);
        let enough = of.count() >= percentile.executions_min() as f64;
        let found = of.quantile(f64::from(percentile.percent()) / 100.0);
        // As a ratio to its own mean: the REST server's part is in the percentile, and not in the model's mean.
        let found = found
            .zip(of.mean())
            .filter(|(_, mean)| enough && *mean > 0.0);
        found.map(|(found, mean)| mean_ms * found.value / mean)
    };
    let [p80_ms, p95_ms, p99_ms] = Percentile::ALL.map(at);
    if p80_ms.is_none() {
        notes.push("no percentiles are known".to_owned());
    }
    Ok(Imported {
        measurements: vec![Measurement {
            cores: given.cores,
            batch: given.batch,
            mean_ms: Some(mean_ms),
            half_width_percent: times.half_width_percent(),
            p80_ms,
            p95_ms,
            p99_ms,
            executions: Some(executions as u64),
            ..Measurement::default()
        }],
        parallelism: None,
        notes,
    })
}

#[cfg(test)]
mod tests {
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
                "no model_infer_request_duration; is it the right",
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
}
