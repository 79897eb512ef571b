//! Requests that arrived within the latest spans, by which a policy knows what may wait. Pure.

/// Lengths of the spans, s.
pub(super) const SPANS_S: [f64; 8] = [0.25, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 12.0];

/// Requests of the latest spans.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recently {
    /// Spans that end now; empty ones where nothing is known.
    pub spans: [Span; SPANS_S.len()],
    /// Variance of a count to come, divided by its mean.
    pub dispersion: f64,
}

/// Requests within a span.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Span {
    /// Length, s.
    pub seconds: f64,
    /// Requests.
    pub requests: f64,
}

impl Default for Recently {
    fn default() -> Self {
        Recently {
            spans: Default::default(),
            dispersion: 1.0,
        }
    }
}

impl Recently {
    /// Counts each span by `count`, which returns its requests and its true length.
    pub(super) fn of(count: impl Fn(f64) -> (f64, f64), dispersion: f64) -> Recently {
        let span = |seconds| {
            let (requests, seconds) = count(seconds);
            Span { seconds, requests }
        };
        Recently {
            spans: SPANS_S.map(span),
            dispersion,
        }
    }
}
