//! Keys that polls, status requests and solves carry: their source and their comparison. They are never part of
//! the service file, never printed, and compared in constant time. [`keys`] reads the text that holds them.

mod keys;

use std::fmt;

use subtle::ConstantTimeEq;

use crate::file_reload::{FileError, Reloaded};
pub use crate::spec::KeySource;
pub use keys::{KEYS_MAX, KeyLine, Keys, LineError, Right, Scope};

/// Minimum length. A longer, random key is better.
pub const KEY_MIN: usize = 8;
/// Maximum length.
pub const KEY_MAX: usize = 256;
/// Maximum size of a key file, or of the variable, in bytes.
pub const KEYS_BYTES_MAX: u64 = 64 * 1024;
/// Placeholder in shipped manifests, which is no key.
pub const PLACEHOLDER: &str = "change-me";

/// One key.
#[derive(Clone)]
pub struct Key(String);

/// Reason why there are no keys.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum KeyError {
    #[error(
        "keyEnv: the environment variable {0} is not set (or not Unicode); set it to the proxies' shared key"
    )]
    NotSet(String),
    #[error("keyFile: {0}")]
    NotRead(#[from] FileError),
    #[error("keyEnv {name}: {why}")]
    Variable { name: String, why: String },
    #[error("keyFile: {0}")]
    Content(String),
}

impl From<String> for KeyError {
    fn from(why: String) -> KeyError {
        KeyError::Content(why)
    }
}

impl KeySource {
    /// Reads the keys.
    ///
    /// # Errors
    /// Fails if the variable or file is missing, or if a line of its content is not valid.
    pub fn read(&self) -> Result<Reloaded<Keys>, KeyError> {
        match self {
            KeySource::Env(name) => {
                let text = std::env::var(name).map_err(|_| KeyError::NotSet(name.clone()))?;
                let refused = |why: String| KeyError::Variable {
                    name: name.clone(),
                    why,
                };
                if text.len() as u64 > KEYS_BYTES_MAX {
                    let why = format!("too large; it must have at most {KEYS_BYTES_MAX} bytes");
                    return Err(refused(why));
                }
                let keys = Keys::parse(&text).map_err(|error| refused(error.to_string()))?;
                Ok(Reloaded::fixed(keys))
            }
            KeySource::File(path) => {
                let (name, shown) = (format!("keyFile {}", path.display()), path.clone());
                let make = move |contents: &[Vec<u8>]| {
                    let content = contents.first().map(Vec::as_slice).unwrap_or_default();
                    let text = std::str::from_utf8(content).map_err(|_| "not UTF-8".to_owned());
                    let keys =
                        text.and_then(|text| Keys::parse(text).map_err(|error| error.to_string()));
                    keys.map_err(|why| format!("{}: {why}", shown.display()))
                };
                Reloaded::read(&name, vec![path.clone()], KEYS_BYTES_MAX, make)
            }
        }
    }
}

impl Key {
    /// Creates a key of [`KEY_MIN`] to [`KEY_MAX`] printable ASCII characters; `None` for anything else.
    pub fn new(text: &str) -> Option<Key> {
        let fits = (KEY_MIN..=KEY_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        fits.then(|| Key(text.to_owned()))
    }

    /// Whether `offered` is the key. Takes the same time wherever a wrong key of the same length differs.
    pub fn matches(&self, offered: &str) -> bool {
        self.0.as_bytes().ct_eq(offered.as_bytes()).into()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_length_is_limited_and_key_is_never_printed() {
        for (text, good) in [
            ("1234567", false),
            ("12345678", true),
            ("has space", false),
            ("schlüssel", false),
            (&*"k".repeat(KEY_MAX), true),
            (&*"k".repeat(KEY_MAX + 1), false),
        ] {
            assert_eq!(Key::new(text).is_some(), good, "{text}");
        }
        let key = Key::new("12345678").unwrap();
        assert!(key.matches("12345678"));
        assert!(!key.matches("12345679") && !key.matches("1234567") && !key.matches(""));
        assert_eq!(format!("{key:?}"), "Key(…)");
    }

    #[test]
    fn missing_and_invalid_files_are_refused_with_path_and_line() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let source = KeySource::File(file.path().into());
        std::fs::write(file.path(), "secret-key\n").unwrap();
        let keys = source.read().unwrap().current();
        assert_eq!(keys.open_any("secret-key"), Some(Scope::Usual));
        let large = vec![b'#'; usize::try_from(KEYS_BYTES_MAX).unwrap() + 1];
        for (content, expected) in [
            (
                &b"short\n"[..],
                "line 1: the key has 5 characters; it must be 8 to 256",
            ),
            (&b"\xff\xfe"[..], "not UTF-8"),
            (&large[..], "too large; it must have at most 65536 bytes"),
        ] {
            std::fs::write(file.path(), content).unwrap();
            let error = source.read().unwrap_err().to_string();
            let begins = format!("keyFile: {}: ", file.path().display());
            assert!(
                error.starts_with(&begins) && error.contains(expected),
                "{error}"
            );
        }
        let missing = KeySource::File("/no/such/key".into()).read();
        let error = missing.unwrap_err().to_string();
        assert!(error.starts_with("keyFile: /no/such/key: "), "{error}");
    }
}
