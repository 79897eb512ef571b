//! List of variants that a request names, in order (`x-slo-variants`): a list of RFC 8941, parsed in one pass
//! without allocation.
//!
//! `large;within=300, medium;within=150, small` names three variants, two with a budget of their own. `*` as
//! the last member stands for any other variant. Strict: anything unexpected is an error that names the part
//! and what would be right, because a variant that is not named must not serve the request.

use crate::time::Span;
use std::fmt::Write;

use weir_api::plan::{NAME_MAX, is_name};

use super::parse;
use super::wire::Field;

/// Maximum number of members of a list, `*` included.
pub const LISTED_MAX: usize = 8;
/// Longest part of a value that an error shows, in bytes.
const SHOWN_MAX: usize = 64;
/// Member for any other variant.
const ANY: &[u8] = b"*";

/// Member of a list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Member<'a> {
    /// Name of the variant; `None` for any other than those named.
    pub name: Option<&'a str>,
    /// Budget for this variant alone.
    pub within: Option<Span>,
}

/// Members of a list, in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Members<'a> {
    members: [Member<'a>; LISTED_MAX],
    len: usize,
}

/// Error in a list, with the part that is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListError<'a> {
    /// No member at all.
    Empty,
    /// More than [`LISTED_MAX`] members.
    TooMany,
    /// A member whose name is not valid.
    Name(&'a [u8]),
    /// A variant that the service does not have.
    Unknown(&'a str),
    /// A member that is named twice.
    Twice(&'a [u8]),
    /// A member after `*`.
    AfterAny(&'a [u8]),
    /// A parameter other than `within`, or a second one.
    Parameter(&'a [u8]),
    /// A budget that is no positive number.
    Within(&'a [u8]),
}

impl<'a> Members<'a> {
    /// Parses the value of the header.
    ///
    /// # Errors
    /// The first part that is wrong.
    pub fn parse(value: &'a [u8]) -> Result<Members<'a>, ListError<'a>> {
        if value.trim_ascii().is_empty() {
            return Err(ListError::Empty);
        }
        let mut members = Members::default();
        for part in value.split(|byte| *byte == b',') {
            let name = part.split(|byte| *byte == b';').next().unwrap_or_default();
            let name = name.trim_ascii();
            let member = member(part)?;
            if members.iter().any(|other| other.name == member.name) {
                return Err(ListError::Twice(name));
            }
            if members.iter().any(|other| other.name.is_none()) {
                return Err(ListError::AfterAny(name));
            }
            let next = members.members.get_mut(members.len);
            *next.ok_or(ListError::TooMany)? = member;
            members.len += 1;
        }
        Ok(members)
    }

    /// Members in order.
    pub fn iter(&self) -> impl Iterator<Item = Member<'a>> + '_ {
        self.members.iter().take(self.len).copied()
    }
}

fn member(part: &[u8]) -> Result<Member<'_>, ListError<'_>> {
    let mut parts = part.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
    let name = parts.next().unwrap_or_default();
    let mut member = Member {
        name: (name != ANY).then(|| variant_name(name)).transpose()?,
        within: None,
    };
    for parameter in parts {
        let value = parameter.strip_prefix(b"within=");
        let value = value.filter(|_| member.within.is_none());
        let value = value.ok_or(ListError::Parameter(parameter))?;
        // The blanks that other headers may have around a number are none of this list's.
        let within = (value.trim_ascii() == value).then(|| parse::budget(value, 1_000_000));
        let within = within.flatten().filter(|within| !within.is_zero());
        member.within = Some(within.ok_or(ListError::Within(value))?);
    }
    Ok(member)
}

/// Name of a variant, bare or quoted: as a token of RFC 8941 it could not begin with a digit.
fn variant_name(part: &[u8]) -> Result<&str, ListError<'_>> {
    let quoted = part.strip_prefix(b"\"");
    let quoted = quoted.and_then(|rest| rest.strip_suffix(b"\""));
    let name = std::str::from_utf8(quoted.unwrap_or(part)).ok();
    name.filter(|name| is_name(name))
        .ok_or(ListError::Name(part))
}

impl ListError<'_> {
    /// Text for the client: header, wrong part, right ones. `known` are the variants of the service. It consists
    /// of printable ASCII without `"`, `\` and `%`, whatever the client sent.
    #[must_use]
    pub fn text<'a>(self, known: impl Iterator<Item = &'a str>) -> String {
        let mut text = format!("{}: ", Field::Variants.name());
        let mut add = |part: std::fmt::Arguments<'_>| {
            let _ = text.write_fmt(part);
        };
        match self {
            ListError::Empty => add(format_args!("names no variant, right is 'large, small'")),
            ListError::TooMany => add(format_args!("more than {LISTED_MAX} members")),
            ListError::Name(part) => add(format_args!(
                "'{}' is not a name, right are 1 to {NAME_MAX} of a-z, 0-9 and single dashes inside, or '*'",
                Shown(part)
            )),
            ListError::Unknown(name) => {
                add(format_args!("this service has no '{name}', but"));
                let mut known = known.fuse();
                for (place, name) in known.by_ref().take(LISTED_MAX).enumerate() {
                    let comma = if place > 0 { "," } else { "" };
                    add(format_args!("{comma} '{name}'"));
                }
                if known.next().is_some() {
                    add(format_args!(" and others"));
                }
            }
            ListError::Twice(part) => add(format_args!("'{}' stands twice", Shown(part))),
            ListError::AfterAny(part) => add(format_args!(
                "'{}' after '*', which must be the last",
                Shown(part)
            )),
            ListError::Parameter(part) => add(format_args!(
                "';{}' is not known, right is one ';within=MS'",
                Shown(part)
            )),
            ListError::Within(part) => add(format_args!(
                "within='{}' must be a number of milliseconds greater than 0",
                Shown(part)
            )),
        }
        text
    }
}

/// Part of a client's value, cut, with `?` for all that might be misread in an answer.
struct Shown<'a>(&'a [u8]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let is_plain = |byte: u8| (b' '..=b'~').contains(&byte) && !b"\"\\'%".contains(&byte);
        for byte in self.0.iter().take(SHOWN_MAX) {
            f.write_char(if is_plain(*byte) {
                char::from(*byte)
            } else {
                '?'
            })?;
        }
        f.write_str(if self.0.len() > SHOWN_MAX { "..." } else { "" })
    }
}

#[cfg(test)]
mod tests;
