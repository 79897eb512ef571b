//! Numbers as clients write them. Strict: anything odd is `None`, never a guess.

use std::time::Duration;

use crate::time::Wall;

/// Longest number read, in characters; anything longer is nonsense.
const DIGITS_MAX: usize = 32;

/// Where epoch seconds end and ms begin, ms and µs, µs and ns. Today is 1.8e9 s, 1.8e12 ms,
/// 1.8e15 µs, 1.8e18 ns: each bound is two orders from both sides, until the year 5138.
const SECONDS_END: u64 = 100_000_000_000;
const MILLIS_END: u64 = 100_000_000_000_000;
const MICROS_END: u64 = 100_000_000_000_000_000;

/// A budget in ms: digits, with a fraction if need be. Too large a number is the greatest one.
pub(super) fn millis(value: &[u8]) -> Option<Duration> {
    let ms = decimal(value)?;
    (ms > 0.0).then(|| seconds(ms / 1e3))
}

/// `grpc-timeout`: up to eight digits and one of H M S m u n.
#[must_use]
pub fn grpc_timeout(value: &[u8]) -> Option<Duration> {
    let (unit, digits) = value.split_last()?;
    if digits.len() > 8 || digits.contains(&b'.') {
        return None;
    }
    let scale = match unit {
        b'H' => 3600.0,
        b'M' => 60.0,
        b'S' => 1.0,
        b'm' => 1e-3,
        b'u' => 1e-6,
        b'n' => 1e-9,
        _ => return None,
    };
    let count = decimal(digits)?;
    (count > 0.0).then(|| seconds(count * scale))
}

/// A moment of the Unix epoch in s, ms, µs or ns, told apart by magnitude; `t=` may stand before it.
/// In whole numbers throughout: a float does not hold the nanoseconds of today. A number too large is
/// the latest moment there is, and disbelieved as such.
pub(super) fn epoch(value: &[u8]) -> Option<Wall> {
    const NANO: u64 = 1_000_000_000;
    let value = value.trim_ascii();
    let number = digits(value.strip_prefix(b"t=").unwrap_or(value))?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = match whole {
        "" => 0,
        digits => digits.parse::<u64>().unwrap_or(u64::MAX),
    };
    let unit_ns = match whole {
        n if n < SECONDS_END => NANO,
        n if n < MILLIS_END => 1_000_000,
        n if n < MICROS_END => 1_000,
        _ => 1,
    };
    let nanos = fraction.bytes().chain(std::iter::repeat(b'0')).take(9);
    let nanos = nanos.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    let part_ns = u128::from(nanos) * u128::from(unit_ns) / u128::from(NANO);
    Some(Wall(
        whole.saturating_mul(unit_ns).saturating_add(part_ns as u64),
    ))
}

/// A percentage, 0 to 100.
pub(super) fn percent(value: &[u8]) -> Option<f64> {
    decimal(value).filter(|percent| *percent <= 100.0)
}

fn decimal(value: &[u8]) -> Option<f64> {
    digits(value.trim_ascii())?.parse().ok()
}

/// Digits with at most one dot; no sign, exponent, blank, infinity or NaN.
fn digits(value: &[u8]) -> Option<&str> {
    let dots = value.iter().filter(|b| **b == b'.').count();
    let plain = value.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    let number = plain && dots <= 1 && (1..=DIGITS_MAX).contains(&value.len()) && value != b".";
    std::str::from_utf8(value).ok().filter(|_| number)
}

/// Longest span a header can stand for: a year. Callers clamp far below it.
const SPAN_MAX_S: f64 = 31_536_000.0;

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s.min(SPAN_MAX_S))
}
