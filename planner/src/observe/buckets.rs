//! Buckets of a histogram as proxies report them: their increase between two scrapes, their sum over proxies, and
//! quantiles. Pure.
//!
//! Between two edges a quantile is interpolated linearly; above the last finite edge it is that edge. A histogram that
//! fell, or has other edges than before, belongs to a restarted proxy and counts from 0. Of proxies with different edges
//! the common ones count.

/// Finite edges of the histogram of latencies in the shipped `envoy/*.yaml`, in ms. They end in 9 above 75 like those of
/// [`super::slack::EDGES_MS`], and reach as far as an answer may take.
pub const LATENCY_EDGES_MS: [u32; 36] = [
    1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 75, 99, 119, 149, 199, 249, 299, 399, 499, 599, 799,
    999, 1299, 1499, 1999, 2499, 2999, 3999, 4999, 6999, 9999, 19_999, 29_999, 59_999,
];

/// Upper edges, and the number of values of at most that edge, both rising.
pub type Buckets = Vec<(f64, f64)>;

/// Returns the number of all values.
pub fn total(buckets: &Buckets) -> f64 {
    buckets.last().map_or(0.0, |(_, count)| *count)
}

/// Returns the value that this part of all values, 0 to 1, does not exceed; `None` without values.
pub fn quantile(buckets: &Buckets, part: f64) -> Option<f64> {
    let all = total(buckets);
    (all > 0.0).then_some(())?;
    first_with(buckets, all * part)
}

/// Returns the value up to which `desired` values are counted; `None` if there are fewer.
pub(super) fn first_with(buckets: &Buckets, desired: f64) -> Option<f64> {
    let mut before = (0.0, 0.0);
    for (edge, count) in buckets {
        if *count > before.1 && *count >= desired {
            return Some(between(before, (*edge, *count), desired));
        }
        before = (*edge, *count);
    }
    None
}

/// Interpolates linearly between two edges the value up to which `desired` values are counted; the lower edge if the
/// upper is infinite.
fn between(lower: (f64, f64), upper: (f64, f64), desired: f64) -> f64 {
    if !upper.0.is_finite() {
        return lower.0;
    }
    let inside = (desired - lower.1) / (upper.1 - lower.1);
    lower.0 + (upper.0 - lower.0) * inside.clamp(0.0, 1.0)
}

/// Counts the values of less than `min`, interpolated linearly between two edges; none beyond the last finite edge.
pub(super) fn counted(buckets: &Buckets, min: f64) -> f64 {
    let mut before = (0.0, 0.0);
    for (edge, count) in buckets {
        if *edge > min {
            let inside = if edge.is_finite() {
                (min - before.0) / (edge - before.0)
            } else {
                0.0
            };
            return before.1 + (count - before.1) * inside.clamp(0.0, 1.0);
        }
        before = (*edge, *count);
    }
    before.1
}

/// Returns the increase of `new` over `old`. Where either is empty, nothing of ours had been counted.
pub(super) fn since(old: &Buckets, new: &Buckets) -> Buckets {
    if total(new) < total(old) || !has_same_edges(old, new) {
        return new.clone();
    }
    let both = new.iter().zip(old);
    both.map(|((edge, count), (_, before))| (*edge, (count - before).max(0.0)))
        .collect()
}

/// Adds counts. While a proxy's edges are being changed, the others have those of before: the edges that both have
/// remain, each with its true count.
pub fn add(to: &mut Buckets, more: &Buckets) {
    if to.is_empty() {
        to.clone_from(more);
    } else if has_same_edges(to, more) {
        for ((_, count), (_, more)) in to.iter_mut().zip(more) {
            *count += more;
        }
    } else if !more.is_empty() {
        to.retain_mut(|(edge, count)| {
            let same = more.iter().find(|(other, _)| other == edge);
            *count += same.map_or(0.0, |(_, more)| *more);
            same.is_some()
        });
    }
}

fn has_same_edges(one: &Buckets, other: &Buckets) -> bool {
    let mut both = one.iter().zip(other);
    one.len() == other.len() && both.all(|((edge, _), (other, _))| edge == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_interpolated_up_to_the_last_finite_edge() {
        let buckets = vec![
            (10.0, 0.0),
            (20.0, 50.0),
            (40.0, 90.0),
            (f64::INFINITY, 100.0),
        ];
        for (part, expected) in [
            (0.0, 10.0),
            (0.25, 15.0),
            (0.5, 20.0),
            (0.7, 30.0),
            (0.9, 40.0),
            (0.99, 40.0),
            (1.0, 40.0),
        ] {
            assert_eq!(quantile(&buckets, part), Some(expected), "{part}");
        }
        for none in [vec![], vec![(1.0, 0.0), (f64::INFINITY, 0.0)]] {
            assert_eq!(quantile(&none, 0.5), None, "{none:?}");
        }
    }
}
