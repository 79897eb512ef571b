//! Imports between the folders of a crate: no circles, and pure folders import no adapter.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tree::{files_with, read};

/// Crates whose folders are checked.
const CRATES: [&str; 4] = [
    "filter/src",
    "planner/src",
    "planner/solve/src",
    "planner/replay/src",
];
/// Folders of the planner that take values and return values.
const PURE: [&str; 8] = [
    "capacity", "division", "forecast", "service", "policy", "spec", "plan", "rollout",
];
/// Folders that perform I/O.
const ADAPTERS: [&str; 3] = ["backends", "http", "operator"];

/// Imports by folder: of each, the folders it imports and a file that does.
type Imports = BTreeMap<String, BTreeMap<String, String>>;

/// First folder of a path below `source`, or its file without the extension.
fn folder(path: &Path, source: &str) -> String {
    let below = path.strip_prefix(source).unwrap();
    let first = below.components().next().unwrap();
    Path::new(first.as_os_str())
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .to_owned()
}

/// Code of a file without comments and without the tests beside it.
fn code(text: &str) -> String {
    let before_tests = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let before_tests = before_tests
        .split("#[cfg(test)]\npub(crate) mod tests {")
        .next()
        .unwrap();
    let lines = before_tests.lines();
    let lines = lines.map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// Modules that a file declares for tests alone.
fn test_modules(text: &str) -> impl Iterator<Item = &str> {
    let after = text.split("#[cfg(test)]\n").skip(1);
    after.filter_map(|text| {
        let line = text.lines().next()?;
        let name = line.split_once("mod ")?.1;
        name.strip_suffix(';')
    })
}

/// Names that follow `crate::`, at its first level.
fn names(code: &str) -> BTreeSet<String> {
    let word = |text: &str| -> String {
        text.chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let mut names = BTreeSet::new();
    for after in code.split("crate::").skip(1) {
        let Some(group) = after.strip_prefix('{') else {
            names.insert(word(after));
            continue;
        };
        let mut depth = 0;
        let mut first = String::new();
        for c in group.split(';').next().unwrap().chars() {
            match c {
                '{' => depth += 1,
                '}' if depth > 0 => depth -= 1,
                ',' | '}' if depth == 0 => {
                    names.insert(word(std::mem::take(&mut first).trim()));
                }
                c if depth == 0 => first.push(c),
                _ => {}
            }
        }
    }
    names
}

fn imports(source: &str) -> Imports {
    let files = files_with(&["rs"]);
    let files: Vec<_> = files
        .iter()
        .filter(|path| path.starts_with(source))
        .collect();
    let folders: BTreeSet<String> = files.iter().map(|path| folder(path, source)).collect();
    let of_tests: BTreeSet<_> = files
        .iter()
        .flat_map(|path| {
            let parent = match path.file_stem().unwrap().to_str().unwrap() {
                "lib" | "main" | "mod" => path.parent().unwrap().to_owned(),
                _ => path.with_extension(""),
            };
            let text = read(path);
            let modules = test_modules(&text);
            modules
                .map(move |name| parent.join(name))
                .collect::<Vec<_>>()
        })
        .collect();
    let mut imports = Imports::new();
    for path in files {
        let is_test =
            |test: &std::path::PathBuf| path.starts_with(test) || path.with_extension("") == *test;
        if of_tests.iter().any(is_test) || path.ends_with("lib.rs") {
            continue;
        }
        let own = folder(path, source);
        for name in names(&code(&read(path))) {
            if name != own && folders.contains(&name) {
                let of = imports.entry(own.clone()).or_default();
                of.insert(name, path.display().to_string());
            }
        }
    }
    imports
}

/// Folders that `from` imports, at first or second hand, with the way to each.
fn reach<'a>(imports: &'a Imports, from: &'a str) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut open = vec![(from, Vec::new())];
    while let Some((at, way)) = open.pop() {
        for (to, file) in imports.get(at).into_iter().flatten() {
            if !ways.contains_key(to.as_str()) {
                let mut longer = way.clone();
                longer.push(file.as_str());
                ways.insert(to, longer.clone());
                open.push((to, longer));
            }
        }
    }
    ways
}

#[test]
fn folders_import_one_another_in_one_direction() {
    for source in CRATES {
        let imports = imports(source);
        assert!(imports.len() > 3, "{source}: {imports:?}");
        for folder in imports.keys() {
            if let Some(way) = reach(&imports, folder).get(folder.as_str()) {
                panic!("{source}: {folder} imports itself, by way of {way:?}");
            }
        }
    }
}

#[test]
fn pure_folders_of_the_planner_import_no_adapter() {
    let imports = imports("planner/src");
    for pure in PURE {
        let exists = files_with(&["rs"])
            .iter()
            .any(|path| path.starts_with("planner/src") && folder(path, "planner/src") == pure);
        assert!(exists, "no {pure}");
        let ways = reach(&imports, pure);
        for adapter in ADAPTERS {
            if let Some(way) = ways.get(adapter) {
                panic!("{pure} imports {adapter}, by way of {way:?}");
            }
        }
    }
}

#[test]
fn imports_are_found_in_all_forms() {
    let text = "use crate::capacity::{A, B};\nuse crate::{plan::Draft, service::{X, Y}, clock};\n\
        // crate::http\nfn f() { crate::key::read() }\n#[cfg(test)]\nmod tests {\n use crate::operator::Z;\n}\n";
    let expected = ["capacity", "clock", "key", "plan", "service"];
    let found = names(&code(text));
    assert_eq!(
        found.iter().map(String::as_str).collect::<Vec<_>>(),
        expected
    );
    let text = "#[cfg(test)]\nmod tests;\n#[cfg(test)]\npub(crate) mod other;\nmod real;\n";
    assert_eq!(test_modules(text).collect::<Vec<_>>(), ["tests", "other"]);
}
