//! Query of a poll and its validation. Each refusal names the field, the value and the allowed values.

use schemars::JsonSchema;
use serde::Deserialize;
use weir_api::Revision;
use weir_api::plan::is_name;

use crate::distribution::AFTER_MAX;
use crate::distribution::slot_allocation::{Poll, Role};

/// Maximum length of a proxy's node id, in bytes.
const PROXY_BYTES_MAX: usize = 256;
/// Maximum number of workers that a proxy may report.
const WORKERS_MAX: u32 = 4096;
/// Maximum length of a filter's version, in bytes.
const VERSION_BYTES_MAX: usize = 64;
/// Maximum part of a wrong value that a refusal repeats, in characters.
const SHOWN_MAX: usize = 64;

/// Query of a poll as received; unknown fields are ignored.
#[derive(Debug, Default, Deserialize, JsonSchema)]
pub(super) struct PollQuery {
    /// Revision of the plan that the proxy has; 0 for none.
    #[schemars(with = "u64", range(max = AFTER_MAX.0))]
    after: Option<String>,
    /// Node id of the proxy, which makes the poll its sign of life.
    #[schemars(with = "String", length(min = 1, max = PROXY_BYTES_MAX))]
    proxy: Option<String>,
    /// Number that differs after each start of the proxy.
    #[schemars(with = "u64")]
    incarnation: Option<String>,
    /// Worker threads of the proxy.
    #[schemars(with = "u32", range(max = WORKERS_MAX))]
    workers: Option<String>,
    /// Function of the proxy's filter; `both` if left out.
    #[schemars(with = "Role")]
    role: Option<String>,
    /// The one variant that a gate fronts.
    #[schemars(with = "String")]
    variant: Option<String>,
    /// Version of the proxy's filter; filters before this one state none.
    #[schemars(with = "String", length(min = 1, max = VERSION_BYTES_MAX))]
    version: Option<String>,
}

impl PollQuery {
    /// Returns the proxy's revision and, if it identifies itself, its report.
    pub(super) fn validate(self) -> Result<(Revision, Option<Poll>), String> {
        let after = Revision(number("after", self.after, AFTER_MAX.0)?);
        let incarnation = number("incarnation", self.incarnation, u64::MAX)?;
        let workers = number("workers", self.workers, WORKERS_MAX.into())?;
        let role = role(self.role)?;
        let variant = variant(self.variant, role)?;
        let version = version(self.version)?;
        let Some(proxy) = self.proxy else {
            return Ok((after, None));
        };
        if !is_node_id(&proxy) {
            return Err(format!(
                "proxy: '{}' ({} bytes) must be 1 to {PROXY_BYTES_MAX} bytes without control characters",
                display(&proxy),
                proxy.len()
            ));
        }
        let poll = Poll {
            proxy,
            incarnation,
            workers: u32::try_from(workers).unwrap_or(WORKERS_MAX),
            role,
            variant,
            version,
            after,
        };
        Ok((after, Some(poll)))
    }
}

/// Returns the whole number in that field, 0 if left out.
pub(super) fn number(field: &str, value: Option<String>, most: u64) -> Result<u64, String> {
    let Some(value) = value else { return Ok(0) };
    let digits = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    let read = value
        .parse()
        .ok()
        .filter(|number| digits && *number <= most);
    read.ok_or_else(|| {
        format!(
            "{field}: '{}' must be a whole number from 0 to {most}",
            display(&value)
        )
    })
}

fn role(value: Option<String>) -> Result<Role, String> {
    let Some(value) = value else {
        return Ok(Role::default());
    };
    let role = Role::ALL.into_iter().find(|role| role.name() == value);
    role.ok_or_else(|| format!("role: '{}' must be router, gate or both", display(&value)))
}

fn variant(value: Option<String>, role: Role) -> Result<Option<String>, String> {
    let Some(value) = value else { return Ok(None) };
    let wrong = |right: &str| Err(format!("variant: '{}' {right}", display(&value)));
    if !is_name(&value) {
        return wrong("must be a variant's name: a-z, 0-9 and single dashes inside");
    }
    if role != Role::Gate {
        return wrong("must be left out: only a proxy of role gate fronts a single variant");
    }
    Ok(Some(value))
}

