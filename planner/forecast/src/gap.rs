//! Traces, and their gaps: seconds of which nothing is known, recorded as 0.
//!
//! A run of zeros is a gap if it is hardly a chance: after a mean rate r it lasts n seconds with r·n of
//! [`EXPECTED_MIN`] or more, so that Poisson arrivals would leave it empty with e^-r·n.

use std::ops::Range;

use crate::history::{WINDOW, mean};

/// Requests that a gap would have had by the rate before it.
pub const EXPECTED_MIN: f64 = 50.0;
/// Minimum length of a gap, in seconds.
const GAP_SECONDS_MIN: usize = 5;
/// Maximum length of a trace, in seconds: eight weeks.
pub const SECONDS_MAX: usize = 56 * 86_400;

/// Rates of each second, and the gaps among them.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    rates: Vec<f64>,
    gaps: Vec<Range<usize>>,
}

/// Treatment of gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gaps {
    /// A gap is an error.
    Refuse,
    /// Gaps are left out: nothing is learned from them, and no forecast that needs them is scored.
    Skip,
    /// Gaps are seconds without requests.
    Zero,
}

/// Error of a trace.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum TraceError {
    /// A rate is no rate.
    #[error("second {second}: {rate}; it must be a finite number of requests/s, 0 or more")]
    Rate {
        /// Second, from 0.
        second: usize,
        /// Its value.
        rate: f64,
    },
    /// All rates are 0.
    #[error("{seconds} s without a request; there must be some, or nothing can be forecast")]
    NoRequests {
        /// Its length.
        seconds: usize,
    },
    /// The trace is too short or too long.
    #[error("{seconds} s; it must be {min} to {SECONDS_MAX} s")]
    Length {
        /// Its length.
        seconds: usize,
        /// Minimum length.
        min: usize,
    },
    /// There is a gap.
    #[error(
        "seconds {} to {}: 0 requests/s for {} s, after {before:.1}/s; it must be a rate for each second, or the gaps must \
         be left out (skip) or be without requests (zero)", gap.0, gap.1 - 1, gap.1 - gap.0
    )]
    Gap {
        /// First second, and the second after the last.
        gap: (usize, usize),
        /// Mean rate before it.
        before: f64,
    },
}

impl Trace {
    /// Creates a trace from the rate of each second.
    ///
    /// # Errors
    /// No request at all, a rate that is negative or not finite, fewer than `seconds_min`, more than [`SECONDS_MAX`], or a gap where
    /// gaps are refused.
    pub fn new(rates: Vec<f64>, gaps: Gaps, seconds_min: usize) -> Result<Trace, TraceError> {
        let seconds = rates.len();
        if !(seconds_min..=SECONDS_MAX).contains(&seconds) {
            let min = seconds_min;
            return Err(TraceError::Length { seconds, min });
        }
        let wrong = |(_, rate): &(usize, &f64)| !rate.is_finite() || **rate < 0.0;
        if let Some((second, rate)) = rates.iter().enumerate().find(wrong) {
            let rate = *rate;
            return Err(TraceError::Rate { second, rate });
        }
        if rates.iter().all(|rate| *rate == 0.0) {
            return Err(TraceError::NoRequests { seconds });
        }
        let found = match gaps {
            Gaps::Zero => Vec::new(),
            Gaps::Refuse | Gaps::Skip => find(&rates),
        };
        if let (Gaps::Refuse, Some((gap, before))) = (gaps, found.first()) {
            return Err(TraceError::Gap {
                gap: (gap.start, gap.end),
                before: *before,
            });
        }
        let gaps = found.into_iter().map(|(gap, _)| gap).collect();
        Ok(Trace { rates, gaps })
    }

    /// Rate of each second, 0 in gaps.
    pub fn rates(&self) -> &[f64] {
        &self.rates
    }

    /// Gaps, in order.
    pub fn gaps(&self) -> &[Range<usize>] {
        &self.gaps
    }

    /// Seconds with their rates, without those of gaps.
    pub fn seconds(&self) -> impl Iterator<Item = (usize, f64)> {
        let mut gaps = self.gaps.iter().peekable();
        self.rates
            .iter()
            .copied()
            .enumerate()
            .filter(move |(at, _)| {
                while gaps.next_if(|gap| gap.end <= *at).is_some() {}
                gaps.peek().is_none_or(|gap| *at < gap.start)
            })
    }

