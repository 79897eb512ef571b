//! Tests of the demand's seasons and models.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use weir_forecast::lstm::WEIGHTS;
use weir_forecast::lstm::file::Facts;
use weir_forecast::model::Kind;

use super::*;
use crate::service::Service;
use crate::spec::tests::{service, small};
use crate::spec::{ServiceFile, ServiceSpec};

/// Horizon of the small service.
fn horizon_of_small() -> usize {
    let readiness = service(8).variants.iter().map(|one| one.readiness).max();
    horizon(readiness.unwrap())
}

fn model(horizon_s: usize) -> String {
    let facts = Facts {
        date: "2026-11-26".to_owned(),
        trace: "load.txt".to_owned(),
        trace_sha256: "00".repeat(32),
        seconds: 6000,
        horizon_s,
        windows: 1000,
        epochs: 1,
        seed: 1,
        loss: 0.1,
        smape_percent: 7.0,
    };
    let network = Network::new(vec![0.25; WEIGHTS]).unwrap();
    ModelFile { facts, network }.write().unwrap()
}

/// Folder with `model.json`, which fits the small service.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("model.json"), model(horizon_of_small())).unwrap();
    folder
}

/// Reads the small service with that `demand` as a file in the folder.
fn read(folder: &TempDir, demand: &Value) -> Result<Service, ConfigError> {
    let mut written: Value = serde_saphyr::from_str(&small()).unwrap();
    written["demand"] = demand.clone();
    let path: PathBuf = folder.path().join("service.yaml");
    let spec = ServiceSpec::from_file(&path, &written.to_string())?;
    Ok(ServiceFile::try_from(spec)?.service)
}

#[test]
fn forecasters_have_the_season_and_the_model_that_are_given() {
    let folder = folder();
    let always = [Kind::Last, Kind::Maximum, Kind::Smoothing, Kind::Linear];
    for (demand, kinds, season, has_model) in [
        (
            json!({"forecaster": "lstm", "model": "model.json"}),
            vec![Kind::Lstm],
            None,
            true,
        ),
        (
            json!({"forecaster": "seasonal", "season": "24h"}),
            vec![Kind::Seasonal],
            Some(86_400),
            false,
        ),
        (json!({"forecaster": "auto"}), always.to_vec(), None, false),
        (
            json!({"forecaster": "auto", "season": "1m", "model": "model.json"}),
            [&always[..], &[Kind::Seasonal, Kind::Lstm]].concat(),
            Some(60),
            true,
        ),
    ] {
        let ahead = read(&folder, &demand).unwrap().demand.ahead.unwrap();
        assert_eq!(ahead.forecasters, kinds, "{demand}");
        assert_eq!(ahead.season.map(Season::seconds), season, "{demand}");
        let weights = ahead.network.map(|network| network.weights().to_vec());
        assert_eq!(weights, has_model.then(|| vec![0.25; WEIGHTS]), "{demand}");
    }
}

#[test]
fn invalid_model_is_refused_with_file_reason_and_what_is_right() {
    let folder = folder();
    let horizon = horizon_of_small();
    let right = model(horizon);
    let weight = right.rfind("0.25").unwrap();
    let [head, tail] = [&right[..weight], &right[weight + 4..]];
    for (content, expected) in [
        (right[..right.len() / 2].to_owned(), "(no model file: EOF"),
        ("{}".to_owned(), "(no model file: missing field `format`"),
        ("latency: {meanMs: 1}".to_owned(), "(no model file: "),
        (String::new(), "(no model file: EOF"),
        (
            right.replace("weir-lstm/1", "weir-lstm/2"),
            "(format: weir-lstm/2; it must be weir-lstm/1); it must be the path of a model file of weir train",
        ),
        (format!("{head}1e99{tail}"), "(weights: "),
        (
            " ".repeat(BYTES_MAX + 1),
            "(1048577 bytes; it must be at most 1048576)",
        ),
        (
            model(horizon + 1),
            &*format!(
                "(trained for a horizon of {}s); it must be a model of weir train --horizon {horizon}s",
                horizon + 1
            ),
        ),
    ] {
        std::fs::write(folder.path().join("wrong.json"), &content).unwrap();
        for forecaster in ["lstm", "auto"] {
            let demand = json!({"forecaster": forecaster, "model": "wrong.json"});
            let error = read(&folder, &demand).unwrap_err().to_string();
            let begin = format!("demand.model: wrong.json {expected}");
            assert!(error.starts_with(&begin), "{error}");
        }
    }
    std::fs::write(folder.path().join("wrong.json"), [0xff, 0xfe, 0x00]).unwrap();
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    for file in ["wrong.json", "folder", "nobody.json", ""] {
        let demand = json!({"forecaster": "lstm", "model": file});
        let error = read(&folder, &demand).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("demand.model: {file} (")),
            "{error}"
        );
        assert!(error.ends_with(MODEL_RIGHT), "{error}");
    }
}

#[test]
fn season_or_model_that_is_missing_or_unused_is_refused() {
    let folder = folder();
    for (demand, expected) in [
        (
            json!({"forecaster": "lstm"}),
            "demand.model: missing; it must be the path of a model file of weir train",
        ),
        (
            json!({"forecaster": "linear", "model": "model.json"}),
            "demand.model: model.json; it must be left out, or demand.forecaster lstm or auto",
        ),
        (
            json!({"forecaster": "seasonal"}),
            "demand.season: missing; it must be a duration such as 24h",
        ),
        (
            json!({"season": "1h"}),
            "demand.season: 1h; it must be left out, or demand.forecaster seasonal or auto",
        ),
        (
            json!({"forecaster": "auto", "season": "59s"}),
            "demand.season: 59s; it must be 1m to 168h, in whole seconds",
        ),
        (
            json!({"forecaster": "seasonal", "season": "168h1s"}),
            "demand.season: 168h1s; it must be 1m to 168h, in whole seconds",
        ),
        (
            json!({"forecaster": "seasonal", "season": "60500ms"}),
            "demand.season: 1m0.5s; it must be 1m to 168h, in whole seconds",
        ),
    ] {
        let error = read(&folder, &demand).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn resource_has_seasons_and_no_model() {
    let of_resource = |demand: Value| {
        let mut written: Value = serde_saphyr::from_str(&small()).unwrap();
        written["demand"] = demand;
        for key in ["service", "listen", "keyEnv"] {
            written.as_object_mut().unwrap().remove(key);
        }
        let spec = ServiceSpec::from_yaml(&written.to_string()).unwrap();
        Service::from_resource("demo", spec)
    };
    let service = of_resource(json!({"forecaster": "seasonal", "season": "1h"})).unwrap();
    assert_eq!(service.demand.ahead.unwrap().forecasters, [Kind::Seasonal]);
    for (demand, expected) in [
        (
            json!({"forecaster": "lstm"}),
            "demand.forecaster: lstm; it must be another one: lstm is for service files",
        ),
        (
            json!({"forecaster": "auto", "model": "model.json"}),
            "demand.model: model.json; it must be left out: it is for service files",
        ),
    ] {
        let error = of_resource(demand).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    // A model is read from beside a file, and not before the file is known.
    let text = small().replacen(
        "mode: active",
        "demand: {forecaster: lstm, model: m.json}",
        1,
    );
    let error = Service::from_yaml(&text).unwrap_err().to_string();
    assert!(
        error.starts_with("demand.model: m.json; it must be"),
        "{error}"
    );
}
