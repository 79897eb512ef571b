//! Text that holds keys, one in each line, and the keys as read. Pure.
//!
//! A line is `KEY`, valid for every service without keys of its own, or `NAME KEY`, valid for the service or
//! stage of that name alone. `read`, `poll` or `write` behind it is the extent of the key ([`Scope`]). Lines that begin
//! with `#` and empty lines are ignored. Several keys at once let proxies change from one to another.

use std::collections::BTreeMap;

use weir_api::plan::{NAME_MAX, is_name};

use super::{KEY_MAX, KEY_MIN, Key, PLACEHOLDER};

/// Maximum number of keys.
pub const KEYS_MAX: usize = 1024;

/// Keys of all services.
#[derive(Debug, Clone, Default)]
pub struct Keys {
    shared: Vec<ScopedKey>,
    own: BTreeMap<String, Vec<ScopedKey>>,
}

/// Extent of a key. The same key with two extents has the larger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Plans alone, for proxies: by polls that get slots or show the whole plan.
    Poll,
    /// Reads, and whole plans: no polls by which a proxy gets slots, no solves and no changes.
    Read,
    /// Polls, reads and solves: that of a key without a word.
    Usual,
    /// All of these, and changes.
    Write,
}

/// Use of a key, which its extent permits or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Reads the whole plan of a stage.
    Plan,
    /// Polls as a proxy, which takes slots.
    Poll,
    /// Reads anything else.
    Read,
    /// Solves or replays.
    Solve,
    /// Changes something.
    Change,
}

/// A key with its extent.
type ScopedKey = (Key, Scope);

/// A line of a text that holds keys: the name, if there is one, the key, and its extent.
pub type KeyLine<'a> = (Option<&'a str>, &'a str, Scope);

impl Scope {
    /// Whether a key of this extent may be used for that.
    pub fn permits(self, right: Right) -> bool {
        match right {
            Right::Plan => true,
            Right::Poll => self != Scope::Read,
            Right::Read => self != Scope::Poll,
            Right::Solve => self >= Scope::Usual,
            Right::Change => self == Scope::Write,
        }
    }

    /// Returns the extent of that name, which is too short to be a key.
    fn named(name: &str) -> Option<Scope> {
        match name {
            "read" => Some(Scope::Read),
            "poll" => Some(Scope::Poll),
            "write" => Some(Scope::Write),
            _ => None,
        }
    }
}

/// Reason why a text holds no valid keys. It never contains a part of the line, which may be a key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum LineError {
    #[error("no key; write one in each line, as KEY or as NAME KEY")]
    Empty,
    #[error("line {0}: more than {KEYS_MAX} keys; remove those that no proxy uses")]
    TooMany(usize),
    #[error(
        "line {0}: '{PLACEHOLDER}' is the manifests' placeholder; replace it by a random key, such as the output of \
         `openssl rand -hex 32`, here and in the proxies' configuration"
    )]
    Placeholder(usize),
    #[error(
        "line {line}: the key has {length} characters; it must be {KEY_MIN} to {KEY_MAX} printable ASCII \
         characters without spaces"
    )]
    Length { line: usize, length: usize },
    #[error("line {0}: the key has characters other than printable ASCII; use letters and digits")]
    Characters(usize),
    #[error(
        "line {0}: the name before the key is no service's; it must be 1 to {NAME_MAX} characters, a-z, 0-9 and \
         single dashes"
    )]
    Name(usize),
    #[error(
        "line {line}: {words} words; it must be KEY or NAME KEY, `read`, `poll` or `write` may follow, and a comment is a line of \
         its own"
    )]
    Words { line: usize, words: usize },
    #[error("line {line}: the same as line {first}; remove one")]
    Repeated { line: usize, first: usize },
}

impl Keys {
    /// Reads the keys of a text.
    ///
    /// # Errors
    /// Fails at the first line that is not valid, or if there is no key.
    pub fn parse(text: &str) -> Result<Keys, LineError> {
        let mut keys = Keys::default();
        for (name, key, scope) in Keys::lines(text)? {
            let key = (Key(key.to_owned()), scope);
            match name {
                None => keys.shared.push(key),
                Some(name) => keys.own.entry(name.to_owned()).or_default().push(key),
            }
        }
        Ok(keys)
    }

