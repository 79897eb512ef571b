//! Numbers as clients write them. Strict: anything odd is `None`, never a guess.

use std::time::Duration;

use crate::time::Wall;

/// Longest number read, in characters; anything longer is nonsense.
const DIGITS_MAX: usize = 32;

/// Where epoch seconds end and ms begin, ms and µs, µs and ns. Today is 1.8e9 s, 1.8e12 ms,
/// 1.8e15 µs, 1.8e18 ns: each bound is two orders from both sides, until the year 5138.
const SECONDS_END: f64 = 1e11;
const MILLIS_END: f64 = 1e14;
const MICROS_END: f64 = 1e17;

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
pub(super) fn epoch(value: &[u8]) -> Option<Wall> {
    let value = value.trim_ascii();
    let number = decimal(value.strip_prefix(b"t=").unwrap_or(value))?;
    let scale = match number {
        n if n < SECONDS_END => 1e9,
        n if n < MILLIS_END => 1e6,
        n if n < MICROS_END => 1e3,
        _ => 1.0,
    };
    // A float above u64::MAX becomes u64::MAX: far in the future, and disbelieved there.
    Some(Wall((number * scale) as u64))
}

/// A percentage, 0 to 100.
pub(super) fn percent(value: &[u8]) -> Option<f64> {
    decimal(value).filter(|percent| *percent <= 100.0)
}

/// Digits with at most one dot; no sign, exponent, blank inside, infinity or NaN.
fn decimal(value: &[u8]) -> Option<f64> {
    let value = value.trim_ascii();
    let plain = value.iter().all(|b| b.is_ascii_digit() || *b == b'.');
    if !plain || value.len() > DIGITS_MAX {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// Longest span a header can stand for: a year. Callers clamp far below it.
const SPAN_MAX_S: f64 = 31_536_000.0;

fn seconds(s: f64) -> Duration {
    Duration::from_secs_f64(s.min(SPAN_MAX_S))
}
