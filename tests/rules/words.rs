//! Plain words: documentation begins with a noun or a verb, and names are those of the glossary.

use crate::tree::{files_with, read};

/// Words with which a line of documentation does not begin: they ask, or refer to something before them.
const QUESTIONS: [&str; 9] = [
    "What", "Who", "Whose", "How", "Which", "Where", "When", "So many", "Of",
];
/// Percent of the lines of documentation that may begin with one all the same, by how they wrap.
const QUESTIONS_MAX_PERCENT: usize = 3;
/// Words that the glossary replaces, as parts of identifiers.
const REPLACED: [&str; 25] = [
    "overruled",
    "keeper",
    "founder",
    "stirred",
    "company",
    "ghost",
    "obstacle",
    "linger",
    "goal",
    "midway",
    "rung",
    "dealt",
    "dearest",
    "starvation",
    "former",
    "greatest",
    "law",
    "pace",
    "unmet",
    "wish",
    "board",
    "borne",
    "disbelieved",
    "retune",
    "settling",
];

#[test]
fn documentation_begins_with_a_noun_or_a_verb() {
    let (mut lines, mut questions) = (0, Vec::new());
    for path in files_with(&["rs"]) {
        for (number, line) in (1..).zip(read(&path).lines()) {
            let Some(text) = line.trim_start().strip_prefix("///") else {
                continue;
            };
            lines += 1;
            let text = text.trim_start();
            let begins_with = |word: &str| {
                let rest = text.strip_prefix(word);
                rest.is_some_and(|rest| !rest.starts_with(|c: char| c.is_alphanumeric()))
            };
            if QUESTIONS.iter().any(|word| begins_with(word)) {
                questions.push(format!("{}:{number}: {text}", path.display()));
            }
        }
    }
    assert!(lines > 5000, "{lines} lines of documentation");
    assert!(
        questions.len() * 100 <= lines * QUESTIONS_MAX_PERCENT,
        "{} of {lines} lines:\n{}",
        questions.len(),
        questions.join("\n")
    );
}

/// Parts of all identifiers in a line of code, in lower case; comments and strings left out.
fn parts(line: &str) -> Vec<String> {
    let mut code = String::new();
    let mut quoted = false;
    let mut before = ' ';
    for c in line.split("//").next().unwrap().chars() {
        if c == '"' && before != '\\' {
            quoted = !quoted;
        }
        code.push(if quoted { ' ' } else { c });
        before = c;
    }
    let mut parts = vec![String::new()];
    for c in code.chars() {
        if c.is_uppercase() || !c.is_alphanumeric() {
            parts.push(String::new());
        }
        if c.is_alphanumeric() {
            parts.last_mut().unwrap().extend(c.to_lowercase());
        }
    }
    parts
}

#[test]
fn replaced_words_are_no_identifiers() {
    for path in files_with(&["rs"]) {
        if path.ends_with("words.rs") {
            continue;
        }
        for (number, line) in (1..).zip(read(&path).lines()) {
            for part in parts(line) {
                let singular = part.strip_suffix('s').unwrap_or(&part);
                let found = REPLACED
                    .iter()
                    .find(|word| **word == part || **word == singular);
                if let Some(word) = found {
                    panic!("{}:{number}: {word}: {line}", path.display());
                }
            }
        }
    }
}

#[test]
fn identifiers_are_split_into_their_parts() {
    let expected = ["let", "old", "goal", "target", "of"];
    let found = parts(r#"let old_goal = TargetOf("linger"); // company"#);
    let found: Vec<&str> = found
        .iter()
        .map(String::as_str)
        .filter(|part| !part.is_empty())
        .collect();
    assert_eq!(found, expected);
}
