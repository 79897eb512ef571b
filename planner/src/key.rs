//! The key that the proxies' polls carry: its source and its comparison. It is never part of the service
//! file, never printed, and compared in constant time.

use std::fmt;
use std::path::PathBuf;

use subtle::ConstantTimeEq;

/// Minimum length. A longer, random key is better.
pub const KEY_MIN: usize = 8;
/// Maximum length.
pub const KEY_MAX: usize = 256;

/// Source of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeySource {
    /// Environment variable of this name.
    Env(String),
    /// File of this path; surrounding white space is ignored.
    File(PathBuf),
}

/// The shared key.
#[derive(Clone)]
pub struct Key(String);

/// Reason why there is no key.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message is its documentation")]
pub enum KeyError {
    #[error(
        "keyEnv: the environment variable {0} is not set (or not Unicode); set it to the proxies' shared key"
    )]
    NotSet(String),
    #[error("keyFile: {path}: {error}")]
    NotRead {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error(
        "{source_name}: the key has {length} characters; it must be {KEY_MIN} to {KEY_MAX} printable ASCII characters without spaces"
    )]
    Unfit { source_name: String, length: usize },
}

impl KeySource {
    /// Reads the key.
    ///
    /// # Errors
    /// Fails if the variable or file is missing, or if its content is no valid key.
    pub fn read(&self) -> Result<Key, KeyError> {
        let (text, source_name) = match self {
            KeySource::Env(name) => {
                let text = std::env::var(name).map_err(|_| KeyError::NotSet(name.clone()))?;
                (text, format!("keyEnv {name}"))
            }
            KeySource::File(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| KeyError::NotRead {
                    path: path.clone(),
                    error,
                })?;
                (text, format!("keyFile {}", path.display()))
            }
        };
        Key::new(text.trim()).ok_or(KeyError::Unfit {
            source_name,
            length: text.trim().chars().count(),
        })
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
    fn key_file_may_end_in_newline() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "secret-key\n").unwrap();
        assert!(
            KeySource::File(file.path().into())
                .read()
                .unwrap()
                .matches("secret-key")
        );
        std::fs::write(file.path(), "short\n").unwrap();
        let error = KeySource::File(file.path().into())
            .read()
            .unwrap_err()
            .to_string();
        assert!(
            error.contains("5 characters") && error.contains("8 to 256"),
            "{error}"
        );
        let error = KeySource::File("/no/such/key".into())
            .read()
            .unwrap_err()
            .to_string();
        assert!(error.starts_with("keyFile: /no/such/key"), "{error}");
    }
}
