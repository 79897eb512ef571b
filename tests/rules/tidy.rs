//! House rules: files stay small, say what they are, and point at no machine.

use crate::tree::{files_with, read};

/// Longest source file, in lines, tests beside the code included.
const LINES_MAX: usize = 400;
/// Lines that half of all source files have at most.
const MEDIAN_MAX: usize = 180;
/// Longest README, in lines and in words.
const README_LINES_MAX: usize = 200;
const README_WORDS_MAX: usize = 1800;

#[test]
fn source_files_are_small_and_begin_with_their_purpose() {
    for path in files_with(&["rs"]) {
        let text = read(&path);
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
fn most_source_files_are_smaller_still() {
    let files = files_with(&["rs"]);
    let mut lines: Vec<usize> = files
        .iter()
        .map(|path| read(path).lines().count())
        .collect();
    lines.sort_unstable();
    let median = lines[lines.len() / 2];
    assert!(
        median < MEDIAN_MAX,
        "half of the files have {median} lines or more"
    );
}

#[test]
fn no_file_names_a_folder_of_one_machine() {
    let homes = ["/root/", "/work/", "/home/"];
    for path in files_with(&["rs", "toml", "yaml", "md", "txt"]) {
        if path.ends_with("tidy.rs") {
            continue;
        }
        let text = read(&path);
        for home in homes {
            assert!(!text.contains(home), "{} names {home}", path.display());
        }
    }
}

#[test]
fn readme_is_short() {
    let readme = read("README.md");
    let (lines, words) = (readme.lines().count(), readme.split_whitespace().count());
    assert!(lines <= README_LINES_MAX, "{lines} lines");
    assert!(words <= README_WORDS_MAX, "{words} words");
}
