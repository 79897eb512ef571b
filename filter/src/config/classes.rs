//! Configuration of classes, and its rules. Shares must not exceed the whole, and the default class must
//! not need a claim.

use serde::Deserialize;
use weir_api::plan::is_name;

use super::error::wrong;
use super::{ConfigError, REQUESTS_MAX};
use crate::waiting::class::{
    CLASSES_MAX, Claim, ClaimFrom, Class, ClassId, Classes, MAX_SKIPS_DEFAULT, PRIORITY_MAX,
};

/// Minimum share: less than a thousandth amounts to a lower priority.
const SHARE_MIN: f64 = 0.001;
/// Rounding error allowed in a sum of decimal fractions.
const ROUNDING: f64 = 1e-9;
/// Maximum of the configurable number of skips.
const MAX_SKIPS_MAX: u32 = 1000;
/// Maximum number of values of a claim: each is compared with every request that asks for the class.
const VALUES_MAX: usize = 32;
/// Maximum number of parts of a property's path, and maximum length of a part, header or value.
const PARTS_MAX: usize = 8;
const WORD_MAX: usize = 256;

/// Keys `classes`, `default_class` and `max_skips`, all or none.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RawClasses {
    pub(super) classes: Option<Vec<RawClass>>,
    pub(super) default_class: Option<String>,
    pub(super) max_skips: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawClass {
    name: String,
    share: f64,
    #[serde(default)]
    priority: u8,
    max_requests: Option<u32>,
    #[serde(default)]
    streams: bool,
    claim: Option<RawClaim>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawClaim {
    header: Option<String>,
    property: Option<Vec<String>>,
    values: Vec<String>,
}

impl RawClasses {
    /// Returns the classes, or the default class if none are configured.
    pub(super) fn check(self) -> Result<Classes, ConfigError> {
        let Some(raw) = self.classes else {
            let right = "left out where there are no `classes`";
            if let Some(name) = self.default_class {
                return Err(wrong("default_class", format!("'{name}'"), right));
            }
            if let Some(max_skips) = self.max_skips {
                return Err(wrong("max_skips", max_skips, right));
            }
            return Ok(Classes::default());
        };
        if !(1..=CLASSES_MAX).contains(&raw.len()) {
            let value = format!("{} of them", raw.len());
            return Err(wrong("classes", value, format!("1 to {CLASSES_MAX}")));
        }
        let max_skips = self.max_skips.unwrap_or(MAX_SKIPS_DEFAULT);
        if !(1..=MAX_SKIPS_MAX).contains(&max_skips) {
            let right = format!("1 to {MAX_SKIPS_MAX}");
            return Err(wrong("max_skips", max_skips, right));
        }
        let mut list: Vec<Class> = Vec::with_capacity(raw.len());
        for (at, raw) in raw.into_iter().enumerate() {
            let path = format!("classes[{at}]");
            if list.iter().any(|class| class.name == raw.name) {
                let value = format!("'{}'", raw.name);
                return Err(wrong(path + ".name", value, "a name no other class has"));
            }
            list.push(raw.check(&path)?);
        }
        check_shares(&list)?;
        let default = find_default(&list, self.default_class)?;
        Ok(Classes {
            list,
            default,
            max_skips,
        })
    }
}

impl RawClass {
    fn check(self, path: &str) -> Result<Class, ConfigError> {
        let at = |key: &str| format!("{path}.{key}");
        if !is_name(&self.name) {
            let right = "1 to 63 of a-z, 0-9 and single dashes inside";
            return Err(wrong(at("name"), format!("'{}'", self.name), right));
        }
        if !(SHARE_MIN..=1.0).contains(&self.share) {
            let right = format!("{SHARE_MIN} to 1");
            return Err(wrong(at("share"), self.share, right));
        }
        if self.priority > PRIORITY_MAX {
            let right = format!("0 to {PRIORITY_MAX}; the greater goes first");
            return Err(wrong(at("priority"), self.priority, right));
        }
        if let Some(max_requests) = self
            .max_requests
            .filter(|max| !(1..=REQUESTS_MAX).contains(max))
        {
            return Err(wrong(
                at("max_requests"),
                max_requests,
                format!("1 to {REQUESTS_MAX}"),
            ));
        }
        let claim = self.claim.map(|claim| claim.check(&at("claim")));
        Ok(Class {
            name: self.name,
            share: self.share,
            priority: self.priority,
            max_requests: self.max_requests.map(|max| max as usize),
            streams: self.streams,
            claim: claim.transpose()?,
        })
    }
}

impl RawClaim {
    fn check(self, path: &str) -> Result<Claim, ConfigError> {
        let at = |key: &str| format!("{path}.{key}");
        let from = match (self.header, self.property) {
            (Some(header), None) => {
                if !is_header(&header) {
                    let right = format!("a header's name in lower case, 1 to {WORD_MAX} long");
                    return Err(wrong(at("header"), format!("'{header}'"), right));
                }
                ClaimFrom::Header(header)
            }
            (None, Some(parts)) => {
                let sound = parts.iter().all(|part| is_word(part));
                if !sound || !(1..=PARTS_MAX).contains(&parts.len()) {
                    let right = format!(
                        "1 to {PARTS_MAX} parts of a property's path, each 1 to {WORD_MAX} printable characters"
                    );
                    return Err(wrong(at("property"), format!("{parts:?}"), right));
                }
                ClaimFrom::Property(parts)
            }
            (header, _) => {
                let value = if header.is_some() { "both" } else { "neither" };
                return Err(wrong(path.to_owned(), value, "a `header` or a `property`"));
            }
        };
        if !(1..=VALUES_MAX).contains(&self.values.len()) {
            let value = format!("{} of them", self.values.len());
            return Err(wrong(at("values"), value, format!("1 to {VALUES_MAX}")));
        }
        for (i, value) in self.values.iter().enumerate() {
            let inside = value.strip_suffix('*').unwrap_or(value);
            if !is_word(value) || inside.contains('*') {
                let right =
                    format!("1 to {WORD_MAX} printable characters, with `*` at the end if at all");
                let path = at(&format!("values[{i}]"));
                return Err(wrong(path, format!("'{value}'"), right));
            }
        }
        Ok(Claim {
            from,
            values: self.values,
        })
    }
}

/// Checks that the shares of one priority sum to at most one.
fn check_shares(list: &[Class]) -> Result<(), ConfigError> {
    for priority in 0..=PRIORITY_MAX {
        let level = || list.iter().filter(|class| class.priority == priority);
        let sum: f64 = level().map(|class| class.share).sum();
        if sum > 1.0 + ROUNDING {
            let names: Vec<&str> = level().map(|class| class.name.as_str()).collect();
            let value = format!(
                "class shares over 100 %: {} of priority {priority}, {} together,",
                names.join(" + "),
                (sum * 1e6).round() / 1e6
            );
            return Err(wrong("classes[].share", value, "at most 1 together"));
        }
    }
    Ok(())
}

fn find_default(list: &[Class], name: Option<String>) -> Result<ClassId, ConfigError> {
    let Some(name) = name else {
        let right = "the name of the class of those who ask for none";
        return Err(wrong("default_class", "(missing)", right));
    };
    let found = (0..).zip(list).find(|(_, class)| class.name == name);
    match found {
        Some((id, class)) if class.claim.is_none() => Ok(ClassId(id)),
        Some(_) => {
            let right = "a class without a `claim`: those who may claim none fall into it";
            Err(wrong("default_class", format!("'{name}'"), right))
        }
        None => {
            let right = "the name of one of `classes`";
            Err(wrong("default_class", format!("'{name}'"), right))
        }
    }
}

fn is_header(name: &str) -> bool {
    let token = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_.".contains(&b);
    (1..=WORD_MAX).contains(&name.len()) && name.bytes().all(token)
}

/// Control characters cannot be passed to Envoy: its property paths separate parts by a zero byte.
fn is_word(word: &str) -> bool {
    (1..=WORD_MAX).contains(&word.len()) && !word.chars().any(char::is_control)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_api::json;

    fn read(json: &str) -> Result<Classes, ConfigError> {
        let raw: RawClasses = json::read(json.as_bytes())?;
        raw.check()
    }

    fn refused(json: &str, message: &str) {
        let error = read(json).unwrap_err().to_string();
        assert!(error.contains(message), "{json}: {error}");
    }

    fn with(class: &str) -> String {
        format!(
            r#"{{"classes":[{{"name":"low","share":0.5}},{{"name":"gold",{class}}}],"default_class":"low"}}"#
        )
    }

    #[test]
    fn absent_classes_default_to_one() {
        assert_eq!(read("{}").unwrap(), Classes::default());
    }

    #[test]
    fn full_class_configuration_is_read() {
        let classes = read(
            r#"{"default_class":"free","max_skips":5,"classes":[
                {"name":"gold","share":0.7,"priority":3,"max_requests":100,
                 "claim":{"property":["connection","uri_san_peer_certificate"],"values":["spiffe://a/*"]}},
                {"name":"team","share":0.3,"priority":3,"claim":{"header":"x-team","values":["vision"]}},
                {"name":"free","share":1}]}"#,
        )
        .unwrap();
        assert_eq!((classes.default, classes.max_skips), (ClassId(2), 5));
        let gold = classes.get(ClassId(0)).unwrap();
        assert_eq!((gold.priority, gold.max_requests), (3, Some(100)));
        let claim = classes.lookup(Some(b"team")).claim.unwrap();
        assert_eq!(claim.from, ClaimFrom::Header("x-team".to_owned()));
        assert!(read(&with(r#""share":0.5"#)).is_ok());
        let tenths =
            r#"{"name":"a","share":0.1},{"name":"b","share":0.2},{"name":"c","share":0.7}"#;
        let json = format!(r#"{{"classes":[{tenths}],"default_class":"a"}}"#);
        assert!(read(&json).is_ok(), "what rounding adds is not over 100 %");
    }

    #[test]
    fn invalid_class_is_refused_with_its_path() {
        refused(
            r#"{"default_class":"a"}"#,
            "default_class: 'a' must be left out",
        );
        refused(r#"{"max_skips":5}"#, "max_skips: 5 must be left out");
        refused(r#"{"classes":[]}"#, "classes: 0 of them must be 1 to 8");
        refused(
            r#"{"classes":[{"name":"a","share":1}]}"#,
            "default_class: (missing) must be",
        );
        refused(
            r#"{"classes":[{"name":"a","share":1}],"default_class":"b"}"#,
            "default_class: 'b' must be the name of one",
        );
        refused(
            r#"{"classes":[{"name":"a","share":1}],"default_class":"a","max_skips":0}"#,
            "max_skips: 0 must be 1 to 1000",
        );
        refused(&with(r#""share":0"#), "classes[1].share: 0 must be");
        refused(&with(r#""share":-0.1"#), "classes[1].share: -0.1 must be");
        refused(&with(r#""share":1.5"#), "classes[1].share: 1.5 must be");
        refused(
            &with(r#""share":0.6"#),
            "classes[].share: class shares over 100 %: low + gold of priority 0, 1.1 together, must be",
        );
        assert!(read(&with(r#""share":0.6,"priority":1"#)).is_ok());
        refused(
            &with(r#""share":0.1,"priority":8"#),
            "classes[1].priority: 8",
        );
        refused(
            &with(r#""share":0.1,"max_requests":0"#),
            "classes[1].max_requests: 0",
        );
        refused(&with(r#""share":0.1,"weight":2"#), "unknown field `weight`");
        refused(
            r#"{"classes":[{"name":"A","share":1}],"default_class":"A"}"#,
            "classes[0].name: 'A' must be",
        );
        refused(
            r#"{"classes":[{"name":"a","share":0.1},{"name":"a","share":0.1}],"default_class":"a"}"#,
            "classes[1].name: 'a' must be a name no other",
        );
        let many: Vec<String> = (0..9)
            .map(|i| format!(r#"{{"name":"c{i}","share":0.1}}"#))
            .collect();
        refused(
            &format!(r#"{{"classes":[{}],"default_class":"c0"}}"#, many.join(",")),
            "classes: 9 of them",
        );
    }

    #[test]
    fn invalid_claim_is_refused_with_its_path() {
        let claimed = |claim: &str| with(&format!(r#""share":0.1,"claim":{claim}"#));
        for (claim, message) in [
            (r#"{"values":["a"]}"#, "classes[1].claim: neither must be"),
            (
                r#"{"header":"a","property":["b"],"values":["a"]}"#,
                "classes[1].claim: both must be",
            ),
            (
                r#"{"header":"X-Team","values":["a"]}"#,
                "claim.header: 'X-Team'",
            ),
            (
                r#"{"header":":path","values":["a"]}"#,
                "claim.header: ':path'",
            ),
            (
                r#"{"property":[],"values":["a"]}"#,
                "claim.property: [] must be",
            ),
            (
                r#"{"property":["a\u0000b"],"values":["a"]}"#,
                "claim.property",
            ),
            (
                r#"{"property":"a.b","values":["a"]}"#,
                "claim.property: invalid type",
            ),
            (r#"{"header":"a","values":[]}"#, "claim.values: 0 of them"),
            (r#"{"header":"a","values":["a",""]}"#, "claim.values[1]: ''"),
            (r#"{"header":"a","values":["*a"]}"#, "claim.values[0]: '*a'"),
            (
                r#"{"header":"a","values":["a**"]}"#,
                "claim.values[0]: 'a**'",
            ),
        ] {
            refused(&claimed(claim), message);
        }
        let free = r#"{"classes":[{"name":"a","share":1,"claim":{"header":"h","values":["v"]}}],"default_class":"a"}"#;
        refused(free, "default_class: 'a' must be a class without a `claim`");
    }
}
