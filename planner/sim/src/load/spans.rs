//! Arrivals of a load of which only counts are known: each at a time by chance within its span.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::REQUESTS_MAX;

/// Requests of one kind that arrived within a span of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedSpan {
    /// Begin, in µs since any fixed moment.
    pub from_us: u64,
    /// End, in µs, exclusive.
    pub to_us: u64,
    /// Number of requests.
    pub count: u64,
    /// Kind of the requests, such as the index of a class.
    pub kind: usize,
}

/// Returns the times of all requests, in µs and ascending, with their kinds. No two times are equal: of several at the
/// same time, the later ones are as many µs later.
///
/// # Errors
/// More than [`REQUESTS_MAX`] requests, or a span without length that has some.
pub fn spread(spans: &[CountedSpan], seed: u64) -> anyhow::Result<Vec<(u64, usize)>> {
    let count = spans
        .iter()
        .fold(0_u64, |sum, span| sum.saturating_add(span.count));
    anyhow::ensure!(
        count <= REQUESTS_MAX as u64,
        "{count} requests; at most {REQUESTS_MAX}"
    );
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut times = Vec::with_capacity(count as usize);
    for span in spans.iter().filter(|span| span.count > 0) {
        let (from, to) = (span.from_us, span.to_us);
        anyhow::ensure!(from < to, "{} requests from {from} to {to} µs", span.count);
        times.extend((0..span.count).map(|_| (rng.random_range(from..to), span.kind)));
    }
    times.sort_unstable();
    let mut before = None;
    for (at, _) in &mut times {
        *at = before.map_or(*at, |before: u64| (*at).max(before + 1));
        before = Some(*at);
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(from_us: u64, to_us: u64, count: u64, kind: usize) -> CountedSpan {
        CountedSpan {
            from_us,
            to_us,
            count,
            kind,
        }
    }

    #[test]
    fn every_span_has_its_count_at_times_of_its_own() {
        let second = 1_000_000;
        let spans = [
            span(0, second, 5000, 0),
            span(0, second, 300, 1),
            span(second, 2 * second, 0, 0),
            span(2 * second, 3 * second, 70, 1),
        ];
        let times = spread(&spans, 1).unwrap();
        assert!(times.is_sorted_by(|a, b| a.0 < b.0));
        let count = |from: u64, kind| {
            let within = times
                .iter()
                .filter(|(at, _)| (from..from + second).contains(at));
            within.filter(|(_, of)| *of == kind).count()
        };
        assert_eq!([count(0, 0), count(0, 1)], [5000, 300]);
        assert_eq!([count(second, 0), count(second, 1)], [0, 0]);
        assert_eq!([count(2 * second, 0), count(2 * second, 1)], [0, 70]);
        // Four standard deviations of the number in the first half.
        let half = times.iter().filter(|(at, _)| *at < second / 2).count() as f64;
        assert!(
            (half - 2650.0).abs() < 4.0 * libm::sqrt(5300.0 / 4.0),
            "{half}"
        );
        assert_eq!(times, spread(&spans, 1).unwrap());
        assert_ne!(times, spread(&spans, 2).unwrap());
    }

    #[test]
    fn crowded_span_has_ascending_times() {
        let times = spread(&[span(5, 6, 3, 0)], 1).unwrap();
        assert_eq!(times, [(5, 0), (6, 0), (7, 0)]);
    }

    #[test]
    fn impossible_spans_are_refused() {
        let refused = |spans: &[CountedSpan]| spread(spans, 1).unwrap_err().to_string();
        let many = refused(&[span(0, 1, u64::MAX, 0), span(0, 1, 5, 0)]);
        assert!(many.contains("at most 5000000"), "{many}");
        assert_eq!(refused(&[span(7, 7, 1, 0)]), "1 requests from 7 to 7 µs");
        assert_eq!(spread(&[span(7, 7, 0, 0)], 1).unwrap(), []);
    }
}
