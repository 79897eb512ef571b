//! Commands in the documentation: their tasks, options, packages, tests and files exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tree::{files, files_with, read, root};

/// Checks a command line if its program is the project's, cargo or kubectl; returns whether it is.
pub(super) fn check(line: &str, at: &str) -> bool {
    let line = line.split_once(" # ").map_or(line, |(line, _)| line);
    let words: Vec<_> = line
        .split_whitespace()
        .skip_while(|word| is_assignment(word))
        .collect();
    match &*words {
        ["cargo", "xtask", task, arguments @ ..] => check_xtask(task, arguments, at),
        ["cargo", "test", arguments @ ..] => check_tests(arguments, at),
        ["weir", command, arguments @ ..] if is_word(command) => {
            let source = format!("planner/cli/src/{command}.rs");
            assert!(
                root().join(&source).is_file(),
                "{at}: no command weir {command}"
            );
            check_options(&[read(source)], arguments, at);
        }
        ["kubectl", ..] => {}
        _ => return false,
    }
    for word in words {
        check_path(word, at);
    }
    true
}

/// Checks that a word exists if it looks like a path of the project.
pub(super) fn check_path(word: &str, at: &str) {
    const FOLDERS: [&str; 9] = [
        "docs", "envoy", "filter", "istio", "k8s", "planner", "tests", "xtask", ".ci",
    ];
    let is_path = word
        .split_once('/')
        .is_some_and(|(folder, _)| FOLDERS.contains(&folder));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./-_".contains(c);
    if is_path && word.chars().all(is_plain) {
        assert!(root().join(word).exists(), "{at}: no file {word}");
    }
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    })
}

fn is_word(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase())
}

/// Checks a task, and its options if the project reads them.
fn check_xtask(task: &str, arguments: &[&str], at: &str) {
    let main = read("xtask/src/main.rs");
    let (_, tasks) = main.split_once("enum Task {").unwrap();
    let (tasks, _) = tasks.split_once("\n}").unwrap();
    let tasks: BTreeSet<String> = tasks
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(kebab)
        .collect();
    assert!(tasks.contains("demo") && tasks.contains("check-board"));
    assert!(tasks.contains(task), "{at}: no task {task}");
    let sources = |folder: &str| -> Vec<String> {
        let in_folder = |path: &&std::path::PathBuf| path.starts_with(folder);
        let sources = files_with(&["rs"]);
        sources.iter().filter(in_folder).map(read).collect()
    };
    match task {
        "demo" | "up" => check_options(&sources("tests/demo/src"), arguments, at),
        "workers" | "validate" | "kube" => {
            check_options(&sources("tests/measure/src"), arguments, at);
        }
        "test" => check_tests(arguments, at),
        "setup" | "soak" | "image" => check_options(&sources("xtask/src"), arguments, at),
        _ => {}
    }
}

/// Returns `check-board` for `CheckBoard(…)`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars().take_while(|c| c.is_alphanumeric()) {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}

/// Checks that each `--option` is a field of the arguments in one of these sources.
fn check_options(sources: &[String], arguments: &[&str], at: &str) {
    for argument in arguments {
        let Some(option) = argument.strip_prefix("--") else {
            continue;
        };
        let name: String = option
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect();
        let field = format!("{}:", name.replace('-', "_"));
        let is_there = sources.iter().any(|source| {
            source.lines().any(|line| {
                line.trim()
                    .trim_start_matches("pub(crate) ")
                    .starts_with(&field)
            })
        });
        assert!(is_there, "{at}: no option --{name}");
    }
}

/// Checks that the packages and tests of `-p PACKAGE` and `--test NAME` exist.
fn check_tests(arguments: &[&str], at: &str) {
    let manifests: Vec<_> = files()
        .into_iter()
        .filter(|path| path.ends_with("Cargo.toml"))
        .collect();
    for pair in arguments.windows(2) {
        match *pair {
            ["-p" | "--package", name] => {
                let line = format!("name = \"{name}\"\n");
                let is_there = manifests.iter().any(|path| read(path).contains(&line));
                assert!(is_there, "{at}: no package {name}");
            }
            ["--test", name] => {
                let line = format!("name = \"{name}\"\n");
                let is_there = manifests.iter().any(|path| {
                    let folder = path.parent().unwrap_or(Path::new("")).join("tests");
                    let is_found = root().join(folder.join(format!("{name}.rs"))).is_file()
                        || root().join(folder.join(name).join("main.rs")).is_file();
                    is_found || read(path).contains(&line)
                });
                assert!(is_there, "{at}: no test {name}");
            }
            _ => {}
        }
    }
}
