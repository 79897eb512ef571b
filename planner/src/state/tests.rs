//! Files of histories, whole and broken.

mod requests;
mod times;

use proptest::prelude::*;

use super::*;
use crate::forecast::Learnt;

fn now(unix_ms: u64) -> Now {
    Now {
        at: Duration::from_secs(3),
        unix_ms,
    }
}

fn history() -> History {
    let one = |(gap, span, rate): (u64, u64, f64)| Measured {
        gap: Duration::from_millis(gap),
        span: Duration::from_millis(span),
        rate,
    };
    let samples = [
        (0, 0, 7.0),
        (0, 250, 40.1),
        (3000, 251, 0.0),
        (0, 249, 1e-3),
    ];
    History::new(samples.map(one), Duration::from_millis(130)).unwrap()
}

fn file(folder: &tempfile::TempDir) -> StateFile {
    StateFile::new(folder.path(), "demo")
}

/// A whole file, written half a second after the end of the history, at 100 s.
fn text() -> String {
    let file = StateFile::new(Path::new("nowhere"), "demo");
    file.text(&history(), Duration::from_millis(500), now(100_000))
        .unwrap()
}

#[test]
fn file_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(&folder);
    assert_eq!(file.read(now(0)).unwrap(), None);
    file.write(&text()).unwrap();
    file.write(&text()).unwrap();
    let age = Duration::from_millis(2500);
    let history = history();
    assert_eq!(file.read(now(102_000)).unwrap(), Some((history, age)));
    let names = std::fs::read_dir(folder.path()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["demo.history.json"]);
    // Nothing of it is remembered.
    assert_eq!(file.read(now(99_500 + 3_600_000)).unwrap(), None);
}

#[test]
fn other_files_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(&folder);
    let whole = text();
    let cut = &whole[..whole.len() / 2];
    let of = |old: &str, new: &str| {
        assert!(whole.contains(old), "{whole}");
        whole.replace(old, new)
    };
    for (text, expected) in [
        (String::new(), "it is no history, or not all of it: EOF"),
        (cut.to_owned(), "it is no history, or not all of it: EOF"),
        ("service: demo\n".to_owned(), "it is no history"),
        ("{\"version\": 1}".to_owned(), "it is no history"),
        ("[]".to_owned(), "it is no history"),
        (of("weir-history", "other"), "version 1, not 1"),
        (
            of("\"version\":1", "\"version\":2,\"more\":[]"),
            "version 2, not 1",
        ),
        (of("demo", "other"), "it is of service other"),
        (of("40.1", "-40.1"), "a rate that is"),
        (of("40.1", "1e999"), "it is no history"),
        (of("40.1", "null"), "it is no history"),
        (
            of("250000000", "18446744073709551615"),
            "samples of more than",
        ),
        (of("250000000", "-1"), "it is no history"),
        (
            " ".repeat(usize::try_from(STATE_BYTES_MAX).unwrap()) + "{}",
            "more than 1048576 bytes",
        ),
    ] {
        std::fs::write(file.path(), &text).unwrap();
        let refused = file.read(now(102_000)).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{text}: {refused}");
    }
    std::fs::write(file.path(), &whole).unwrap();
    let refused = file.read(now(99_000)).unwrap_err().to_string();
    assert_eq!(refused, "it ends 500ms from now: the clock was set back");
    std::fs::remove_file(file.path()).unwrap();
    std::fs::create_dir(file.path()).unwrap();
    assert!(matches!(file.read(now(102_000)), Err(StateError::Io(_))));
    assert!(file.write(&whole).is_err());
}

proptest! {
    /// Cut anywhere, or with any byte changed, it is read or refused.
    #[test]
    fn broken_files_never_panic(cut in 0..500_usize, at in 0..500_usize, byte in any::<u8>()) {
        let file = StateFile::new(Path::new("nowhere"), "demo");
        let mut bytes = text().into_bytes();
        let length = bytes.len();
        bytes.truncate(cut);
        if cut < length {
            prop_assert!(file.parse(&bytes, now(102_000)).is_err());
        }
        let mut bytes = text().into_bytes();
        if let Some(changed) = bytes.get_mut(at) {
            *changed = byte;
        }
        if let Ok(Some((history, _))) = file.parse(&bytes, now(102_000)) {
            let rates = history.samples().map(|one| one.rate);
            prop_assert!(rates.into_iter().all(|rate| rate.is_finite() && rate >= 0.0));
        }
    }
}

