//! The `console` blocks of the reference: each shows exactly what its command line prints on the standard output.
//! `WEIR_GOLDEN=renew` writes them anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn page_of_problems_shows_actual_output() {
    page_shows_actual_output("docs/reference/solve.md");
}

#[test]
fn page_of_commands_shows_actual_output() {
    page_shows_actual_output("docs/reference/command-line.md");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page_shows_actual_output(page: &str) {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let (mut renewed, mut commands) = (String::new(), 0);
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        renewed += &format!("{line}\n");
        if line != "```console" {
            continue;
        }
        let command = lines.next().and_then(|line| line.strip_prefix("$ "));
        let command = command.expect("a command after ```console");
        for shown in lines.by_ref() {
            if shown == "```" {
                break;
            }
        }
        renewed += &format!("$ {command}\n{}```\n", printed(command));
        commands += 1;
    }
    assert!(commands > 5, "{page}: {commands} commands");
    if std::env::var_os("WEIR_GOLDEN").is_some_and(|value| value == "renew") {
        fs::write(root().join(page), &renewed).unwrap();
        return;
    }
    for (number, (shown, printed)) in (1..).zip(text.lines().zip(renewed.lines())) {
        assert_eq!(shown, printed, "{page}:{number}");
    }
    assert_eq!(text, renewed);
}

/// Standard output of a command line of a page, run in the repository's root.
fn printed(line: &str) -> String {
    let program = Path::new(env!("CARGO_BIN_EXE_weir"));
    let mut path = program.parent().unwrap().as_os_str().to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("PATH", path);
    command.env_remove("RUST_LOG").env("RUST_BACKTRACE", "0");
    let output = command.current_dir(root()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.stdout.is_empty(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}
