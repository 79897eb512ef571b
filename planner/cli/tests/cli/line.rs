//! Command line: positional files, completions, exit codes and errors without backtraces.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .env_remove("RUST_LOG")
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn old_flags_are_refused_with_the_new_form() {
    for (command, flag) in [
        ("serve", "--config"),
        ("replay", "--scenario"),
        ("solve", "--problem"),
        ("manifests", "--service"),
    ] {
        let old = format!("{flag}=file.yaml");
        for arguments in [&[command, flag, "file.yaml"][..], &[command, &old]] {
            let output = run(arguments);
            let stderr = text(&output.stderr);
            let tip = format!("the file is positional: weir {command} FILE");
            assert!(stderr.contains(flag) && stderr.contains(&tip), "{stderr}");
            assert_eq!(output.status.code(), Some(2), "{stderr}");
        }
    }
}

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let output = run(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0));
        let script = text(&output.stdout);
        for command in [
            "serve",
            "operate",
            "status",
            "top",
            "why",
            "doctor",
            "forecast",
            "train",
            "replay",
            "solve",
            "manifests",
            "check",
            "completions",
        ] {
            assert!(script.contains(command), "{shell}: no {command}");
        }
    }
}

#[test]
fn errors_of_files_have_no_backtrace() {
    for arguments in [
        &["serve", "planner/problems/ipa.yaml"][..],
        &["serve", "nobody.yaml"],
        &["replay", "planner/problems/ipa.yaml"],
        &["solve", "planner/service.example.yaml"],
        &["manifests", "planner/problems/ipa.yaml"],
        &["check", "nobody.yaml"],
    ] {
        let output = run(arguments);
        let stderr = text(&output.stderr);
        assert!(stderr.starts_with("error: "), "{stderr}");
        assert!(stderr.contains(arguments[1]), "{stderr}");
        assert_eq!(stderr.lines().count(), 1, "{stderr}");
        assert!(!stderr.to_lowercase().contains("backtrace"), "{stderr}");
        assert_eq!(output.status.code(), Some(1), "{stderr}");
    }
}

#[test]
fn help_has_the_exit_codes() {
    for arguments in [&["--help"][..], &["check", "--help"], &["solve", "--help"]] {
        let output = run(arguments);
        let stdout = text(&output.stdout);
        assert!(stdout.contains("Exit codes:\n  0  done"), "{stdout}");
        assert_eq!(output.status.code(), Some(0));
    }
    assert_eq!(run(&["solve"]).status.code(), Some(2));
    assert_eq!(
        run(&["check", "planner/problems/ipa.yaml"]).status.code(),
        Some(0)
    );
}

#[test]
fn json_is_printed_by_every_command_that_ends() {
    let json = |arguments: &[&str]| -> Value {
        let output = run(arguments);
        let stderr = text(&output.stderr);
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {stderr}"))
    };
    let service = "k8s/service.example.yaml";
    let made = json(&["manifests", service, "--istio", "--json"]);
    let files = made["files"].as_array().unwrap();
    let file = files
        .iter()
        .find(|file| file["path"] == "istio/gateway/resnet/gateway.yaml");
    assert_eq!(file.unwrap()["documents"][0]["kind"], "Gateway");
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap();
    let written = json(&["manifests", service, "--istio", "--json", "--out", out]);
    assert_eq!(written["files"].as_array().unwrap().len(), files.len());
    for file in written["files"].as_array().unwrap() {
        assert!(folder.path().join(file["path"].as_str().unwrap()).is_file());
    }
    let scenario = "planner/scenarios/capacity.yaml";
    let summary = json(&["replay", scenario, "--check", "--json"]);
    assert_eq!(summary["scenario"], "capacity");
    assert_eq!(summary["length_s"], 300.0);
    let answer = json(&["solve", "planner/problems/ipa.yaml", "--json"]);
    assert_eq!(answer["formulation"], "ipa");
    let checked = json(&["check", scenario, "--json"]);
    assert_eq!(checked["kind"], "scenario");
}
