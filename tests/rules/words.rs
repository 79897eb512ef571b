//! Plain words: documentation begins with a noun or a verb, and names are those of the glossary.

use proc_macro2::{TokenStream, TokenTree};

use crate::tree::{files_with, read};

/// Words with which a line of documentation does not begin: they ask, or refer to something before them.
const QUESTIONS: [&str; 9] = [
    "What", "Who", "Whose", "How", "Which", "Where", "When", "So many", "Of",
];
/// Percent of the lines of documentation that may begin with one all the same, by how they wrap.
const QUESTIONS_MAX_PERCENT: usize = 3;
/// Words that the glossary replaces, as parts of identifiers.
const REPLACED: [&str; 46] = [
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
    "asked",
    "ask",
    "told",
    "wanted",
    "room",
    "gone",
    "turn",
    "look",
    "doubt",
    "maybe",
    "stuck",
    "settle",
    "say",
    "said",
    "world",
    "story",
    "communication",
    "there",
    "deal",
    "leg",
    "standing",
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

/// Parts of all identifiers in code, in lower case, each with its line.
fn parts(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    collect(code.parse().unwrap(), &mut found);
    found
}

fn collect(tokens: TokenStream, found: &mut Vec<(usize, String)>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect(group.stream(), found),
            TokenTree::Ident(name) => {
                let line = name.span().start().line;
                let parts = split(&name.to_string());
                found.extend(parts.into_iter().map(|part| (line, part)));
            }
            TokenTree::Punct(_) | TokenTree::Literal(_) => {}
        }
    }
}

/// Splits a name at underscores, and at capitals after small letters.
fn split(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut is_after_small = false;
    for c in name.chars() {
        if c == '_' || c.is_uppercase() && is_after_small {
            parts.push(String::new());
        }
        if c != '_' {
            parts.last_mut().unwrap().extend(c.to_lowercase());
        }
        is_after_small = c.is_lowercase();
    }
    parts
}

#[test]
fn replaced_words_are_no_identifiers() {
    let mut problems = Vec::new();
    for path in files_with(&["rs"]) {
        for (line, part) in parts(&read(&path)) {
            let singular = part.strip_suffix('s').unwrap_or(&part);
            if let Some(word) = REPLACED
                .iter()
                .find(|word| [&*part, singular].contains(word))
            {
                problems.push(format!("{}:{line}: {word}", path.display()));
            }
        }
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn identifiers_are_split_into_their_parts() {
    let code = "/// A wish.\nlet old_goal = TargetOf(OLD_LAW, \"linger\nkeeper\");\n// company\nx";
    let found = parts(code);
    let found: Vec<(usize, &str)> = found.iter().map(|(line, part)| (*line, &**part)).collect();
    let expected = [
        (1, "doc"),
        (2, "let"),
        (2, "old"),
        (2, "goal"),
        (2, "target"),
        (2, "of"),
        (2, "old"),
        (2, "law"),
        (5, "x"),
    ];
    assert_eq!(found, expected);
}
