//! Keys that a command sends: of a file or a variable, in the form of the planner's own key file.

use std::path::Path;

use anyhow::Context;
use weir_planner::key::{KEYS_BYTES_MAX, Keys, Right};

use crate::input::read;

/// Keys that may read, by service; none may be there, for what needs no key.
#[derive(Clone, Default)]
pub(crate) struct ClientKeys(Vec<(Option<String>, String)>);

impl ClientKeys {
    /// # Errors
    /// A file that cannot be read, or a line that is no key.
    pub(crate) fn of_file(path: &Path) -> anyhow::Result<ClientKeys> {
        ClientKeys::parse(&read(path)?)
    }

    /// # Errors
    /// A variable that is not set, or a line that is no key.
    pub(crate) fn of_variable(name: &str) -> anyhow::Result<ClientKeys> {
        let text = std::env::var(name).context(
            "the environment variable is not set (or not Unicode); set it to the planner's key, or give --key-file FILE",
        )?;
        ClientKeys::parse(&text)
    }

    fn parse(text: &str) -> anyhow::Result<ClientKeys> {
        anyhow::ensure!(
            text.len() as u64 <= KEYS_BYTES_MAX,
            "too large; it must have at most {KEYS_BYTES_MAX} bytes"
        );
        let lines = Keys::lines(text)?.into_iter();
        let keys = lines.filter_map(|(name, key, scope)| {
            let reads = scope.permits(Right::Read);
            reads.then(|| (name.map(str::to_owned), key.to_owned()))
        });
        let keys: Vec<_> = keys.collect();
        anyhow::ensure!(
            !keys.is_empty(),
            "every key has `poll` behind it, which reads nothing; add one with `read`, here and in the planner's key file"
        );
        Ok(ClientKeys(keys))
    }

    /// Returns the key for a service: its own, else that of all services.
    pub(crate) fn of(&self, service: &str) -> Option<&str> {
        let first = |name: Option<&str>| {
            let mut keys = self.0.iter();
            keys.find(|(of, _)| of.as_deref() == name)
        };
        let found = first(Some(service)).or_else(|| first(None));
        found.map(|(_, key)| key.as_str())
    }
}

impl std::fmt::Debug for ClientKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientKeys(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn service_gets_its_own_key_or_that_of_all() {
        let text = "# rotation\nkey-of-proxies poll\nfirst-of-all read\nsecond-of-all\n resnet\tkey-of-resnet\n\
            bert key-of-proxies poll\nbert key-of-bert write\n";
        let keys = ClientKeys::parse(text).unwrap();
        for (service, expected) in [
            ("resnet", Some("key-of-resnet")),
            ("bert", Some("key-of-bert")),
            ("other", Some("first-of-all")),
        ] {
            assert_eq!(keys.of(service), expected, "{service}");
        }
        let own = ClientKeys::parse("bert key-of-bert").unwrap();
        assert_eq!(own.of("other"), None);
        assert_eq!(format!("{keys:?}"), "ClientKeys(…)");
    }

    #[test]
    fn wrong_text_is_refused_without_a_part_of_it() {
        for (text, part) in [
            ("xyzzy", "line 1: the key has 5 characters"),
            (
                "change-me",
                "line 1: 'change-me' is the manifests' placeholder",
            ),
            ("", "no key"),
            ("xyzzy-key poll", "every key has `poll` behind it"),
        ] {
            let refused = ClientKeys::parse(text).unwrap_err().to_string();
            assert!(refused.contains(part), "{refused}");
            assert!(!refused.contains("xyzzy"), "{refused}");
        }
    }
}
