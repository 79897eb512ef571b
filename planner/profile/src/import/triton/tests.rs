//! Readings in the form of Triton's statistics extension.

use serde_json::{Value, json};

use super::*;

/// Answer in the form of Triton's statistics extension.
const ANSWER: &str = r#"{"model_stats": [{"name": "digits", "version": "1", "last_inference": 1700000000000,
    "inference_count": 4100, "execution_count": 1105,
    "inference_stats": {
        "success": {"count": 4100, "ns": 90000000000}, "fail": {"count": 0, "ns": 0},
        "queue": {"count": 4100, "ns": 8200000000},
        "compute_input": {"count": 4100, "ns": 100000000}, "compute_infer": {"count": 4100, "ns": 80000000000},
        "compute_output": {"count": 4100, "ns": 100000000},
        "cache_hit": {"count": 0, "ns": 0}, "cache_miss": {"count": 0, "ns": 0}},
    "response_stats": {},
    "batch_stats": [
        {"batch_size": 1, "compute_input": {"count": 100, "ns": 50000000},
         "compute_infer": {"count": 100, "ns": 900000000}, "compute_output": {"count": 100, "ns": 50000000}},
        {"batch_size": 2, "compute_input": {"count": 5, "ns": 1}, "compute_infer": {"count": 5, "ns": 1},
         "compute_output": {"count": 5, "ns": 1}},
        {"batch_size": 4, "compute_input": {"count": 1000, "ns": 1000000000},
         "compute_infer": {"count": 1000, "ns": 28000000000}, "compute_output": {"count": 1000, "ns": 1000000000}}],
    "memory_usage": []}]}"#;

fn given(model: Option<&str>) -> Given {
    Given {
        cores: 4.0,
        batch: 1,
        model: model.map(str::to_owned),
        ..Given::default()
    }
}

#[test]
fn each_batch_with_enough_executions_is_a_measurement() {
    for model in [None, Some("digits")] {
        let found = import(ANSWER, None, &given(model)).unwrap();
        let measured: Vec<_> = found
            .measurements
            .iter()
            .map(|one| {
                (
                    one.cores,
                    one.batch,
                    one.mean_ms.unwrap(),
                    one.executions.unwrap(),
                )
            })
            .collect();
        assert_eq!(measured, [(4.0, 1, 10.0, 100), (4.0, 4, 30.0, 1000)]);
        let notes = found.notes.join("\n");
        assert!(
            notes.contains("batch 2 with 5")
                && notes.contains("waited 2.00 ms")
                && notes.contains("4100 inferences in 1105 executions: 3.71 in a batch"),
            "{notes}"
        );
    }
}

