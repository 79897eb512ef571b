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
/// The page whose `console` blocks the command line's tests run.
const CONSOLE_PAGE: &str = "docs/reference/solve.md";

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

/// A relative path from a page, made one from the top level.
fn resolve(page: &Path, target: &str) -> PathBuf {
    let mut path = page.parent().unwrap_or(Path::new("")).to_owned();
    for part in target.split('/') {
        match part {
            "." => {}
            ".." => assert!(
                path.pop(),
                "{}: {target} leaves the project",
                page.display()
            ),
            part => path.push(part),
        }
    }
    path
}

#[test]
fn links_and_anchors_exist() {
    let pages = pages();
    for (path, page) in &pages {
        for (line, link) in &page.links {
            let at = format!("{}:{line}: {link}", path.display());
            if link.contains("://") {
                continue;
            }
            let (target, anchor) = match link.split_once('#') {
                Some((target, anchor)) => (target, Some(anchor)),
                None => (link.as_str(), None),
            };
            let target = match target {
                "" => path.clone(),
                target => resolve(path, target),
            };
            assert!(root().join(&target).exists(), "{at}: no such file");
            if path.starts_with("docs") {
                let is_in_book = target.starts_with("docs");
                assert!(
                    is_in_book,
                    "{at}: it is not in the book; name the file instead"
                );
            }
            if let Some(anchor) = anchor {
                let page = pages.get(&target);
                let page = page.unwrap_or_else(|| panic!("{at}: no page"));
                assert!(page.anchors.contains(anchor), "{at}: no such heading");
            }
        }
    }
}

#[test]
fn lines_are_short() {
    for (path, page) in pages() {
        for (number, line) in (1..).zip(read(&path).lines()) {
            let is_exempt = line.starts_with('|')
                || line.contains("](")
                || line.contains("://")
                || page.code.contains(&number);
            let length = line.chars().count();
            assert!(
                is_exempt || length <= LINE_MAX,
                "{}:{number}: {length} characters",
                path.display()
            );
        }
    }
}

#[test]
fn code_blocks_are_checked() {
    for (path, page) in pages() {
        for block in page.blocks {
            let at = format!("{}:{}", path.display(), block.line);
            let info = block.info.filter(|info| !info.is_empty());
            let info = info.unwrap_or_else(|| panic!("{at}: no language"));
            match &*info {
                "text" | "sh,unchecked" => {}
                "yaml" | "yaml,tested" => check_yaml(&path, &block.text, &at),
                "json" => {
                    let parsed = serde_json::from_str::<serde_json::Value>(&block.text);
                    parsed.unwrap_or_else(|error| panic!("{at}: {error}"));
                }
                "sh" => {
                    for line in block.text.lines() {
                        let is_known = commands::check(line, &at);
                        assert!(is_known, "{at}: mark it sh,unchecked: {line}");
                    }
                }
                "console" => assert_eq!(path, Path::new(CONSOLE_PAGE), "{at}: nothing runs it"),
                other => panic!("{at}: {other} is no language of this documentation"),
            }
        }
    }
}

/// YAML, or the one line that includes a YAML file.
fn check_yaml(page: &Path, text: &str, at: &str) {
    let included = text
        .trim()
        .strip_prefix("{{#include ")
        .and_then(|rest| rest.strip_suffix("}}"));
    let text = match included {
        Some(file) => read(resolve(page, file)),
        None => text.to_owned(),
    };
    let parsed = serde_saphyr::from_str::<serde_json::Value>(&text);
    parsed.unwrap_or_else(|error| panic!("{at}: {error}"));
}

#[test]
fn commands_and_paths_in_the_text_exist() {
    for (path, page) in pages() {
        // It tells of what was.
        if path == Path::new("CHANGELOG.md") {
            continue;
        }
        for (line, span) in page.spans {
            let at = format!("{}:{line}", path.display());
            commands::check(&span, &at);
            commands::check_path(&span, &at);
        }
    }
}
