//! Commands in the documentation: their tasks, options, packages, tests and files exist.

use std::collections::BTreeSet;
use std::path::Path;

use crate::tree::{files, files_with, read, root};

/// Problems of a line that must be a command of the project, of cargo or of kubectl.
pub(super) fn check_or_refuse(line: &str) -> Vec<String> {
    check(line).unwrap_or_else(|| vec![format!("mark it sh,unchecked: {line}")])
}

/// Problems of a command of the project, of cargo or of kubectl; none for any other text.
pub(super) fn check(line: &str) -> Option<Vec<String>> {
    let line = line.split_once(" # ").map_or(line, |(line, _)| line);
    let words: Vec<_> = line
        .split_whitespace()
        .skip_while(|word| is_assignment(word))
        .collect();
    let mut problems = match &*words {
        ["cargo", "xtask", task, arguments @ ..] => check_task(task, arguments),
        ["cargo", "test", arguments @ ..] => check_tests(arguments),
        ["weir", command, arguments @ ..] if is_lower(command) => {
            let source = format!("planner/cli/src/{command}.rs");
            if root().join(&source).is_file() {
                let folder = format!("planner/cli/src/{command}");
                let mut sources = files_with(&["rs"]);
                sources.retain(|path| path.starts_with(&folder));
                let parts = sources.iter().map(read);
                let mut all: Vec<String> = parts.chain([read(source)]).collect();
                // Arguments of several commands.
                for (arguments, source) in
                    [("TraceArguments", "trace"), ("PlannerArguments", "inspect")]
                {
                    if all.iter().any(|source| source.contains(arguments)) {
                        all.push(read(format!("planner/cli/src/{source}.rs")));
                    }
                }
                check_options(&all, arguments)
            } else {
                vec![format!("no command weir {command}")]
            }
        }
        ["kubectl", ..] => Vec::new(),
        _ => return None,
    };
    problems.extend(words.iter().flat_map(|word| check_path(word)));
    Some(problems)
}

/// The problem of a word that looks like a path of the project and is none.
pub(super) fn check_path(word: &str) -> Vec<String> {
    const FOLDERS: [&str; 9] = [
        "docs", "envoy", "filter", "istio", "k8s", "planner", "tests", "xtask", ".ci",
    ];
    let is_path = word
        .split_once('/')
        .is_some_and(|(folder, _)| FOLDERS.contains(&folder));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "./-_".contains(c);
    if is_path && word.chars().all(is_plain) && !root().join(word).exists() {
        return vec![format!("no file {word}")];
    }
    Vec::new()
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    })
}

fn is_lower(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_lowercase())
}

/// Problems of a task, and of its options if the project reads them.
fn check_task(task: &str, arguments: &[&str]) -> Vec<String> {
    let main = read("xtask/src/main.rs");
    let (_, tasks) = main.split_once("enum Task {").unwrap();
    let (tasks, _) = tasks.split_once("\n}").unwrap();
    let tasks: BTreeSet<String> = tasks
        .lines()
        .map(str::trim)
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(kebab)
        .collect();
    assert!(tasks.contains("demo") && tasks.contains("check-slot-table"));
    if !tasks.contains(task) {
        return vec![format!("no task {task}")];
    }
    let sources = |folder: &str| -> Vec<String> {
        let sources = files_with(&["rs"]);
        let in_folder = sources.iter().filter(|path| path.starts_with(folder));
        in_folder.map(read).collect()
    };
    match task {
        "demo" | "up" => check_options(&sources("tests/demo/src"), arguments),
        "workers" | "validate" | "kube" => check_options(&sources("tests/measure/src"), arguments),
        "setup" | "soak" | "image" => check_options(&sources("xtask/src"), arguments),
        "test" => check_tests(arguments),
        _ => Vec::new(),
    }
}

/// Returns `check-slot-table` for `CheckSlotTable(…)`.
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

/// Problems of options: each `--option` is a field of the arguments in one of these sources.
fn check_options(sources: &[String], arguments: &[&str]) -> Vec<String> {
    let is_field = |line: &str, field: &str| {
        let line = line.trim().trim_start_matches("pub(crate) ");
        let line = line.trim_start_matches("r#");
        line.starts_with(field)
    };
    let mut problems = Vec::new();
    for option in arguments.iter().filter_map(|word| word.strip_prefix("--")) {
        let name: String = option
            .chars()
            .take_while(|c| c.is_ascii_lowercase() || *c == '-')
            .collect();
        let field = format!("{}:", name.replace('-', "_"));
        let mut lines = sources.iter().flat_map(|source| source.lines());
        if !lines.any(|line| is_field(line, &field)) {
            problems.push(format!("no option --{name}"));
        }
    }
    problems
}

/// Problems of `-p PACKAGE` and `--test NAME`: both exist.
fn check_tests(arguments: &[&str]) -> Vec<String> {
    let mut manifests = files();
    manifests.retain(|path| path.ends_with("Cargo.toml"));
    let mut problems = Vec::new();
    for pair in arguments.windows(2) {
        let (what, name) = match *pair {
            ["-p" | "--package", name] => ("package", name),
            ["--test", name] => ("test", name),
            _ => continue,
        };
        let line = format!("name = \"{name}\"\n");
        let exists = manifests.iter().any(|path| {
            let tests = path.parent().unwrap_or(Path::new("")).join("tests");
            let is_file = [format!("{name}.rs"), format!("{name}/main.rs")]
                .iter()
                .any(|file| what == "test" && root().join(&tests).join(file).is_file());
            is_file || read(path).contains(&line)
        });
        if !exists {
            problems.push(format!("no {what} {name}"));
        }
    }
    problems
}
