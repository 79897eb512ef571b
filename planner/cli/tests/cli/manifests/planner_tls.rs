//! TLS of the planner: its options, and the flags that they give it.

use std::process::Command;

use serde_json::Value;

use super::{TARGETS, files, made_in, refuses};

#[test]
fn planner_with_tls_has_flags_that_it_takes() {
    let service = "k8s/service.example.yaml";
    let options = [
        "--planner-tls-secret",
        "cert",
        "--planner-ca-secret",
        "ca",
        "--planner-tls-name",
        "planner.example",
    ];
    let folder = tempfile::tempdir().unwrap();
    for target in TARGETS {
        made_in(folder.path(), &[&[target, service][..], &options].concat());
    }
    let made = files(folder.path());
    let command = format!("`weir manifests --kubernetes {}`", options.join(" "));
    assert!(
        made["k8s/base/deployment.yaml"].contains(&command),
        "{command}"
    );
    let deployment: Value = serde_saphyr::from_str(&made["k8s/base/deployment.yaml"]).unwrap();
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let arguments = container["args"].as_array().unwrap().iter();
    let arguments: Vec<&str> = arguments
        .map(|argument| argument.as_str().unwrap())
        .collect();
    assert!(
        arguments.contains(&"--tls-ca") && arguments.contains(&"--tls-name"),
        "{arguments:?}"
    );
    // A wrong command line would be code 2; this planner lacks its key file alone.
    let output = Command::new(env!("CARGO_BIN_EXE_weir"))
        .args(&arguments)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("--key-file /etc/weir/key"), "{stderr}");

    for (arguments, expected) in [
        (
            &["--planner-tls-secret", "A"][..],
            "--planner-tls-secret: A; it must be the name of a Secret",
        ),
        (&["--planner-ca-secret", "a"], "--planner-tls-secret <NAME>"),
        (&["--planner-tls-name", "a"], "--planner-tls-secret <NAME>"),
    ] {
        refuses(&[&[service][..], arguments].concat(), &[expected]);
    }
}
