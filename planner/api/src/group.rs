//! Groups of requests by which service times are told apart: by class, or by the size of the body. Their names in
//! metrics and plans, their times in a plan, and the test that both sides use.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::moments::Moments;
use crate::plan::is_name;

/// Executions of a group from which on it may be told apart.
pub const SAMPLES_MIN: u32 = 20;
/// Difference of the means below which a group has no prediction of its own, as a part of the others' mean.
pub const DIFFERENCE_MIN: f64 = 0.1;
/// Minimum of Welch's t.
pub const T_MIN: f64 = 4.0;
/// Factor by which sizes must explain more than classes do. There are more sizes than classes, so they explain a little
/// more by chance.
pub const SIZES_MORE: f64 = 1.1;
/// Maximum ratio of a service time to the planned one.
pub const RATIO_MAX: f64 = 4096.0;
/// Maximum number of groups of one variant: 8 classes or 15 sizes.
pub const GROUPS_MAX: usize = 15;

const CLASS: &str = "class-";
const SIZE: &str = "size-";

/// Name of a group: `class-gold`, or `size-1024` for the bodies of 1,024 bytes and more, below the next size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupName<'a> {
    /// Class of that name.
    Class(&'a str),
    /// Size by its least number of bytes.
    Size(u64),
}

impl<'a> GroupName<'a> {
    /// Parses a name; `None` if it is none.
    #[must_use]
    pub fn parse(name: &'a str) -> Option<GroupName<'a>> {
        if let Some(class) = name.strip_prefix(CLASS) {
            return is_name(class).then_some(GroupName::Class(class));
        }
        let bytes = name.strip_prefix(SIZE)?.parse().ok().map(GroupName::Size);
        // Only one form of each number.
        bytes.filter(|size| size.to_string() == name)
    }
}

impl fmt::Display for GroupName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GroupName::Class(class) => write!(f, "{CLASS}{class}"),
            GroupName::Size(bytes) => write!(f, "{SIZE}{bytes}"),
        }
    }
}

/// Service time of a group at a variant, as the executions at all proxies show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupTime {
    /// Name of the group: `class-`, and a class; or `size-`, and the least number of bytes of a body.
    pub group: String,
    /// Mean of its service times as a ratio to `service_ms`, above 0 and at most 4096.
    pub mean: f64,
    /// Standard deviation of these ratios, 0 to 4096.
    pub deviation: f64,
}

/// Whether the mean of `own` differs from that of the `rest` by more than chance.
#[must_use]
pub fn differs(own: Moments, rest: Moments) -> bool {
    let min = f64::from(SAMPLES_MIN);
    if own.count < min || rest.count < min {
        return false;
    }
    let difference = (own.mean() - rest.mean()).abs();
    let square = own.square_of_mean_error() + rest.square_of_mean_error();
    difference >= DIFFERENCE_MIN * rest.mean() && difference * difference >= T_MIN * T_MIN * square
}

/// Variance of the means of `groups` within `all`, as a part of the square of the mean.
#[must_use]
pub fn explained(groups: impl Iterator<Item = Moments>, all: Moments) -> f64 {
    let mean = all.mean();
    if mean <= 0.0 {
        return 0.0;
    }
    let squares = groups.map(|own| {
        let deviation = own.mean() / mean - 1.0;
        own.count * deviation * deviation
    });
    squares.sum::<f64>() / all.count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_as_they_are_written() {
        for (name, group) in [
            ("class-gold", Some(GroupName::Class("gold"))),
            ("class-size-7", Some(GroupName::Class("size-7"))),
            ("size-0", Some(GroupName::Size(0))),
            ("size-4194304", Some(GroupName::Size(4 << 20))),
            ("class-", None),
            ("class-Gold", None),
            ("size-", None),
            ("size-01", None),
            ("size-+1", None),
            ("size--1", None),
            ("gold", None),
            ("", None),
        ] {
            assert_eq!(GroupName::parse(name), group, "{name}");
            if let Some(group) = group {
                assert_eq!(group.to_string(), name);
            }
        }
    }
}