fn version(value: Option<String>) -> Result<Option<String>, String> {
    let Some(value) = value else { return Ok(None) };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    if (1..=VERSION_BYTES_MAX).contains(&value.len()) && value.bytes().all(is_plain) {
        return Ok(Some(value));
    }
    Err(format!(
        "version: '{}' ({} bytes) must be 1 to {VERSION_BYTES_MAX} letters, digits and -._~, such as 1.2.3",
        display(&value),
        value.len()
    ))
}

fn is_node_id(proxy: &str) -> bool {
    (1..=PROXY_BYTES_MAX).contains(&proxy.len()) && !proxy.chars().any(char::is_control)
}

/// Returns the begin of a value, for messages.
pub(super) fn display(value: &str) -> String {
    let head = value.chars().take(SHOWN_MAX);
    head.map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refusal(field: &str, value: &str, expected: &str) {
        let mut query = PollQuery::default();
        let place = match field {
            "after" => &mut query.after,
            "proxy" => &mut query.proxy,
            "incarnation" => &mut query.incarnation,
            "workers" => &mut query.workers,
            "variant" => &mut query.variant,
            "version" => &mut query.version,
            _ => &mut query.role,
        };
        *place = Some(value.to_owned());
        let error = query.validate().expect_err(value);
        assert!(
            error.starts_with(field) && error.contains(expected),
            "{error}"
        );
    }

    #[test]
    fn invalid_value_is_named_with_allowed_values() {
        let number =
            |value: &str, most: u64| format!("'{value}' must be a whole number from 0 to {most}");
        for value in ["", "-1", "+1", "1.5", "1e3", "99999999999999999999"] {
            check_refusal("after", value, &number(value, AFTER_MAX.0));
            check_refusal("incarnation", value, &number(value, u64::MAX));
            check_refusal("workers", value, &number(value, 4096));
        }
        check_refusal("workers", "4097", "0 to 4096");
        let beyond = (AFTER_MAX.0 + 1).to_string();
        check_refusal("after", &beyond, &number(&beyond, AFTER_MAX.0));
        for value in ["king", "", "Gate", "both "] {
            check_refusal(
                "role",
                value,
                &format!("'{value}' must be router, gate or both"),
            );
        }
        for value in ["", "A", "a--b", "a b"] {
            let expected = format!("'{value}' must be a variant's name");
            check_refusal("variant", value, &expected);
        }
        check_refusal("variant", "a", "only a proxy of role gate");
        for (value, expected) in [
            ("", "'' (0 bytes) must be 1 to 64 letters, digits and -._~"),
            ("1.2 3", "'1.2 3' (5 bytes)"),
            ("1.2\"}", "'1.2\"}' (5 bytes)"),
            ("v\n", "'v\u{fffd}' (2 bytes)"),
            ("é", "'é' (2 bytes)"),
            (&*"1".repeat(65), "(65 bytes)"),
        ] {
            check_refusal("version", value, expected);
        }
        check_refusal("proxy", "", "'' (0 bytes) must be 1 to 256 bytes");
        check_refusal("proxy", "a\0b", "'a\u{fffd}b' (3 bytes)");
        check_refusal("proxy", &"p".repeat(257), "(257 bytes)");
        let longest = "p".repeat(256);
        let query = PollQuery {
            proxy: Some(longest.clone()),
            incarnation: Some(u64::MAX.to_string()),
            role: Some("gate".to_owned()),
            variant: Some("large".to_owned()),
            version: Some("1".repeat(64)),
            ..PollQuery::default()
        };
        let poll = query.validate().unwrap().1.unwrap();
        assert_eq!((poll.proxy, poll.incarnation), (longest, u64::MAX));
        assert_eq!((poll.role, poll.after), (Role::Gate, Revision(0)));
        assert_eq!(poll.variant.as_deref(), Some("large"));
        assert_eq!(poll.version, Some("1".repeat(64)));
    }
}
