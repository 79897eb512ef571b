//! House rules: the README names what there is, files stay small, nothing points at one machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_api::metrics::Metric;
use weir_filter::reason::Reason;
use weir_filter::request::wire::Field;

/// Longest source file, in lines, tests beside the code included.
const LINES_MAX: usize = 450;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .to_owned()
}

fn readme() -> String {
    fs::read_to_string(root().join("README.md")).unwrap()
}

/// Files that git tracks, or would.
fn files() -> Vec<PathBuf> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .expect("git");
    let names = String::from_utf8(listed.stdout).unwrap();
    let files: Vec<_> = names
        .lines()
        .map(|name| root().join(name))
        .filter(|p| p.is_file())
        .collect();
    assert!(files.len() > 50, "git lists {} files", files.len());
    files
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    path.extension()
        .is_some_and(|e| extensions.iter().any(|wanted| e == *wanted))
}

#[test]
fn the_readme_names_every_reason_with_its_status() {
    let readme = readme();
    for reason in Reason::ALL {
        let (label, status) = (
            format!("`{}`", reason.label()),
            format!("| {} |", reason.status()),
        );
        let row = |line: &&str| line.starts_with('|') && line.contains(&label);
        let found = readme
            .lines()
            .filter(row)
            .any(|line| line.contains(&status));
        assert!(found, "no row with {label} and {status}");
    }
}

#[test]
fn the_readme_names_every_header_and_metric() {
    let readme = readme();
    for field in Field::ALL {
        assert!(
            readme.contains(&format!("`{}`", field.name())),
            "{}",
            field.name()
        );
    }
    for metric in Metric::ALL {
        let name = metric.name().strip_prefix("weir_").unwrap();
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn the_readme_names_every_dependency() {
    let readme = readme();
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let (_, after) = manifest.split_once("[workspace.dependencies]").unwrap();
    let (section, _) = after.split_once("\n[").unwrap();
    let named = readme.split_once("## Dependencies").unwrap().1;
    let mut count = 0;
    for line in section.lines().filter(|line| line.contains('=')) {
        let name = line.split('=').next().unwrap().trim();
        if name.starts_with("weir-") {
            continue;
        }
        count += 1;
        assert!(
            named
                .split(|c: char| !(c.is_alphanumeric() || "-_".contains(c)))
                .any(|word| word == name),
            "{name} is not in the table of dependencies"
        );
    }
    assert!(count > 20, "{count}");
}

#[test]
fn files_stay_small_and_say_what_they_are() {
    for path in files().iter().filter(|path| has_extension(path, &["rs"])) {
        let text = fs::read_to_string(path).unwrap();
        let lines = text.lines().count();
        assert!(lines <= LINES_MAX, "{}: {lines} lines", path.display());
        assert!(
            text.starts_with("//!"),
            "{} does not say what it is",
            path.display()
        );
    }
}

#[test]
fn nothing_points_at_one_machine() {
    let homes = ["/root/", "/work/", "/home/"];
    for path in files() {
        if !has_extension(&path, &["rs", "toml", "yaml", "md", "txt"]) || path.ends_with("tidy.rs")
        {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for home in homes {
            assert!(!text.contains(home), "{} names {home}", path.display());
        }
    }
}
