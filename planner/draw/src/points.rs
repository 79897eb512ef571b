//! Points of lines.

/// Points of a line or of an area's upper edge, by rising x.
pub type Points = Vec<(f64, f64)>;

/// Returns a step line: each value is held until the next one, the last until `end`. Values after `end` are left out.
pub fn steps(values: impl Iterator<Item = (f64, f64)>, end: f64) -> Points {
    let mut points: Points = Vec::new();
    for (at, value) in values.take_while(|(at, _)| *at <= end) {
        if let Some((_, before)) = points.last().copied() {
            points.push((at, before));
        }
        points.push((at, value));
    }
    if let Some((_, last)) = points.last().copied() {
        points.push((end, last));
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_line_holds_each_value() {
        let points = steps([(0.0, 1.0), (2.0, 5.0), (4.5, 9.0)].into_iter(), 4.0);
        assert_eq!(points, [(0.0, 1.0), (2.0, 1.0), (2.0, 5.0), (4.0, 5.0)]);
    }
}
