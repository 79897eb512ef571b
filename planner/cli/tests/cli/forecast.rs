//! `weir forecast` and `weir train` as separate processes, on traces of the test's own.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .unwrap()
}

fn error(folder: &Path, arguments: &[&str]) -> String {
    let output = run(folder, arguments);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    String::from_utf8(output.stderr).unwrap()
}

fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Rate that swings, with noise of a linear congruential generator.
fn rates(seconds: u32) -> Vec<u32> {
    let mut state = 12_345_u32;
    let rate = |at: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let swing = (at % 900).abs_diff(450) / 15;
        30 + swing + (state >> 16) % 16
    };
    (0..seconds).map(rate).collect()
}

/// Folder with a trace of that many seconds as `load.txt`.
fn folder(seconds: u32) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &rates(seconds));
    folder
}

fn write(folder: &Path, rates: &[u32]) {
    let lines = rates.iter().map(|rate| format!("{rate}\n"));
    fs::write(folder.join("load.txt"), lines.collect::<String>()).unwrap();
}

#[test]
fn all_forecasters_are_scored_and_drawn() {
    let folder = folder(9000);
    let path = folder.path();
    let forecast = ["forecast", "--trace", "load.txt", "--train", "1h30m"];
    let with_plot = [&forecast[..], &["--plot", "plot.svg"]].concat();
    let table = stdout(&run(path, &with_plot));
    for name in ["last", "maximum", "smoothing", "linear", "seasonal", "auto"] {
        assert!(table.contains(name), "{table}");
    }
    assert!(
        table.contains("180 forecasts of each") && !table.contains("lstm"),
        "{table}"
    );
    let svg = fs::read_to_string(path.join("plot.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("seasonal"), "{svg}");
    let json = stdout(&run(path, &[&forecast[..], &["--json"]].concat()));
    let report: Value = serde_json::from_str(&json).unwrap();
    let scores = report["scores"].as_array().unwrap();
    let smape = |name: &str| {
        let score = scores.iter().find(|score| score["forecaster"] == name);
        score.unwrap()["smape_percent"].as_f64().unwrap()
    };
    assert!(smape("linear") < smape("last") / 2.0, "{json}");
    // The load swings every 15 minutes.
    let json = stdout(&run(
        path,
        &[&forecast[..], &["--json", "--season", "15m"]].concat(),
    ));
    let report: Value = serde_json::from_str(&json).unwrap();
    let scores = report["scores"].as_array().unwrap();
    let loss = |name: &str| {
        let score = scores.iter().find(|score| score["forecaster"] == name);
        score.unwrap()["pinball_rps"].as_f64().unwrap()
    };
    assert!(loss("seasonal") < loss("smoothing"), "{json}");
}

#[test]
fn gaps_are_refused_with_their_place_unless_they_are_named() {
    let folder = folder(0);
    let path = folder.path();
    let mut rates = rates(9000);
    rates[4000..4100].fill(0);
    write(path, &rates);
    let forecast = ["forecast", "--trace", "load.txt"];
    let message = error(path, &forecast);
    let right = "load.txt: seconds 4000 to 4099: 0 requests/s for 100 s";
    assert!(
        message.contains(right)
            && message.contains("(skip) or be without requests (zero) with --gaps"),
        "{message}"
    );
    for gaps in ["skip", "zero"] {
        let table = stdout(&run(path, &[&forecast[..], &["--gaps", gaps]].concat()));
        let count = if gaps == "skip" {
            "1 gaps of 100 s"
        } else {
            "0 gaps of 0 s"
        };
        assert!(table.contains(count), "{table}");
    }
}

#[test]
fn invalid_traces_and_arguments_are_refused_with_place_and_value() {
    let folder = folder(3000);
    let path = folder.path();
    for (name, text) in [
        ("text.txt", "5\n6\nmany\n"),
        ("negative.txt", "5\n-6\n"),
        ("nan.txt", "5\nNaN\n"),
        ("infinite.csv", "second,rps\n0,5\n1,inf\n"),
        ("missing.txt", "5\n\n6\n"),
        ("short.txt", "5\n6\n"),
        ("model.json", "{}"),
    ] {
        fs::write(path.join(name), text).unwrap();
    }
    for (arguments, message) in [
        (
            &["--trace", "text.txt"][..],
            "text.txt: line 3: 'many' must be 0 to 100000 requests/s",
        ),
        (&["--trace", "negative.txt"], "line 2: '-6' must be"),
        (&["--trace", "nan.txt"], "line 2: 'NaN' must be"),
        (
            &["--trace", "infinite.csv", "--column", "rps"],
            "line 3: 'inf' must be",
        ),
        (
            &["--trace", "infinite.csv"],
            "infinite.csv: several columns; name one of second, rps with --column",
        ),
        (&["--trace", "missing.txt"], "line 2: 'nothing' must be"),
        (
            &["--trace", "short.txt"],
            "short.txt: 2 s; it must be 2120 to 4838400 s",
        ),
        (&["--trace", "nobody.txt"], "nobody.txt"),
        (
            &["--trace", "load.txt", "--horizon", "3m"],
            "horizon: 180 s; it must be 1 to 120 s",
        ),
        (
            &["--trace", "load.txt", "--horizon", "1500ms"],
            "--horizon: 1.5s; it must be whole seconds",
        ),
        (
            &["--trace", "load.txt", "--quantile", "1"],
            "quantile: 1; it must be 0.5 to 0.999",
        ),
        (
            &["--trace", "load.txt", "--train", "1h"],
            "--train: 1h; it must be 120s to 1000s",
        ),
        (
            &["--trace", "load.txt", "--season", "30s"],
            "season: 30 s; it must be 60 to 604800 s",
        ),
        (
            &["--trace", "load.txt", "--season", "61500ms"],
            "--season: 1m1.5s; it must be whole seconds",
        ),
        (
            &["--trace", "load.txt", "--model", "model.json"],
            "error: --model model.json: no model file: missing field `format` at line 1 column 2\n",
        ),
        (
            &["--trace", "load.txt", "--plot", "load.txt/a.svg"],
            "error: --plot: load.txt/a.svg: Not a directory (os error 20)\n",
        ),
    ] {
        let stderr = error(path, &[&["forecast"], arguments].concat());
        assert!(stderr.contains(message), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
    }
}

#[test]
fn trained_model_is_reproducible_and_forecasts() {
    let folder = folder(9000);
    let path = folder.path();
    let train = [
        "train", "--trace", "load.txt", "--train", "1h30m", "--epochs", "2", "--out",
    ];
    let model = |name: &str| -> Value {
        stdout(&run(path, &[&train[..], &[name]].concat()));
        serde_json::from_str(&fs::read_to_string(path.join(name)).unwrap()).unwrap()
    };
    let (one, other) = (model("one.json"), model("other.json"));
    assert_eq!(one["weights"], other["weights"]);
    let facts = &one["facts"];
    assert_eq!(
        (&facts["horizon_s"], &facts["windows"]),
        (&Value::from(20), &Value::from(1053))
    );
    assert_eq!(facts["trace_sha256"].as_str().unwrap().len(), 64);
    // Nobody, not even root, can write below a file.
    let below = error(path, &[&train[..], &["load.txt/one.json"]].concat());
    let expected = "error: --out: load.txt/one.json: Not a directory (os error 20)\n";
    assert_eq!(below, expected);
    let again = error(path, &[&train[..], &["one.json"]].concat());
    assert!(again.contains("one.json: it exists; --replace"), "{again}");
    let forecast = [
        "forecast", "--trace", "load.txt", "--train", "1h30m", "--model", "one.json",
    ];
    assert!(stdout(&run(path, &forecast)).contains("lstm"));
    let longer = error(path, &[&forecast[..], &["--horizon", "30s"]].concat());
    assert!(
        longer.contains("trained for a horizon of 20 s; it must be 30 s"),
        "{longer}"
    );
    let short = error(
        path,
        &[
            "train",
            "--trace",
            "load.txt",
            "--train",
            "20m",
            "--out",
            "short.json",
        ],
    );
    assert!(
        short.contains("213 windows without a gap; there must be 500 at least"),
        "{short}"
    );
}
