//! Files of measured service times.

use super::*;
use crate::control_loop::KnownTimes;

const TIMES: &str = r#"{"variants":{"a":{"profile_ms":40.0,"ratios":{"points":[{"millis":1000,"percent":150,
    "peak":150,"age_ms":20}],"is_slow":true},"groups":{"class-gold":{"count":20.0,"sum":30.0,"squares":50.0}}}}}"#;

fn text() -> String {
    let times: KnownTimes = serde_json::from_str(TIMES).unwrap();
    let file = StateFile::new(Path::new("nowhere"), "demo");
    file.times_text(times, now(100_000)).unwrap()
}

#[test]
fn times_are_read_as_they_were_written_until_they_are_old() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(&folder);
    assert_eq!(file.read_times(now(100_000)).unwrap(), None);
    file.write_times(&text()).unwrap();
    let times: KnownTimes = serde_json::from_str(TIMES).unwrap();
    let age = Duration::from_millis(1500);
    assert_eq!(file.read_times(now(101_500)).unwrap(), Some((times, age)));
    let end = 100_000 + u64::try_from(TIMES_AGE_MAX.as_millis()).unwrap();
    assert_eq!(file.read_times(now(end)).unwrap(), None);
    // A whole history is none.
    file.write_times(&super::text()).unwrap();
    assert!(file.read_times(now(101_500)).is_err());
}

#[test]
fn times_that_cannot_have_been_measured_are_refused_with_the_reason() {
    let file = StateFile::new(Path::new("nowhere"), "demo");
    for (old, new, expected) in [
        (
            "\"percent\":150",
            "\"percent\":0",
            "variant a: a ratio of 0 % at 1000 thousandths",
        ),
        (
            "\"percent\":150",
            "\"percent\":100001",
            "variant a: a ratio of 100001 %",
        ),
        (
            "\"peak\":150",
            "\"peak\":0",
            "variant a: a ratio of 150 % at 1000",
        ),
        (
            "\"millis\":1000",
            "\"millis\":0",
            "variant a: a ratio of 150 % at 0",
        ),
        ("class-gold", "gold", "variant a: \"gold\" is no group"),
        (
            "\"count\":20.0",
            "\"count\":0.0",
            "variant a: group class-gold has no sums",
        ),
        (
            "\"sum\":30.0",
            "\"sum\":-1.0",
            "variant a: group class-gold has no sums",
        ),
        (
            "\"squares\":50.0",
            "\"squares\":null",
            "it is no measured service times",
        ),
        ("profile_ms", "profile", "it is no measured service times"),
        ("weir-times", "weir-history", "version 1, not 1"),
    ] {
        let text = text();
        assert!(text.contains(old), "{text}");
        let refused = file.parse_times(text.replace(old, new).as_bytes(), now(101_500));
        let refused = refused.unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{new}: {refused}");
    }
    let point = r#"{"millis":1000,"percent":150,"peak":150,"age_ms":20}"#;
    let many = text().replace(point, &[point; 5].join(","));
    let refused = file.parse_times(many.as_bytes(), now(101_500)).unwrap_err();
    assert_eq!(refused.to_string(), "variant a: more than 4 ratios");
}

proptest! {
    /// Cut anywhere, or with any byte changed, it is read or refused.
    #[test]
    fn broken_times_never_panic(cut in 0..300_usize, at in 0..300_usize, byte in any::<u8>()) {
        let file = StateFile::new(Path::new("nowhere"), "demo");
        let mut bytes = text().into_bytes();
        let length = bytes.len();
        bytes.truncate(cut);
        if cut < length {
            prop_assert!(file.parse_times(&bytes, now(102_000)).is_err());
        }
        let mut bytes = text().into_bytes();
        if let Some(changed) = bytes.get_mut(at) {
            *changed = byte;
        }
        let _ = file.parse_times(&bytes, now(102_000));
    }
}