#[test]
fn longest_history_fits_into_a_file() {
    let one = Measured {
        gap: Duration::ZERO,
        span: Duration::from_nanos(249_999_999),
        rate: 12_345.678_901_234_567,
    };
    let samples = std::iter::repeat_n(one, crate::forecast::HISTORY_SAMPLES_MAX);
    let history = History::new(samples, Duration::ZERO).unwrap();
    let file = StateFile::new(Path::new("nowhere"), "demo");
    let text = file.text(&history, Duration::ZERO, now(1)).unwrap();
    assert!((text.len() as u64) < STATE_BYTES_MAX, "{}", text.len());
}

/// Numbers that an ensemble has learned of ten minutes.
fn learnt() -> Learnt {
    use weir_forecast::ensemble::Ensemble;
    use weir_forecast::model::{Kind, Season, Settings};
    let settings = Settings {
        season: Some(Season::new(86_400).unwrap()),
        ..Settings::default()
    };
    let task = weir_forecast::task::Task::new(4, 0.95).unwrap();
    let mut ensemble = Ensemble::new(&[Kind::Last, Kind::Linear, Kind::Seasonal], task, settings);
    for second in 0..600 {
        ensemble.observe(second, f64::from(second as u32 % 37));
    }
    ensemble.learnt(600_000)
}

fn learnt_text() -> String {
    let file = StateFile::new(Path::new("nowhere"), "demo");
    file.learnt_text(learnt(), Duration::from_millis(500), now(100_000))
        .unwrap()
}

#[test]
fn learned_numbers_are_read_as_they_were_written_for_a_week() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(&folder);
    assert_eq!(file.read_learnt(now(0)).unwrap(), None);
    file.write_learnt(&learnt_text()).unwrap();
    // Text has almost all digits.
    let text = |learnt: &Learnt| format!("{learnt:.6?}");
    for (unix_ms, age_ms) in [
        (102_000, 2500),
        (99_500 + 7 * 86_400_000 - 1, 7 * 86_400_000 - 1),
    ] {
        let (read, age) = file.read_learnt(now(unix_ms)).unwrap().unwrap();
        assert_eq!(age, Duration::from_millis(age_ms));
        assert_eq!(text(&read), text(&learnt()));
    }
    assert_eq!(
        file.read_learnt(now(99_500 + 7 * 86_400_000)).unwrap(),
        None
    );
    assert_eq!(file.learnt_path(), folder.path().join("demo.learnt.json"));
}

#[test]
fn other_files_of_learned_numbers_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let file = file(&folder);
    let whole = learnt_text();
    let cut = &whole[..whole.len() / 2];
    let broken = "it is not what forecasters have learned, or not all of it";
    for (text, expected) in [
        (cut.to_owned(), broken),
        (text(), "version 1, not 1"),
        (
            whole.replace("\"version\":1", "\"version\":2"),
            "version 2, not 1",
        ),
        (whole.replace("demo", "other"), "it is of service other"),
        (whole.replace("\"kind\":\"last\"", "\"kind\":\"x\""), broken),
        (whole.replace("\"pairs\"", "\"piers\""), broken),
        (
            whole.replace("\"spread\":", "\"spread\":1e999,\"s\":"),
            broken,
        ),
        (
            " ".repeat(usize::try_from(STATE_BYTES_MAX).unwrap()) + "{}",
            "more than 1048576 bytes",
        ),
    ] {
        std::fs::write(file.learnt_path(), &text).unwrap();
        let refused = file.read_learnt(now(102_000)).unwrap_err().to_string();
        assert!(refused.starts_with(expected), "{refused}");
    }
    std::fs::write(file.learnt_path(), &whole).unwrap();
    let refused = file.read_learnt(now(99_000)).unwrap_err().to_string();
    assert_eq!(refused, "it ends 500ms from now: the clock was set back");
}