    /// Returns the lines of a text, in their order.
    ///
    /// # Errors
    /// Fails at the first line that is not valid, or if there is no key.
    pub fn lines(text: &str) -> Result<Vec<KeyLine<'_>>, LineError> {
        let mut found = Vec::new();
        let mut lines: BTreeMap<(Option<&str>, &str), usize> = BTreeMap::new();
        for (line, content) in (1..).zip(text.lines()) {
            let content = content.trim();
            if content.is_empty() || content.starts_with('#') {
                continue;
            }
            let (name, key, scope) = split(line, content)?;
            if let Some(first) = lines.insert((name, key), line) {
                return Err(LineError::Repeated { line, first });
            }
            if lines.len() > KEYS_MAX {
                return Err(LineError::TooMany(line));
            }
            check_key(line, key)?;
            found.push((name, key, scope));
        }
        match found.is_empty() {
            true => Err(LineError::Empty),
            false => Ok(found),
        }
    }

    /// Returns the keys of a planner with a single key for all services.
    pub fn of(key: Key) -> Keys {
        Keys {
            shared: vec![(key, Scope::Usual)],
            own: BTreeMap::new(),
        }
    }

    /// Returns the extent of `offered` as a key of what has these names: a service, or a stage and its service; `None`
    /// if it is none. Keys for all services count only where none of the names has keys of its own.
    pub fn open(&self, names: &[&str], offered: &str) -> Option<Scope> {
        let own = names.iter().filter_map(|name| self.own.get(*name));
        let own: Vec<&ScopedKey> = own.flatten().collect();
        match own.is_empty() {
            true => scope_among(&self.shared, offered),
            false => scope_among(own, offered),
        }
    }

    /// Returns the extent of `offered` as a key for all services, whether or not some have keys of their own; `None` if it is
    /// none.
    pub fn open_all(&self, offered: &str) -> Option<Scope> {
        scope_among(&self.shared, offered)
    }

    /// Returns the extent of `offered` as any of the keys; `None` if it is none.
    pub fn open_any(&self, offered: &str) -> Option<Scope> {
        scope_among(
            self.shared.iter().chain(self.own.values().flatten()),
            offered,
        )
    }
}

/// Compares with every key, so that the time does not depend on which one matches.
fn scope_among<'a>(keys: impl IntoIterator<Item = &'a ScopedKey>, offered: &str) -> Option<Scope> {
    let matches = |found: Option<Scope>, (key, scope): &ScopedKey| {
        let matching = key.matches(offered).then_some(*scope);
        found.max(matching)
    };
    keys.into_iter().fold(None, matches)
}

/// Returns the name, if there is one, the key, and its extent.
fn split(line: usize, content: &str) -> Result<KeyLine<'_>, LineError> {
    let words: Vec<&str> = content.split_whitespace().collect();
    let limited = words.split_last().and_then(|(last, words)| {
        let scope = Scope::named(last).filter(|_| !words.is_empty())?;
        Some((words, scope))
    });
    let (words, scope) = limited.unwrap_or((words.as_slice(), Scope::Usual));
    match words {
        [key] => Ok((None, key, scope)),
        [name, key] if is_name(name) => Ok((Some(name), key, scope)),
        [_, _] => Err(LineError::Name(line)),
        words => Err(LineError::Words {
            line,
            words: words.len(),
        }),
    }
}

