//! Lists that are read, lists that are not, and any bytes.

use proptest::prelude::*;

use super::*;

const MS: fn(u64) -> Span = Span::from_millis;

#[track_caller]
fn check(value: &str, expected: &[(&str, Option<Span>)]) {
    let members = Members::parse(value.as_bytes()).unwrap();
    let found: Vec<_> = members
        .iter()
        .map(|member| (member.name.unwrap_or("*"), member.within))
        .collect();
    assert_eq!(found, expected, "{value}");
}

#[test]
fn list_is_read_in_order() {
    check("large", &[("large", None)]);
    check("large, small", &[("large", None), ("small", None)]);
    check(
        "large;within=300,\tmedium ; within=150.5 , small",
        &[
            ("large", Some(MS(300))),
            ("medium", Some(Span::from_micros(150_500))),
            ("small", None),
        ],
    );
    check("\"7b\", 8b;within=1", &[("7b", None), ("8b", Some(MS(1)))]);
    check("*", &[("*", None)]);
    check("a, *;within=20", &[("a", None), ("*", Some(MS(20)))]);
    check(
        "a,b,c,d,e,f,g,*",
        &["a", "b", "c", "d", "e", "f", "g", "*"].map(|name| (name, None)),
    );
}

#[track_caller]
fn refuse(value: &[u8], expected: ListError<'_>, text: &str) {
    let shown = String::from_utf8_lossy(value);
    assert_eq!(Members::parse(value).unwrap_err(), expected, "{shown}");
    let found = expected.text(["large", "small"].into_iter());
    assert_eq!(found, format!("x-slo-variants: {text}"), "{shown}");
}

#[test]
fn wrong_list_is_refused_with_what_would_be_right() {
    for empty in ["", " \t"] {
        let text = "names no variant, right is 'large, small'";
        refuse(empty.as_bytes(), ListError::Empty, text);
    }
    refuse(
        b"a,b,c,d,e,f,g,h,i",
        ListError::TooMany,
        "more than 8 members",
    );
    let names = "is not a name, right are 1 to 63 of a-z, 0-9 and single dashes inside, or '*'";
    for (list, part) in [
        ("large,", ""),
        ("large,,small", ""),
        ("Large", "Large"),
        ("large small", "large small"),
        ("a/b", "a/b"),
        ("**", "**"),
    ] {
        let text = format!("'{part}' {names}");
        refuse(list.as_bytes(), ListError::Name(part.as_bytes()), &text);
    }
    let text = format!("'?a?' {names}");
    refuse(b"'a'", ListError::Name(b"'a'"), &text);
    let text = format!("'???' {names}");
    refuse(b"\xff\\\"", ListError::Name(b"\xff\\\""), &text);
    let long = [b'A'; SHOWN_MAX + 1];
    let text = format!("'{}...' {names}", "A".repeat(SHOWN_MAX));
    refuse(&long, ListError::Name(&long), &text);
    refuse(b"a, b, a", ListError::Twice(b"a"), "'a' stands twice");
    refuse(b"*, *", ListError::Twice(b"*"), "'*' stands twice");
    let text = "'b' after '*', which must be the last";
    refuse(b"a, *, b", ListError::AfterAny(b"b"), text);
    for (list, part) in [
        ("a;witin=3", "witin=3"),
        ("a;within", "within"),
        ("a;", ""),
        ("a;Within=3", "Within=3"),
        ("a;within=3;within=4", "within=4"),
    ] {
        let text = format!("';{part}' is not known, right is one ';within=MS'");
        refuse(
            list.as_bytes(),
            ListError::Parameter(part.as_bytes()),
            &text,
        );
    }
    for part in ["", "0", "-1", "soon", "1e3", " 3"] {
        let text = format!("within='{part}' must be a number of milliseconds greater than 0");
        let list = format!("a;within={part}");
        refuse(list.as_bytes(), ListError::Within(part.as_bytes()), &text);
    }
}

#[test]
fn unknown_variant_is_answered_with_the_known_ones() {
    let text = |known: &[&'static str]| ListError::Unknown("larg").text(known.iter().copied());
    let few = "x-slo-variants: this service has no 'larg', but 'large', 'small'";
    assert_eq!(text(&["large", "small"]), few);
    let many = text(&["v"; LISTED_MAX + 1]);
    assert!(many.ends_with("'v' and others"), "{many}");
    assert_eq!(many.matches("'v'").count(), LISTED_MAX);
}

proptest! {
    #[test]
    fn any_bytes_give_a_valid_list_or_a_plain_text(
        value in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..80),
            "[ab*\"]{0,2}(;within=[0-9.]{0,3})?(, ?[abc*]{0,2}(;[a-z=0-9]{0,9})?){0,9}"
                .prop_map(String::into_bytes),
        ],
    ) {
        match Members::parse(&value) {
            Ok(members) => {
                let names: Vec<_> = members.iter().map(|member| member.name).collect();
                prop_assert!((1..=LISTED_MAX).contains(&names.len()));
                let others = names.iter().position(Option::is_none);
                prop_assert!(others.is_none_or(|place| place + 1 == names.len()));
                for (place, name) in names.iter().enumerate() {
                    prop_assert!(name.is_none_or(is_name));
                    prop_assert!(!names[..place].contains(name));
                }
                prop_assert!(members.iter().all(|of| of.within != Some(Span::ZERO)));
            }
            Err(error) => {
                let text = error.text(std::iter::empty());
                let plain = |byte| (b' '..=b'~').contains(&byte) && !b"\"\\%".contains(&byte);
                prop_assert!(text.bytes().all(plain), "{text}");
                prop_assert!(text.len() < 256, "{text}");
            }
        }
    }
}
