//! Places and edits of documents.

use super::{Content, Edit, documents};

const TEXT: &str = "# note\nname: x\nload:\n  rps: 3\nlist:\n- {a: 1}\n- a: .nan\n  b: [1, -2]\nheld: {a.b/c: 1}\n---\nsecond: true\n";

#[test]
fn path_is_found_at_its_line_and_column() {
    let all = documents(TEXT).unwrap();
    let at = |path: &str| {
        let place = all[0].find(path).place.unwrap();
        (place.line, place.column)
    };
    for (path, expected) in [
        ("name", (2, 7)),
        ("load", (3, 1)),
        ("load.rps", (4, 8)),
        ("load.missing", (3, 1)),
        ("list[0].a", (6, 7)),
        ("list[1].b[1]", (8, 10)),
        ("list[].a", (5, 1)),
        ("held.a.b/c", (9, 15)),
    ] {
        assert_eq!(at(path), expected, "{path}");
    }
    let second = all[1].find("second");
    let place = second.place.unwrap();
    assert_eq!((place.line, place.column), (11, 9));
}

#[test]
fn edits_change_value_and_keep_indices_of_file() {
    let mut document = documents(TEXT).unwrap().swap_remove(0);
    assert!(document.edit("list[0]", &Edit::Remove));
    assert_eq!(document.find("list[0].a").path, "list[1].a");
    assert!(document.edit("load.rps", &Edit::Rename("rate".to_owned())));
    assert!(document.edit("load.new", &Edit::Set(Content::Bool(true))));
    assert!(document.edit("list[].a", &Edit::Set(Content::Real(1.5))));
    assert!(!document.edit("nothing.there", &Edit::Remove));
    assert!(!document.edit("load.rate", &Edit::Rename("new".to_owned())));
    let line = r#"{"name": "x", "load": {"rate": 3, "new": true}, "list": [{"a": 1.5, "b": [1, -2]}], "held": {"a.b/c": 1}}"#;
    assert_eq!(document.line(), line);
    assert_eq!(document.find("load.new").node.place, None);
}
