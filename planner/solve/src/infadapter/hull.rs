//! Concave hull of a variant's capacity over cores: the choices that are best for some price of a
//! core.

/// Corner of a hull.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Corner {
    pub(super) cores: f64,
    pub(super) load: f64,
}

/// Returns the upper concave hull of points by rising x, leftmost first.
pub(super) fn upper(points: impl IntoIterator<Item = Corner>) -> Vec<Corner> {
    let mut hull: Vec<Corner> = Vec::new();
    for point in points {
        while let [.., before, last] = hull.as_slice() {
            let run = (last.cores - before.cores) * (point.load - before.load);
            let rise = (last.load - before.load) * (point.cores - before.cores);
            if rise > run {
                break;
            }
            hull.pop();
        }
        hull.push(point);
    }
    hull
}

/// Returns the greatest value·load − cost·cores over the corners, and its corner; the first of equals.
pub(super) fn best(hull: &[Corner], value: f64, cost: f64) -> Option<(f64, Corner)> {
    // Gains fall along a hull: bisection finds the first step without a gain.
    let (mut low, mut high) = (0, hull.len().checked_sub(1)?);
    while low < high {
        let middle = (low + high) / 2;
        let (here, next) = (hull.get(middle)?, hull.get(middle + 1)?);
        if value * (next.load - here.load) > cost * (next.cores - here.cores) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    let corner = *hull.get(low)?;
    Some((value * corner.load - cost * corner.cores, corner))
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn no_point_is_better_than_the_best_corner(
            loads in proptest::collection::vec(0.0..1.0f64, 1..20), load_value in 0.0..3.0f64, cost in 0.0..0.5f64,
        ) {
            let points = (0..10u32).zip(&loads).map(|(n, load)| Corner { cores: f64::from(n), load: *load });
            let points: Vec<Corner> = points.collect();
            let (value, corner) = best(&upper(points.iter().copied()), load_value, cost).unwrap();
            proptest::prop_assert!(points.contains(&corner));
            let values = points.iter().map(|point| load_value * point.load - cost * point.cores);
            let max = values.fold(f64::NEG_INFINITY, f64::max);
            proptest::prop_assert!((value - max).abs() < 1e-9, "{value} {max}");
        }
    }
}
