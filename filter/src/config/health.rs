//! Configuration of the health rules for variants.

use crate::time::Span;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::error::wrong;
use super::{ConfigError, Role};
use crate::health::{BASE_DEFAULT, ERRORS_DEFAULT, MAX_DEFAULT, Policy};

/// Maximum of the configurable number of errors in a row.
const ERRORS_MAX: u16 = 1000;
/// Maximum of the configurable pause between trials, ms: a recovered server should not idle for longer.
const PAUSE_MAX_MS: u64 = 600_000;
/// Maximum length of a cluster suffix.
const SUFFIX_MAX: usize = 64;
/// Maximum length of a probe's path.
const PATH_MAX: usize = 256;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawHealth {
    path: Option<String>,
    eject: RawEject,
}

/// `true`, `false`, or rules.
struct RawEject(Option<RawRules>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawRules {
    errors: u16,
    base_ms: u64,
    max_ms: u64,
}

impl Default for RawEject {
    fn default() -> RawEject {
        RawEject(Some(RawRules::default()))
    }
}

impl Default for RawRules {
    fn default() -> RawRules {
        RawRules {
            errors: ERRORS_DEFAULT,
            base_ms: BASE_DEFAULT.as_millis(),
            max_ms: MAX_DEFAULT.as_millis(),
        }
    }
}

impl<'de> Deserialize<'de> for RawEject {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<RawEject, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = RawEject;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("true, false, or a table of errors, base_ms, max_ms")
            }

            fn visit_bool<E>(self, eject: bool) -> Result<RawEject, E> {
                Ok(RawEject(eject.then(RawRules::default)))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RawEject, A::Error> {
                let rules = RawRules::deserialize(MapAccessDeserializer::new(map))?;
                Ok(RawEject(Some(rules)))
            }
        }
        from.deserialize_any(Either)
    }
}

/// Checks the suffix of failover clusters' names, if given.
pub(super) fn check_failover(
    suffix: Option<String>,
    role: Role,
) -> Result<Option<String>, ConfigError> {
    let Some(suffix) = suffix else {
        return Ok(None);
    };
    if role == Role::Gate {
        let right = "left out where `role` is 'gate': a gate has no other variant to send to";
        return Err(wrong("failover", format!("'{suffix}'"), right));
    }
    let plain = suffix.bytes().all(|byte| byte.is_ascii_graphic());
    if !plain || !(1..=SUFFIX_MAX).contains(&suffix.len()) {
        let right = format!(
            "what the clusters' names end in, 1 to {SUFFIX_MAX} printable ASCII characters"
        );
        return Err(wrong("failover", format!("'{suffix}'"), right));
    }
    Ok(Some(suffix))
}

/// Checks the rules, if given.
pub(super) fn check(raw: Option<RawHealth>, role: Role) -> Result<Policy, ConfigError> {
    if raw.is_some() && role == Role::Gate {
        let right = "left out where `role` is 'gate': a gate has no other variant to send to";
        return Err(wrong("health", "(given)", right));
    }
    let raw = raw.unwrap_or_default();
    let eject = raw.eject.0.is_some();
    let rules = raw.eject.0.unwrap_or_default();
    if !(1..=ERRORS_MAX).contains(&rules.errors) {
        let right = format!("1 to {ERRORS_MAX}");
        return Err(wrong("health.eject.errors", rules.errors, right));
    }
    if !(1..=PAUSE_MAX_MS).contains(&rules.base_ms) {
        let right = format!("1 to {PAUSE_MAX_MS}");
        return Err(wrong("health.eject.base_ms", rules.base_ms, right));
    }
    if !(rules.base_ms..=PAUSE_MAX_MS).contains(&rules.max_ms) {
        let right = format!("health.eject.base_ms ({}) to {PAUSE_MAX_MS}", rules.base_ms);
        return Err(wrong("health.eject.max_ms", rules.max_ms, right));
    }
    if let Some(path) = &raw.path {
        let plain = path.bytes().all(|byte| byte.is_ascii_graphic());
        if !path.starts_with('/') || !plain || path.len() > PATH_MAX {
            let right =
                format!("a path from its / on, at most {PATH_MAX} printable ASCII characters");
            return Err(wrong("health.path", format!("'{path}'"), right));
        }
    }
    Ok(Policy {
        eject,
        errors: rules.errors,
        base: Span::from_millis(rules.base_ms),
        max: Span::from_millis(rules.max_ms),
        path: raw.path,
    })
}
