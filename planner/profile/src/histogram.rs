//! Histogram of a counter's text: increase between two readings, mean, its uncertainty, and percentiles. Pure.

use crate::ProfileError;

/// Standard deviations of a 95 % interval.
const Z_95: f64 = 1.96;

/// Histogram; without buckets a summary, of which only the mean is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    name: String,
    /// Upper edges, and the number of values up to each, both rising; the last edge is infinite.
    buckets: Vec<(f64, f64)>,
    sum: f64,
    count: f64,
}

/// Percentile of a histogram, in its unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantile {
    /// Interpolated value; the lower edge if the upper one is infinite.
    pub value: f64,
    /// Lower edge of its bucket.
    pub lower: f64,
    /// Upper edge of its bucket.
    pub upper: f64,
}

impl Histogram {
    /// Creates a histogram; the buckets are in any order, or none.
    ///
    /// # Errors
    /// Buckets that fall, without the infinite one, or that contradict the count.
    pub fn new(
        name: &str,
        mut buckets: Vec<(f64, f64)>,
        sum: f64,
        count: f64,
    ) -> Result<Histogram, ProfileError> {
        let refused = |text: String| Err(ProfileError(format!("{name}: {text}")));
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut before = 0.0;
        for (edge, up_to) in &buckets {
            if *up_to < before {
                return refused(format!(
                    "bucket le=\"{edge}\": {up_to}; it must be {before} or more, the count of the bucket below"
                ));
            }
            before = *up_to;
        }
        match buckets.last() {
            Some((edge, _)) if *edge != f64::INFINITY => {
                return refused("no bucket le=\"+Inf\"; the text is truncated".to_owned());
            }
            Some((_, all)) if *all != count => {
                return refused(format!(
                    "count {count}, bucket le=\"+Inf\" {all}; they must be equal"
                ));
            }
            _ => {}
        }
        Ok(Histogram {
            name: name.to_owned(),
            buckets,
            sum,
            count,
        })
    }

    /// Returns the increase since an earlier reading.
    ///
    /// # Errors
    /// Counters that fell (the program restarted), or other buckets.
    pub fn since(&self, earlier: &Histogram) -> Result<Histogram, ProfileError> {
        let name = &self.name;
        let fell = |what: &str, from: f64, to: f64| {
            ProfileError(format!(
                "{name}: {what} fell from {from} to {to} between the two readings: the program restarted; read again"
            ))
        };
        let edges = |of: &Histogram| of.buckets.iter().map(|(edge, _)| *edge).collect::<Vec<_>>();
        if edges(self) != edges(earlier) {
            let (now, before) = (self.buckets.len(), earlier.buckets.len());
            return Err(ProfileError(format!(
                "{name}: its buckets changed between the two readings ({before}, then {now}); read again"
            )));
        }
        for (what, from, to) in [
            ("the count", earlier.count, self.count),
            ("the sum", earlier.sum, self.sum),
        ] {
            if to < from {
                return Err(fell(what, from, to));
            }
        }
        let mut buckets = Vec::with_capacity(self.buckets.len());
        for ((edge, to), (_, from)) in self.buckets.iter().zip(&earlier.buckets) {
            if to < from {
                return Err(fell(&format!("bucket le=\"{edge}\""), *from, *to));
            }
            buckets.push((*edge, to - from));
        }
        Histogram::new(
            name,
            buckets,
            self.sum - earlier.sum,
            self.count - earlier.count,
        )
    }

    /// Returns the number of values.
    #[must_use]
    pub fn count(&self) -> f64 {
        self.count
    }

