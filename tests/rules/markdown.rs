//! Markdown: links lead somewhere, lines are short, code blocks are checked, commands and paths exist.
//!
//! A code block's info string is its language, and `,unchecked` for `sh` lines of programs that are not the
//! project's. `text` is a picture or a formula; `yaml` and `json` are parsed; `sh` lines are checked here;
//! `console` is run by the command line's own tests; `yaml,tested` is run by [`snippet`](crate::snippet).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use crate::tree::{files_with, read, root};

mod commands;

/// Longest line in characters. Tables, links and code blocks are exempt.
const LINE_MAX: usize = 120;
/// The pages whose `console` blocks the command line's tests run.
const CONSOLE_PAGES: [&str; 2] = ["docs/reference/command-line.md", "docs/reference/solve.md"];
/// A record of the past, in the words and lines of its time.
const CHANGELOG: &str = "CHANGELOG.md";

/// A page as its reader needs it. Each item has its line.
#[derive(Default)]
struct Page {
    links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
    blocks: Vec<Block>,
    spans: Vec<(usize, String)>,
    /// Lines in code blocks.
    code: BTreeSet<usize>,
}

struct Block {
    line: usize,
    info: Option<String>,
    text: String,
}

impl Page {
    fn parse(text: &str) -> Page {
        let line_at = |range: &Range<usize>| text[..range.start].matches('\n').count() + 1;
        let mut page = Page::default();
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        let mut seen = BTreeMap::<String, usize>::new();
        for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
            let line = line_at(&range);
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => {
                    let slug = slug(&heading.take().unwrap_or_default());
                    let count = seen.entry(slug.clone()).or_default();
                    let anchor = match *count {
                        0 => slug,
                        again => format!("{slug}-{again}"),
                    };
                    *count += 1;
                    page.anchors.insert(anchor);
                }
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    page.links.push((line, dest_url.into_string()));
                }
                Event::Start(Tag::CodeBlock(kind)) => {
                    let info = match kind {
                        CodeBlockKind::Fenced(info) => Some(info.into_string()),
                        CodeBlockKind::Indented => None,
                    };
                    let lines = text[range].trim_end().lines().count();
                    page.code.extend(line..line + lines);
                    let text = String::new();
                    block = Some(Block { line, info, text });
                }
                Event::End(TagEnd::CodeBlock) => page.blocks.extend(block.take()),
                Event::Text(text) => match (&mut block, &mut heading) {
                    (Some(block), _) => block.text.push_str(&text),
                    (None, Some(heading)) => heading.push_str(&text),
                    (None, None) => {}
                },
                Event::Code(code) => {
                    if let Some(heading) = &mut heading {
                        heading.push_str(&code);
                    }
                    page.spans.push((line, code.into_string()));
                }
                _ => {}
            }
        }
        page
    }
}

/// A heading's anchor, as GitHub and mdBook make it.
fn slug(heading: &str) -> String {
    heading
        .to_lowercase()
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

/// All pages, by path.
fn pages() -> BTreeMap<PathBuf, Page> {
    let pages: BTreeMap<_, _> = files_with(&["md"])
        .into_iter()
        .map(|path| (path.clone(), Page::parse(&read(&path))))
        .collect();
    assert!(pages.len() > 10, "{} pages", pages.len());
    pages
}

/// A relative path from a page, made one from the top level; none if it leaves the project.
fn resolve(page: &Path, target: &str) -> Option<PathBuf> {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." if path.pop() => {}
            ".." => return None,
            part => path.push(part),
        }
    }
    Some(path)
}

/// Fails with all problems at once, if there are any.
fn report(problems: &[String]) {
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn links_and_anchors_exist() {
    let pages = pages();
    let mut problems = Vec::new();
    for (path, page) in &pages {
        for (line, link) in page.links.iter().filter(|(_, link)| !link.contains("://")) {
            if let Err(problem) = check_link(&pages, path, link) {
                problems.push(format!("{}:{line}: {link}: {problem}", path.display()));
            }
        }
    }
    report(&problems);
}

fn check_link(
    pages: &BTreeMap<PathBuf, Page>,
    path: &Path,
    link: &str,
) -> Result<(), &'static str> {
    let (target, anchor) = match link.split_once('#') {
        Some((target, anchor)) => (target, Some(anchor)),
        None => (link, None),
    };
    let target = match target {
        "" => path.to_owned(),
        target => resolve(path, target).ok_or("it leaves the project")?,
    };
    if !root().join(&target).exists() {
        return Err("no such file");
    }
    if path.starts_with("docs") && !target.starts_with("docs") {
        return Err("the book has no such page; name the file instead");
    }
    match (anchor, pages.get(&target)) {
        (Some(anchor), Some(page)) if !page.anchors.contains(anchor) => Err("no such heading"),
        (Some(_), None) => Err("no page"),
        _ => Ok(()),
    }
}