fn check_key(line: usize, text: &str) -> Result<(), LineError> {
    if text == PLACEHOLDER {
        return Err(LineError::Placeholder(line));
    }
    let length = text.chars().count();
    match Key::new(text) {
        Some(_) => Ok(()),
        None if (KEY_MIN..=KEY_MAX).contains(&length) => Err(LineError::Characters(line)),
        None => Err(LineError::Length { line, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_with_keys_of_its_own_accepts_only_these() {
        let text = "# shared\nshared-key-1\n\n  shared-key-2  \na key-of-a-1\na key-of-a-2\r\nstage-1 key-of-stage\n";
        let keys = Keys::parse(text).unwrap();
        for (names, offered, opens) in [
            (&["b"][..], "shared-key-1", true),
            (&["b"], "shared-key-2", true),
            (&["b"], "key-of-a-1", false),
            (&["a"], "key-of-a-1", true),
            (&["a"], "key-of-a-2", true),
            (&["a"], "shared-key-1", false),
            // A stage and its service.
            (&["stage-1", "a"], "key-of-stage", true),
            (&["stage-1", "a"], "key-of-a-1", true),
            (&["stage-2", "a"], "key-of-stage", false),
            (&["stage-1", "b"], "shared-key-1", false),
            (&["stage-2", "b"], "shared-key-1", true),
            (&["b"], "", false),
            (&["b"], "b shared-key-1", false),
        ] {
            let scope = keys.open(names, offered);
            assert_eq!(scope, opens.then_some(Scope::Usual), "{names:?} {offered}");
        }
        for any in ["shared-key-1", "key-of-a-2", "key-of-stage"] {
            assert_eq!(keys.open_any(any), Some(Scope::Usual), "{any}");
        }
        assert_eq!((keys.open_any("key-of-b"), keys.open_any("")), (None, None));
        assert!(!format!("{keys:?}").contains("shared-key"), "{keys:?}");
    }

    #[test]
    fn key_may_be_limited() {
        let text = "shared-key-1 read\nshared-key-2\nshared-key-3 poll\nshared-key-4 write\na key-of-a-1\na key-of-a-2 read\nread key-of-read\n";
        let keys = Keys::parse(text).unwrap();
        for (name, offered, scope) in [
            ("b", "shared-key-1", Some(Scope::Read)),
            ("b", "shared-key-2", Some(Scope::Usual)),
            ("b", "shared-key-3", Some(Scope::Poll)),
            ("b", "shared-key-4", Some(Scope::Write)),
            ("a", "key-of-a-1", Some(Scope::Usual)),
            ("a", "key-of-a-2", Some(Scope::Read)),
            ("a", "shared-key-2", None),
            ("read", "key-of-read", Some(Scope::Usual)),
            ("b", "read", None),
        ] {
            assert_eq!(keys.open(&[name], offered), scope, "{name} {offered}");
        }
        for (offered, scope) in [
            ("shared-key-1", Some(Scope::Read)),
            ("shared-key-4", Some(Scope::Write)),
            ("key-of-a-1", None),
        ] {
            assert_eq!(keys.open_all(offered), scope, "{offered}");
        }
        assert_eq!(keys.open_any("key-of-a-2"), Some(Scope::Read));
        for bad in [
            "a shared-key change",
            "a b shared-key read",
            "read",
            "A shared-key read",
        ] {
            assert!(Keys::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn extent_permits_no_more_than_its_word() {
        for (scope, permits) in [
            (Scope::Poll, [true, true, false, false, false]),
            (Scope::Read, [true, false, true, false, false]),
            (Scope::Usual, [true, true, true, true, false]),
            (Scope::Write, [true; 5]),
        ] {
            let rights = [
                Right::Plan,
                Right::Poll,
                Right::Read,
                Right::Solve,
                Right::Change,
            ];
            assert_eq!(
                rights.map(|right| scope.permits(right)),
                permits,
                "{scope:?}"
            );
        }
    }

    #[test]
    fn bad_text_is_refused_by_line_and_never_printed() {
        let long = "k".repeat(KEY_MAX + 1);
        let many: String = (0..=KEYS_MAX).map(|n| format!("secret-{n:04}\n")).collect();
        let name = format!("{} secret-key", "n".repeat(NAME_MAX + 1));
        for (text, expected) in [
            ("", "no key; write one in each line"),
            (
                "# only\n\n   \n# comments\n",
                "no key; write one in each line",
            ),
            (
                "change-me",
                "line 1: 'change-me' is the manifests' placeholder; replace it",
            ),
            ("secret-key\na change-me\n", "line 2: 'change-me' is"),
            (
                "secret\n",
                "line 1: the key has 6 characters; it must be 8 to 256",
            ),
            ("\n\na secret\n", "line 3: the key has 6 characters"),
            (&long, "line 1: the key has 257 characters"),
            (
                "secret-kéy\n",
                "line 1: the key has characters other than printable ASCII",
            ),
            ("secret\u{7f}key\n", "line 1: the key has characters other"),
            (
                "secret-key # why\n",
                "line 1: 3 words; it must be KEY or NAME KEY",
            ),
            ("secret-key secret key\n", "line 1: 3 words"),
            (
                "Secret secret-key\n",
                "line 1: the name before the key is no service's",
            ),
            ("secret_a secret-key\n", "line 1: the name before"),
            ("-secret secret-key\n", "line 1: the name before"),
            ("secret--a secret-key\n", "line 1: the name before"),
            (&name, "line 1: the name before"),
            (
                "secret-key\n# again\nsecret-key\n",
                "line 3: the same as line 1; remove one",
            ),
            (
                "a secret-key\na  secret-key\n",
                "line 2: the same as line 1",
            ),
            (&many, "line 1025: more than 1024 keys"),
        ] {
            let refused = Keys::parse(text).unwrap_err().to_string();
            assert!(refused.starts_with(expected), "{refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
        // The same key for two services, and as many as are allowed.
        let fits = many.trim_end().rsplit_once('\n').unwrap().0;
        for good in ["a secret-key\nb secret-key\nsecret-key", fits, "secret#key"] {
            assert!(Keys::parse(good).is_ok());
        }
    }
}
