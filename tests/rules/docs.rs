//! The documentation names everything there is: reasons, headers, metrics, dependencies, tests, pages.

use std::path::Path;

use weir_api::metrics::Metric;
use weir_filter::reason::Reason;
use weir_filter::request::wire::Field;

use crate::tree::{files, files_with, read};

/// Rows of the first table of a page, without its head.
fn rows(page: &str) -> Vec<&str> {
    let is_row = |line: &&str| line.starts_with("| ");
    page.lines()
        .skip_while(|line| !is_row(line))
        .take_while(|line| line.starts_with('|'))
        .filter(is_row)
        .skip(1)
        .collect()
}

#[test]
fn refusals_name_every_reason_with_its_status() {
    let page = read("docs/reference/refusals.md");
    for reason in Reason::ALL {
        let (label, status) = (
            format!("| `{}` |", reason.label()),
            format!("| {} |", reason.status()),
        );
        let found = rows(&page)
            .into_iter()
            .any(|row| row.starts_with(&label) && row.contains(&status));
        assert!(found, "no row with {label} and {status}");
    }
}

#[test]
fn references_name_every_header_and_metric() {
    let headers = read("docs/reference/headers.md");
    for field in Field::ALL {
        let name = format!("`{}`", field.name());
        assert!(headers.contains(&name), "{name}");
    }
    let metrics = read("docs/reference/metrics.md");
    for metric in Metric::ALL {
        let name = metric.name().strip_prefix("weir_").unwrap();
        assert!(metrics.contains(&format!("`{name}`")), "{name}");
    }
}

#[test]
fn dependencies_have_their_reasons() {
    let page = read("docs/contributing/dependencies.md");
    let manifest = read("Cargo.toml");
    let (_, after) = manifest.split_once("[workspace.dependencies]").unwrap();
    let (section, _) = after.split_once("\n[").unwrap();
    let mut count = 0;
    for line in section.lines().filter(|line| line.contains('=')) {
        let name = line.split('=').next().unwrap().trim();
        if name.starts_with("weir-") || name.starts_with('#') {
            continue;
        }
        count += 1;
        let is_named = page
            .split(|c: char| !(c.is_alphanumeric() || "-_".contains(c)))
            .any(|word| word == name);
        assert!(is_named, "{name} is not in the table of dependencies");
    }
    assert!(count > 20, "{count}");
}

/// Each row's last cell names tests as `file`: beginning_of_a_name…, another_…
#[test]
fn failures_name_tests_that_exist() {
    let page = read("docs/reference/failures.md");
    let rows = rows(&page);
    assert!(rows.len() > 10, "{} rows", rows.len());
    let sources = files_with(&["rs"]);
    for row in rows {
        let tests = row.trim_end_matches(" |").rsplit(" | ").next().unwrap();
        let mut texts = Vec::new();
        for test in tests.split(", ") {
            let name = match test.split_once(": ") {
                Some((file, name)) => {
                    let name_of = file.trim_matches('`');
                    let file = format!("{name_of}.rs");
                    // A test of its own is a folder of that name.
                    let own = format!("tests/{name_of}/main.rs");
                    texts = sources
                        .iter()
                        .filter(|path| path.starts_with("tests") || path.starts_with("filter"))
                        .filter(|path| {
                            path.file_name().is_some_and(|name| name == &*file)
                                || path.ends_with(&own)
                        })
                        .map(read)
                        .collect();
                    assert!(!texts.is_empty(), "{row}: no file {file}");
                    name
                }
                None => test,
            };
            let begins = format!("fn {}", name.trim_end_matches('…'));
            let exists = texts.iter().any(|text| text.contains(&begins));
            assert!(exists, "{row}: no test '{begins}'");
        }
    }
}

#[test]
fn summary_lists_every_page() {
    let summary = read("docs/SUMMARY.md");
    for path in files() {
        let Ok(page) = path.strip_prefix("docs") else {
            continue;
        };
        if page == Path::new("SUMMARY.md") || page.extension().is_none_or(|it| it != "md") {
            continue;
        }
        let link = format!("({})", page.display());
        assert!(summary.contains(&link), "{} is not in it", page.display());
    }
}