#[test]
fn lines_are_short() {
    let mut problems = Vec::new();
    for (path, page) in pages() {
        if path == Path::new(CHANGELOG) {
            continue;
        }
        for (number, line) in (1..).zip(read(&path).lines()) {
            let is_exempt = line.starts_with('|')
                || line.contains("](")
                || line.contains("://")
                || page.code.contains(&number);
            let length = line.chars().count();
            if !is_exempt && length > LINE_MAX {
                problems.push(format!("{}:{number}: {length} characters", path.display()));
            }
        }
    }
    report(&problems);
}

#[test]
fn code_blocks_are_checked() {
    let mut problems = Vec::new();
    for (path, page) in pages() {
        for block in page.blocks {
            let line = block.line;
            let at = |problem: String| format!("{}:{line}: {problem}", path.display());
            let found = check_block(&path, &block);
            problems.extend(found.into_iter().map(at));
        }
    }
    report(&problems);
}

fn check_block(page: &Path, block: &Block) -> Vec<String> {
    let text = &block.text;
    match block.info.as_deref() {
        None | Some("") => vec!["no language".to_owned()],
        Some("text" | "sh,unchecked") => Vec::new(),
        Some("yaml" | "yaml,tested") => check_yaml(page, text),
        Some("json") => match serde_json::from_str::<serde_json::Value>(text) {
            Ok(_) => Vec::new(),
            Err(error) => vec![error.to_string()],
        },
        Some("sh") => text.lines().flat_map(commands::check_or_refuse).collect(),
        Some("console") if CONSOLE_PAGES.iter().any(|of| page == Path::new(of)) => Vec::new(),
        Some("console") => vec!["nothing runs it".to_owned()],
        Some(other) => vec![format!("{other} is no language of this documentation")],
    }
}

/// YAML, or the one line that includes a YAML file.
fn check_yaml(page: &Path, text: &str) -> Vec<String> {
    let included = text
        .trim()
        .strip_prefix("{{#include ")
        .and_then(|rest| rest.strip_suffix("}}"));
    let text = match included {
        Some(file) => match resolve(page, file).filter(|file| root().join(file).is_file()) {
            Some(file) => read(file),
            None => return vec![format!("{file}: no such file")],
        },
        None => text.to_owned(),
    };
    match serde_saphyr::from_str::<serde_json::Value>(&text) {
        Ok(_) => Vec::new(),
        Err(error) => vec![error.to_string()],
    }
}

#[test]
fn commands_and_paths_in_the_text_exist() {
    let mut problems = Vec::new();
    for (path, page) in pages() {
        if path == Path::new(CHANGELOG) {
            continue;
        }
        for (line, span) in page.spans {
            let found = match commands::check(&span) {
                Some(found) => found,
                None => commands::check_path(&span),
            };
            let at = |problem| format!("{}:{line}: {problem}", path.display());
            problems.extend(found.into_iter().map(at));
        }
    }
    report(&problems);
}

#[test]
fn pages_named_in_sources_exist() {
    let mut problems = Vec::new();
    for path in files_with(&["rs", "toml", "yaml"]) {
        if path.starts_with("tests/rules") {
            continue;
        }
        for (number, line) in (1..).zip(read(&path).lines()) {
            let is_part = |c: char| c.is_ascii_alphanumeric() || "./-_".contains(c);
            let pages = line
                .split(|c| !is_part(c))
                .filter(|word| word.starts_with("docs/") && word.ends_with(".md"));
            for page in pages.filter(|page| !root().join(page).is_file()) {
                problems.push(format!("{}:{number}: no page {page}", path.display()));
            }
        }
    }
    report(&problems);
}
