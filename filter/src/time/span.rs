//! A span of time in 64 bits.

use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

const NS_PER_US: u64 = 1_000;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// Span of time in ns, at most 584 years. Arithmetic saturates at zero and at the maximum. It takes one instruction where
/// a [`Duration`], which keeps seconds and ns apart, takes several, and the request path does it many times.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(u64);

impl Span {
    /// No time.
    pub const ZERO: Span = Span(0);
    /// Longest span; where a limit or a point in time may be missing, it stands for never.
    pub const MAX: Span = Span(u64::MAX);

    /// Span of this many ns.
    #[must_use]
    #[inline]
    pub const fn from_nanos(ns: u64) -> Span {
        Span(ns)
    }

    /// Span of this many µs.
    #[must_use]
    #[inline]
    pub const fn from_micros(us: u64) -> Span {
        Span(us.saturating_mul(NS_PER_US))
    }

    /// Span of this many ms.
    #[must_use]
    #[inline]
    pub const fn from_millis(ms: u64) -> Span {
        Span(ms.saturating_mul(NS_PER_MS))
    }

    /// Span of this many seconds.
    #[must_use]
    #[inline]
    pub const fn from_secs(s: u64) -> Span {
        Span(s.saturating_mul(NS_PER_S))
    }

    /// Span of this many ms, rounded to ns; zero if negative or not a number.
    #[must_use]
    #[inline]
    pub fn from_millis_f64(ms: f64) -> Span {
        Span(rounded(ms * NS_PER_MS as f64))
    }

    /// Its ns.
    #[must_use]
    #[inline]
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Its whole µs.
    #[must_use]
    #[inline]
    pub const fn as_micros(self) -> u64 {
        self.0 / NS_PER_US
    }

    /// Its whole ms.
    #[must_use]
    #[inline]
    pub const fn as_millis(self) -> u64 {
        self.0 / NS_PER_MS
    }

    /// Its ms, rounded up so that a positive span is not 0.
    #[must_use]
    #[inline]
    pub const fn as_millis_up(self) -> u64 {
        self.0.div_ceil(NS_PER_MS)
    }

    /// Its ms with their fraction.
    #[must_use]
    #[inline]
    pub fn as_millis_f64(self) -> f64 {
        self.0 as f64 / NS_PER_MS as f64
    }

    /// Difference to a shorter one; zero if the other is longer.
    #[must_use]
    #[inline]
    pub const fn saturating_sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }

    /// Whether it is no time at all.
    #[must_use]
    #[inline]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Difference to another, whichever is longer.
    #[must_use]
    #[inline]
    pub const fn abs_diff(self, other: Span) -> Span {
        Span(self.0.abs_diff(other.0))
    }

    /// Product, rounded to ns; zero if negative or not a number.
    #[must_use]
    #[inline]
    pub fn mul_f64(self, factor: f64) -> Span {
        Span(rounded(self.0 as f64 * factor))
    }

    /// Quotient of two spans.
    #[must_use]
    #[inline]
    pub fn div_span_f64(self, other: Span) -> f64 {
        self.0 as f64 / other.0 as f64
    }
}

/// Value as a whole number; zero if negative or not a number.
#[inline]
fn rounded(value: f64) -> u64 {
    (value + 0.5) as u64
}

impl Add for Span {
    type Output = Span;
    #[inline]
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    #[inline]
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    #[inline]
    fn sub(self, other: Span) -> Span {
        self.saturating_sub(other)
    }
}

impl Mul<u32> for Span {
    type Output = Span;
    #[inline]
    fn mul(self, factor: u32) -> Span {
        Span(self.0.saturating_mul(u64::from(factor)))
    }
}

impl Div<u32> for Span {
    type Output = Span;
    #[inline]
    fn div(self, parts: u32) -> Span {
        Span(self.0 / u64::from(parts))
    }
}

/// A time longer than the longest span becomes that.
impl From<Duration> for Span {
    #[inline]
    fn from(time: Duration) -> Span {
        // In 64 bits: `Duration` counts its ns in 128.
        let (seconds, ns) = (time.as_secs(), u64::from(time.subsec_nanos()));
        Span(seconds.saturating_mul(NS_PER_S).saturating_add(ns))
    }
}

impl From<Span> for Duration {
    #[inline]
    fn from(span: Span) -> Duration {
        Duration::from_nanos(span.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::Mono;

    proptest! {
        #[test]
        fn span_counts_as_a_duration_does(ns in 0..u64::MAX / 4, other in 0..u64::MAX / 4, factor in 1..1000_u32) {
            let (span, other) = (Span::from_nanos(ns), Span::from_nanos(other));
            let (time, another) = (Duration::from(span), Duration::from(other));
            prop_assert_eq!(Span::from(time), span);
            prop_assert_eq!(Span::from(time + another), span + other);
            prop_assert_eq!(Span::from(time.saturating_sub(another)), span - other);
            prop_assert_eq!(Span::from(time.abs_diff(another)), span.abs_diff(other));
            prop_assert_eq!(Span::from(time * factor), span * factor);
            prop_assert_eq!(Span::from(time / factor), span / factor);
            prop_assert_eq!(u128::from(span.as_micros()), time.as_micros());
            prop_assert_eq!(u128::from(span.as_millis()), time.as_millis());
            prop_assert_eq!(u128::from(span.as_millis_up()), time.as_nanos().div_ceil(1_000_000));
        }

        #[test]
        fn fractions_are_rounded_to_a_nanosecond(ms in 0.0..1e9_f64, factor in 0.0..10.0_f64) {
            let span = Span::from_millis_f64(ms);
            prop_assert!((span.as_millis_f64() - ms).abs() <= ms * 1e-15 + 5.1e-7);
            let product = span.as_nanos() as f64 * factor;
            prop_assert!((span.mul_f64(factor).as_nanos() as f64 - product).abs() <= product * 1e-15 + 0.51);
        }
    }

    #[test]
    fn arithmetic_saturates() {
        let one = Span::from_nanos(1);
        assert_eq!(Span::MAX + one, Span::MAX);
        assert_eq!(Span::ZERO - one, Span::ZERO);
        assert_eq!(Mono(1) - Span::from_nanos(2), Mono(0));
        assert_eq!(Mono(u64::MAX) + one, Mono(u64::MAX));
        assert_eq!(Span::MAX * 2, Span::MAX);
        assert_eq!(Span::MAX.mul_f64(2.0), Span::MAX);
        assert_eq!(Span::from_secs(u64::MAX), Span::MAX);
        assert_eq!(Span::from(Duration::MAX), Span::MAX);
        for ms in [-1.0, f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(Span::from_millis_f64(ms), Span::ZERO);
        }
        assert_eq!(Span::from_millis_f64(f64::INFINITY), Span::MAX);
    }

    #[test]
    fn positive_time_is_not_zero_ms() {
        let up = |ns| Span::from_nanos(ns).as_millis_up();
        assert_eq!([0, 1, 1_000_000, 1_000_001].map(up), [0, 1, 1, 2]);
    }
}
