//! Numbers in header values. Strict: anything unexpected is `None`, never a guess.

use crate::time::{Span, Wall};

/// Maximum number of characters; anything longer is invalid.
const DIGITS_MAX: usize = 32;

/// Boundaries between epoch seconds and ms, ms and µs, µs and ns. Today is 1.8e9 s, 1.8e12 ms, 1.8e15 µs,
/// 1.8e18 ns: each boundary is two orders of magnitude from both sides, until the year 5138.
const SECONDS_END: u64 = 100_000_000_000;
const MILLIS_END: u64 = 100_000_000_000_000;
const MICROS_END: u64 = 100_000_000_000_000_000;

const NANO: u64 = 1_000_000_000;

/// Parses a budget in units of so many ns: digits, optionally with a fraction. Too large a number saturates. What is
/// negative is used up, as zero is.
pub(super) fn budget(value: &[u8], unit_ns: u64) -> Option<Span> {
    let (is_negative, value) = signed(value);
    let span = span(number(value)?, unit_ns);
    Some(if is_negative { Span::ZERO } else { span })
}

/// Parses a Go duration, as in `1m30s`, `500ms`, `1.5h`, `-2s`; `0` alone needs no unit.
pub(super) fn go_duration(value: &[u8]) -> Option<Span> {
    let (is_negative, mut rest) = signed(value);
    if rest == b"0" {
        return Some(Span::ZERO);
    }
    if rest.is_empty() {
        return None;
    }
    let mut sum = Span::ZERO;
    while !rest.is_empty() {
        let is_digit = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let digits = rest.iter().take_while(|byte| is_digit(byte)).count();
        let (count, after) = rest.split_at_checked(digits)?;
        let letters = after.iter().take_while(|byte| !is_digit(byte)).count();
        let (unit, after) = after.split_at_checked(letters)?;
        let unit_ns = match unit {
            b"h" => 3600 * NANO,
            b"m" => 60 * NANO,
            b"s" => NANO,
            b"ms" => 1_000_000,
            b"us" | b"\xc2\xb5s" | b"\xce\xbcs" => 1_000,
            b"ns" => 1,
            _ => return None,
        };
        sum = (sum + span(number(count)?, unit_ns)).min(SPAN_MAX);
        rest = after;
    }
    Some(if is_negative { Span::ZERO } else { sum })
}

/// The first of the values that a proxy has merged into one line (RFC 9110, 5.3).
pub(super) fn first(value: &[u8]) -> &[u8] {
    let mut parts = value.split(|byte| *byte == b',');
    parts.next().unwrap_or_default().trim_ascii()
}

/// Splits a sign off.
fn signed(value: &[u8]) -> (bool, &[u8]) {
    let value = value.trim_ascii();
    match value.strip_prefix(b"-") {
        Some(rest) => (true, rest),
        None => (false, value),
    }
}

/// Parses `grpc-timeout`: up to eight digits and one of H M S m u n.
#[must_use]
pub(super) fn grpc_timeout(value: &[u8]) -> Option<Span> {
    let (unit, count) = value.trim_ascii().split_last()?;
    if count.len() > 8 || count.contains(&b'.') {
        return None;
    }
    let unit_ns = match unit {
        b'H' => 3600 * NANO,
        b'M' => 60 * NANO,
        b'S' => NANO,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => return None,
    };
    Some(span(number(count)?, unit_ns))
}

/// Time since the Unix epoch, as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Epoch {
    pub(super) at: Wall,
    /// Whether it is in whole seconds, and stands for all times of that second.
    pub(super) is_second: bool,
}

/// Parses a time since the Unix epoch in s, ms, µs or ns, distinguished by magnitude, optionally after
/// `t=`. Integers throughout: a float cannot hold today's nanoseconds. Too large a number saturates, and is
/// then rejected as invalid.
pub(super) fn epoch(value: &[u8]) -> Option<Epoch> {
    let value = value.trim_ascii();
    let digits = value.strip_prefix(b"t=").unwrap_or(value);
    let (whole, nanos) = number(digits)?;
    let unit_ns = match whole {
        n if n < SECONDS_END => NANO,
        n if n < MILLIS_END => 1_000_000,
        n if n < MICROS_END => 1_000,
        _ => 1,
    };
    Some(Epoch {
        at: Wall(scaled(whole, nanos, unit_ns)),
        is_second: unit_ns == NANO && !digits.contains(&b'.'),
    })
}

/// Parses a percentage, 0 to 100.
pub(super) fn percent(value: &[u8]) -> Option<f64> {
    let value = value.trim_ascii();
    number(value)?;
    let percent: f64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    (percent <= 100.0).then_some(percent)
}

/// Parses digits with at most one dot; no sign, exponent, blank, infinity or NaN. Returns the whole part,
/// saturated, and the fraction in billionths.
fn number(value: &[u8]) -> Option<(u64, u64)> {
    if !(1..=DIGITS_MAX).contains(&value.len()) || value == b"." {
        return None;
    }
    let (mut whole, mut nanos) = (0_u64, 0);
    let mut rest = value.iter();
    for byte in rest.by_ref() {
        match byte {
            b'0'..=b'9' => {
                let digit = u64::from(byte - b'0');
                whole = whole.saturating_mul(10).saturating_add(digit);
            }
            b'.' => break,
            _ => return None,
        }
    }
    // Weight of a digit after the dot; 0 beyond the ninth.
    let mut place = NANO / 10;
    for byte in rest {
        if !byte.is_ascii_digit() {
            return None;
        }
        nanos += u64::from(byte - b'0') * place;
        place /= 10;
    }
    Some((whole, nanos))
}

/// Longest span of a header: a year. Callers clamp far below it.
const SPAN_MAX: Span = Span::from_secs(31_536_000);

/// Span of that many units.
fn span((whole, nanos): (u64, u64), unit_ns: u64) -> Span {
    Span::from_nanos(scaled(whole, nanos, unit_ns)).min(SPAN_MAX)
}

fn scaled(whole: u64, nanos: u64, unit_ns: u64) -> u64 {
    let part_ns = u128::from(nanos) * u128::from(unit_ns) / u128::from(NANO);
    let part_ns = u64::try_from(part_ns).unwrap_or(u64::MAX);
    whole.saturating_mul(unit_ns).saturating_add(part_ns)
}