    /// Parts between gaps.
    pub fn parts(&self) -> impl Iterator<Item = &[f64]> {
        let starts = std::iter::once(0).chain(self.gaps.iter().map(|gap| gap.end));
        let ends = self.gaps.iter().map(|gap| gap.start);
        let ends = ends.chain(std::iter::once(self.rates.len()));
        starts
            .zip(ends)
            .filter_map(|(start, end)| self.rates.get(start..end))
    }

    /// The first `seconds` of the trace.
    pub fn first(&self, seconds: usize) -> Trace {
        let rates = self.rates.iter().copied().take(seconds).collect();
        let within = |gap: &&Range<usize>| gap.start < seconds;
        let cut = |gap: &Range<usize>| gap.start..gap.end.min(seconds);
        let gaps = self.gaps.iter().filter(within).map(cut).collect();
        Trace { rates, gaps }
    }
}

/// Gaps, each with the mean rate before it.
fn find(rates: &[f64]) -> Vec<(Range<usize>, f64)> {
    let mut gaps: Vec<(Range<usize>, f64)> = Vec::new();
    let mut at = 0;
    // Mean rate of the latest seconds that are no gap.
    let mut recent: Vec<f64> = Vec::new();
    for run in rates.chunk_by(|a, b| (*a == 0.0) == (*b == 0.0)) {
        let seconds = at..at + run.len();
        at = seconds.end;
        let before = mean(&recent);
        let is_zero = run.first() == Some(&0.0);
        let expected = before * run.len() as f64;
        if is_zero && run.len() >= GAP_SECONDS_MIN && expected >= EXPECTED_MIN {
            gaps.push((seconds, before));
            continue;
        }
        let latest = run.iter().skip(run.len().saturating_sub(WINDOW));
        recent.extend(latest);
        recent.drain(..recent.len().saturating_sub(WINDOW));
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 50/s, a gap of 60 s, 50/s, a pause of 4 s, 50/s.
    fn rates() -> Vec<f64> {
        let parts = [(200, 50.0), (60, 0.0), (200, 50.0), (4, 0.0), (100, 50.0)];
        parts
            .iter()
            .flat_map(|(seconds, rate)| vec![*rate; *seconds])
            .collect()
    }

    #[test]
    fn gap_is_refused_with_its_place_or_left_out() {
        let error = Trace::new(rates(), Gaps::Refuse, 100).unwrap_err();
        assert_eq!(
            error.to_string(),
            "seconds 200 to 259: 0 requests/s for 60 s, after 50.0/s; it must be a rate for each second, or the gaps \
             must be left out (skip) or be without requests (zero)"
        );
        let trace = Trace::new(rates(), Gaps::Skip, 100).unwrap();
        assert!(matches!(trace.gaps(), [gap] if *gap == (200..260)));
        assert_eq!(trace.seconds().count(), 504);
        assert!(trace.seconds().all(|(at, _)| !(200..260).contains(&at)));
        let parts: Vec<usize> = trace.parts().map(<[f64]>::len).collect();
        assert_eq!(parts, [200, 304]);
        assert!(matches!(trace.first(230).gaps(), [gap] if *gap == (200..230)));
        assert_eq!(trace.first(100).gaps(), []);
        let zero = Trace::new(rates(), Gaps::Zero, 100).unwrap();
        assert_eq!((zero.gaps().len(), zero.seconds().count()), (0, 564));
    }

    #[test]
    fn silence_of_a_low_load_is_no_gap() {
        let rates: Vec<f64> = (0..5000).map(|at| f64::from(at % 40 == 0)).collect();
        assert_eq!(find(&rates), []);
    }

    #[test]
    fn invalid_trace_is_refused_with_second_and_value() {
        for (rate, message) in [
            (f64::NAN, "second 1: NaN; it must be a finite number"),
            (f64::INFINITY, "second 1: inf;"),
            (-3.0, "second 1: -3;"),
        ] {
            let error = Trace::new(vec![1.0, rate], Gaps::Refuse, 1).unwrap_err();
            assert!(error.to_string().starts_with(message), "{error}");
        }
        let error = Trace::new(vec![1.0; 9], Gaps::Skip, 10).unwrap_err();
        assert_eq!(error.to_string(), "9 s; it must be 10 to 4838400 s");
        let error = Trace::new(vec![0.0; 9], Gaps::Zero, 1).unwrap_err();
        assert!(error.to_string().starts_with("9 s without a request;"));
    }
}