    /// Returns the mean; `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.sum / self.count)
    }

    /// Returns the value that this part of all values does not exceed, interpolated linearly in its bucket; `None`
    /// without buckets or values.
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Quantile> {
        let rank = part * self.count;
        let mut below = (0.0, 0.0);
        for (edge, up_to) in &self.buckets {
            if *up_to > below.1 && *up_to >= rank {
                let inside = (rank - below.1) / (up_to - below.1);
                let value = match edge.is_finite() {
                    true => below.0 + (edge - below.0) * inside,
                    false => below.0,
                };
                return Some(Quantile {
                    value,
                    lower: below.0,
                    upper: *edge,
                });
            }
            below = (*edge, *up_to);
        }
        None
    }

    /// Returns the half width of the mean's 95 % interval, in percent of it, as if the values were independent and in
    /// the middles of their buckets; `None` without buckets or values.
    #[must_use]
    pub fn half_width_percent(&self) -> Option<f64> {
        let mean = self.mean().filter(|mean| *mean > 0.0)?;
        self.buckets.first()?;
        let (mut squares, mut below) = (0.0, (0.0, 0.0));
        for (edge, up_to) in &self.buckets {
            let middle = match edge.is_finite() {
                true => f64::midpoint(below.0, *edge),
                false => below.0,
            };
            squares += (up_to - below.1) * (middle - mean) * (middle - mean);
            below = (*edge, *up_to);
        }
        let deviation = (squares / self.count).sqrt();
        Some(100.0 * Z_95 * deviation / self.count.sqrt() / mean)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(counts: [f64; 4], sum: f64) -> Histogram {
        let edges = [10.0, 20.0, 40.0, f64::INFINITY];
        let buckets = edges.into_iter().zip(counts).collect();
        Histogram::new("h", buckets, sum, counts[3]).unwrap()
    }

    #[test]
    fn increase_has_its_own_mean_and_percentiles() {
        let before = histogram([900.0; 4], 4500.0);
        let now = histogram([900.0, 980.0, 1000.0, 1000.0], 6100.0);
        let new = now.since(&before).unwrap();
        assert_eq!((new.count(), new.mean()), (100.0, Some(16.0)));
        for (part, value, upper) in [(0.4, 15.0, 20.0), (0.8, 20.0, 20.0), (0.9, 30.0, 40.0)] {
            let found = new.quantile(part).unwrap();
            assert_eq!((found.value, found.upper), (value, upper), "{part}");
        }
        // 80 at 15 and 20 at 30 around 16 ms.
        let deviation = (0.8 * 1.0 + 0.2 * 196.0_f64).sqrt();
        let expected = 196.0 * deviation / 10.0 / 16.0;
        assert!((new.half_width_percent().unwrap() - expected).abs() < 1e-9);
    }

    #[test]
    fn percentile_beyond_the_last_edge_is_that_edge() {
        let found = histogram([0.0, 0.0, 1.0, 100.0], 9000.0)
            .quantile(0.5)
            .unwrap();
        assert_eq!(
            (found.value, found.lower, found.upper),
            (40.0, 40.0, f64::INFINITY)
        );
    }

    #[test]
    fn summary_has_a_mean_alone() {
        let summary = Histogram::new("s", Vec::new(), 12.0, 4.0).unwrap();
        assert_eq!(summary.mean(), Some(3.0));
        assert_eq!(
            (summary.quantile(0.5), summary.half_width_percent()),
            (None, None)
        );
        let empty = Histogram::new("s", Vec::new(), 0.0, 0.0).unwrap();
        assert_eq!(empty.mean(), None);
    }

    #[test]
    fn restart_and_other_buckets_are_refused() {
        let before = histogram([1.0, 2.0, 3.0, 4.0], 60.0);
        for (now, expected) in [
            (
                histogram([1.0, 2.0, 3.0, 3.0], 60.0),
                "h: the count fell from 4 to 3",
            ),
            (
                histogram([1.0, 2.0, 3.0, 4.0], 50.0),
                "h: the sum fell from 60 to 50",
            ),
            (
                histogram([0.0, 2.0, 3.0, 9.0], 90.0),
                "h: bucket le=\"10\" fell from 1 to 0",
            ),
            (
                Histogram::new("h", vec![(5.0, 9.0), (f64::INFINITY, 9.0)], 99.0, 9.0).unwrap(),
                "h: its buckets changed between the two readings (4, then 2)",
            ),
        ] {
            let error = now.since(&before).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
