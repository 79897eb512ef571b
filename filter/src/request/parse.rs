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

/// Parses a budget in ms: digits, optionally with a fraction. Too large a number saturates.
pub(super) fn millis(value: &[u8]) -> Option<Span> {
    span(number(value.trim_ascii())?, 1_000_000)
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
    span(number(count)?, unit_ns)
}

/// Parses a time since the Unix epoch in s, ms, µs or ns, distinguished by magnitude, optionally after
/// `t=`. Integers throughout: a float cannot hold today's nanoseconds. Too large a number saturates, and is
/// then rejected as invalid.
pub(super) fn epoch(value: &[u8]) -> Option<Wall> {
    let value = value.trim_ascii();
    let (whole, nanos) = number(value.strip_prefix(b"t=").unwrap_or(value))?;
    let unit_ns = match whole {
        n if n < SECONDS_END => NANO,
        n if n < MILLIS_END => 1_000_000,
        n if n < MICROS_END => 1_000,
        _ => 1,
    };
    Some(Wall(scaled(whole, nanos, unit_ns)))
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

/// Span of that many units; `None` if it is zero.
fn span((whole, nanos): (u64, u64), unit_ns: u64) -> Option<Span> {
    let span = Span::from_nanos(scaled(whole, nanos, unit_ns));
    (!span.is_zero()).then(|| span.min(SPAN_MAX))
}

fn scaled(whole: u64, nanos: u64, unit_ns: u64) -> u64 {
    // Only values in s or smaller units have a fraction: the product is less than 10¹⁸.
    let part_ns = nanos.saturating_mul(unit_ns) / NANO;
    whole.saturating_mul(unit_ns).saturating_add(part_ns)
}