#[test]
fn wrong_answers_are_refused() {
    let empty = r#"{"model_stats": []}"#.to_owned();
    let idle = ANSWER
        .replace("\"count\": 1000", "\"count\": 3")
        .replace("\"count\": 100,", "\"count\": 3,");
    let twice = ANSWER.replacen(
        "[{\"name\"",
        &format!("[{},{{\"name\"", {
            let one = ANSWER.strip_prefix("{\"model_stats\": [").unwrap();
            one.strip_suffix("]}").unwrap()
        }),
        1,
    );
    let cut = ANSWER[..ANSWER.len() / 2].to_owned();
    for (text, model, expected) in [
        (empty, None, "no model_stats; is it the right --format?"),
        (
            idle,
            None,
            "model digits: too few executions: batch 1 with 3, batch 2 with 5, batch 4 with 3; it must be 30",
        ),
        (
            twice.clone(),
            None,
            "2 models; --model must name one of: digits, digits",
        ),
        (
            twice,
            Some("digits"),
            "--model digits: versions 1, 1; it must be one",
        ),
        (
            ANSWER.to_owned(),
            Some("x"),
            "--model x: no such model; it must be one of: digits",
        ),
        (
            "<html>".to_owned(),
            None,
            "expected value at line 1 column 1; it must be the answer of",
        ),
        (cut, None, "EOF while parsing"),
    ] {
        let error = import(&text, None, &given(model)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{expected}\n{error}");
    }
}

/// Later reading: 50 executions of batch 1 of 20 ms, and 100 of a batch of 8 of 40 ms, 800 requests of the cache.
fn later() -> Value {
    let mut answer: Value = serde_json::from_str(ANSWER).unwrap();
    let model = &mut answer["model_stats"][0];
    let add = |counters: &mut Value, count: u64, ns: u64| {
        for (key, more) in [("count", count), ("ns", ns)] {
            counters[key] = (counters[key].as_u64().unwrap() + more).into();
        }
    };
    model["inference_count"] = 4950.into();
    model["execution_count"] = 1255.into();
    let stats = &mut model["inference_stats"];
    add(&mut stats["queue"], 850, 850_000_000);
    add(&mut stats["cache_hit"], 800, 80_000);
    let batches = model["batch_stats"].as_array_mut().unwrap();
    add(&mut batches[0]["compute_infer"], 50, 1_000_000_000);
    add(&mut batches[0]["compute_input"], 50, 0);
    add(&mut batches[0]["compute_output"], 50, 0);
    let new = |ns: u64| json!({"count": 100, "ns": ns});
    let (infer, other) = (new(3_800_000_000), new(100_000_000));
    batches.push(
        json!({"batch_size": 8, "compute_input": other, "compute_infer": infer, "compute_output": other}),
    );
    answer
}

#[test]
fn increase_between_two_readings_counts() {
    let found = import(&later().to_string(), Some(ANSWER), &given(None)).unwrap();
    let measured: Vec<_> = found
        .measurements
        .iter()
        .map(|one| (one.batch, one.mean_ms.unwrap(), one.executions.unwrap()))
        .collect();
    assert_eq!(measured, [(1, 20.0, 50), (8, 40.0, 100)]);
    let notes = found.notes.join("\n");
    for expected in [
        "850 inferences in 150 executions: 5.67 in a batch",
        "800 answers came from the response cache",
        "waited 1.00 ms",
    ] {
        assert!(notes.contains(expected), "{expected}\n{notes}");
    }
    assert!(!notes.contains("left out, as"), "{notes}");
}

#[test]
fn readings_of_different_runs_are_refused() {
    let right = "the later reading must be of the same run of the server and its model";
    let fell = |counter: &str, before: u64, now: u64| {
        format!("model digits: {counter} fell from {before} to {now}; {right}")
    };
    let with = |path: &str, value: Value| {
        let mut answer = later();
        *answer.pointer_mut(path).unwrap() = value;
        answer.to_string()
    };
    let model = "/model_stats/0";
    for (now, earlier, expected) in [
        (
            ANSWER.to_owned(),
            later().to_string(),
            fell("batch_stats of batch 8", 100, 0),
        ),
        (
            with(&format!("{model}/inference_count"), 7.into()),
            ANSWER.to_owned(),
            fell("inference_count", 4100, 7),
        ),
        (
            with(&format!("{model}/execution_count"), 7.into()),
            ANSWER.to_owned(),
            fell("execution_count", 1105, 7),
        ),
        (
            with(&format!("{model}/inference_stats/queue/ns"), 7.into()),
            ANSWER.to_owned(),
            fell("inference_stats.queue.ns", 8_200_000_000, 7),
        ),
        (
            with(
                &format!("{model}/batch_stats/2/compute_infer/count"),
                7.into(),
            ),
            ANSWER.to_owned(),
            fell("batch_stats of batch 4: compute_infer.count", 1000, 7),
        ),
        (
            with(
                &format!("{model}/batch_stats/0/compute_output/ns"),
                7.into(),
            ),
            ANSWER.to_owned(),
            fell("batch_stats of batch 1: compute_output.ns", 50_000_000, 7),
        ),
        (
            with(&format!("{model}/version"), "2".into()),
            ANSWER.to_owned(),
            "model digits, version '2': not in the earlier reading".to_owned(),
        ),
        (
            ANSWER.to_owned(),
            "<html>".to_owned(),
            "the earlier reading: expected value at line 1".to_owned(),
        ),
        (
            ANSWER.to_owned(),
            ANSWER.to_owned(),
            "model digits: no executions; it must be 30 or more of a batch".to_owned(),
        ),
    ] {
        let error = import(&now, Some(&earlier), &given(None)).unwrap_err();
        let error = error.to_string();
        assert!(error.starts_with(&expected), "{expected}\n{error}");
    }
}
