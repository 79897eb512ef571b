//! Limits of profiles, and when a resource is parsed again.

use super::*;

fn place(map: &str, key: &str) -> Place {
    ("ns".to_owned(), map.to_owned(), key.to_owned())
}

fn data(all: &[(&str, usize)]) -> Result<BTreeMap<String, String>, String> {
    let each = all.iter();
    Ok(each
        .map(|(key, bytes)| ((*key).to_owned(), "x".repeat(*bytes)))
        .collect())
}

fn record(
    state: &mut State,
    map: &str,
    key: &str,
    answer: &Result<BTreeMap<String, String>, String>,
) {
    state.record("ns", map, [key.to_owned()].into(), answer);
}

#[test]
fn only_referenced_keys_are_kept_and_last_content_outlives_failures() {
    let mut state = State::default();
    record(
        &mut state,
        "a",
        "profile.yaml",
        &data(&[("profile.yaml", 3), ("secret", 9)]),
    );
    assert_eq!(state.found.len(), 1);
    assert_eq!(state.version, 1);
    let absent = Err("there is no ConfigMap a".to_owned());
    record(&mut state, "a", "profile.yaml", &absent);
    assert_eq!(
        state.found[&place("a", "profile.yaml")],
        Found::Text("xxx".into())
    );
    assert_eq!(state.version, 1, "nothing has changed");
    record(&mut state, "a", "other", &data(&[("profile.yaml", 3)]));
    assert_eq!(state.found[&place("a", "other")], Found::NoKey);
    record(&mut state, "b", "profile.yaml", &absent);
    assert!(matches!(
        state.found[&place("b", "profile.yaml")],
        Found::NoMap(_)
    ));
}

#[test]
fn profile_and_all_profiles_have_limits() {
    let mut state = State::default();
    record(&mut state, "a", "k", &data(&[("k", PROFILE_BYTES_MAX + 1)]));
    assert_eq!(
        state.found[&place("a", "k")],
        Found::TooLarge(PROFILE_BYTES_MAX + 1)
    );
    let most = PROFILES_BYTES_MAX / PROFILE_BYTES_MAX;
    for index in 0..=most {
        record(
            &mut state,
            &format!("m{index}"),
            "k",
            &data(&[("k", PROFILE_BYTES_MAX)]),
        );
    }
    let total: usize = state.found.values().map(Found::bytes).sum();
    assert_eq!(total, PROFILES_BYTES_MAX);
    assert_eq!(
        state.found[&place(&format!("m{most}"), "k")],
        Found::NoSpace
    );
    // One that shrinks makes space.
    record(&mut state, "m0", "k", &data(&[("k", 1)]));
    record(
        &mut state,
        &format!("m{most}"),
        "k",
        &data(&[("k", PROFILE_BYTES_MAX - 1)]),
    );
    let total: usize = state.found.values().map(Found::bytes).sum();
    assert_eq!(total, PROFILES_BYTES_MAX);
}
#[test]
fn limits_hold_to_the_byte() {
    let mut state = State::default();
    let mut record = |map: &str, bytes| {
        record(&mut state, map, "k", &data(&[("k", bytes)]));
        state.found[&place(map, "k")].clone()
    };
    let is_text = |found: Found| matches!(found, Found::Text(_));
    assert!(is_text(record("m0", PROFILE_BYTES_MAX)));
    // All of the space but one byte.
    for index in 1..PROFILES_BYTES_MAX / PROFILE_BYTES_MAX - 1 {
        assert!(is_text(record(&format!("m{index}"), PROFILE_BYTES_MAX)));
    }
    assert!(is_text(record("last", PROFILE_BYTES_MAX - 1)));
    assert_eq!(record("more", 2), Found::NoSpace);
    assert!(is_text(record("more", 1)));
    assert_eq!(record("even more", 1), Found::NoSpace);
}

fn resource(uid: &str, generation: i64, refers: bool) -> SloService {
    let profile = match refers {
        true => serde_json::json!({"configMap": "m", "key": "k"}),
        false => serde_json::Value::Null,
    };
    let variant = serde_json::json!({
        "name": "a", "cluster": "a", "accuracy": 1, "cores": {"initial": 1}, "profile": profile,
    });
    serde_json::from_value(serde_json::json!({
        "apiVersion": "weir.dev/v1alpha1", "kind": "SloService",
        "metadata": {"name": "demo", "namespace": "ns", "uid": uid, "generation": generation},
        "spec": {"slo": "1s", "budget": {"cores": 8}, "proxies": {}, "variants": [variant]},
    }))
    .unwrap()
}

#[test]
fn resource_is_parsed_again_only_if_it_or_a_profile_has_changed() {
    let (profiles, parsed) = (Profiles::default(), ParsedServices::default());
    let name = Name {
        namespace: "ns".to_owned(),
        name: "demo".to_owned(),
    };
    let mut parses = 0;
    // Number of the parse that the cache has.
    let mut nth = |uid: &str, generation, refers| {
        parsed.get(&name, &resource(uid, generation, refers), &profiles, || {
            parses += 1;
            parses
        })
    };
    assert_eq!([nth("u", 1, true), nth("u", 1, true)], [1, 1]);
    assert_eq!([nth("u", 2, true), nth("v", 2, true)], [2, 3]);
    record(&mut profiles.state(), "m", "k", &data(&[("k", 1)]));
    assert_eq!([nth("v", 2, true), nth("v", 2, true)], [4, 4]);
    // The same content; then a change of a profile that the resource does not refer to.
    record(&mut profiles.state(), "m", "k", &data(&[("k", 1)]));
    assert_eq!([nth("v", 2, true), nth("v", 3, false)], [4, 5]);
    record(&mut profiles.state(), "m", "k", &data(&[("k", 2)]));
    assert_eq!(nth("v", 3, false), 5);
    // One entry per resource, forgotten with it.
    assert_eq!(parsed.0.lock().unwrap().len(), 1);
    parsed.retain(|_| false);
    assert_eq!(nth("v", 3, false), 6);
}
