//! Check of the times of a trace's rows, which must be one second apart: numbers in s, ms, µs or ns, or dates with times
//! (`2026-01-01T00:00:59Z`). Other text is not read. Pure.

/// One second in the units that a column of numbers may have.
const UNITS: [f64; 4] = [1.0, 1e3, 1e6, 1e9];
/// Part of a step by which times may be off.
const STEP_PART: f64 = 0.5;

/// Times of successive rows.
#[derive(Debug, Default)]
pub(super) struct Steps {
    last: Option<(f64, String)>,
    step: Option<f64>,
}

impl Steps {
    pub(super) fn check(&mut self, cell: &str) -> anyhow::Result<()> {
        let number = cell.parse::<f64>().ok();
        let Some(time) = number.or_else(|| date_s(cell)) else {
            return Ok(());
        };
        let Some((last, shown)) = self.last.replace((time, cell.to_owned())) else {
            return Ok(());
        };
        let step = time - last;
        let is_near = |unit: f64| (step - unit).abs() < STEP_PART * unit;
        let units = if number.is_some() { &UNITS[..] } else { &[1.0] };
        let unit = self.step.map(|unit| is_near(unit).then_some(unit));
        let unit = unit.unwrap_or_else(|| units.iter().copied().find(|unit| is_near(*unit)));
        let Some(unit) = unit else {
            anyhow::bail!(
                "{cell} after {shown}; rows must be one second apart (numbers in s, ms, µs or ns), each later than the \
                 one before; a second without requests is a row with 0"
            );
        };
        self.step = Some(unit);
        Ok(())
    }
}

/// Seconds from a fixed moment of a date with a time; `None` for other text. The offset counts.
fn date_s(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', ' '])?;
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let mut next = || date.next()?.ok();
    let (year, month, day) = (next()?, next()?, next()?);
    let is_date =
        (0..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day);
    let time = is_date.then_some(time)?;
    let clock = time.find(['Z', '+', '-']).unwrap_or(time.len());
    let (clock, offset) = time.split_at_checked(clock)?;
    let mut clock = clock.splitn(3, ':').map(str::parse::<f64>);
    let mut next = || clock.next()?.ok();
    let (hour, minute, second) = (next()?, next()?, next()?);
    let offset_s = match offset.split_once(':') {
        Some((hours, minutes)) => {
            let sign = if hours.starts_with('-') { -1.0 } else { 1.0 };
            let hours = hours.trim_start_matches(['+', '-']).parse::<f64>().ok()?;
            sign * (3600.0 * hours + 60.0 * minutes.parse::<f64>().ok()?)
        }
        None => 0.0,
    };
    // Years begin in March, so that the day that some of them have more is the last one.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leap = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let days = 365 * year + leap + (153 * month + 2) / 5 + day;
    Some(days as f64 * 86_400.0 + 3600.0 * hour + 60.0 * minute + second - offset_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_seconds_apart() {
        for (later, earlier, expected) in [
            ("2026-01-01T00:00:01Z", "2026-01-01T00:00:00Z", 1.0),
            ("2026-01-01 00:00:00.25", "2025-12-31 23:59:59.25", 1.0),
            (
                "2024-03-01T00:00:00Z",
                "2024-02-28T00:00:00Z",
                2.0 * 86_400.0,
            ),
            ("2026-03-01T00:00:00Z", "2026-02-28T00:00:00Z", 86_400.0),
            ("2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00Z", 0.0),
        ] {
            let apart = date_s(later).unwrap() - date_s(earlier).unwrap();
            assert!((apart - expected).abs() < 1e-6, "{later}: {apart}");
        }
        for text in [
            "2026-01-01",
            "noon",
            "",
            "T",
            "a-b-cT1:2:3",
            "9223372036854775807-01-01T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T00:00",
        ] {
            assert_eq!(date_s(text), None, "{text}");
        }
    }

    #[test]
    fn rows_that_are_no_second_apart_are_refused() {
        let check = |cells: &[&str]| {
            let mut steps = Steps::default();
            cells.iter().try_for_each(|cell| steps.check(cell))
        };
        for good in [
            &[
                "2026-01-01T00:00:58Z",
                "2026-01-01T00:00:59Z",
                "2026-01-01T00:01:00Z",
            ][..],
            &["1700000000000", "1700000001000", "1700000002000"],
            &["7", "8", "9"],
            &["a", "b", "d"],
        ] {
            assert!(check(good).is_ok(), "{good:?}");
        }
        for (wrong, expected) in [
            (
                &[
                    "2026-01-01T00:00:00Z",
                    "2026-01-01T00:00:01Z",
                    "2026-01-01T00:00:50Z",
                ][..],
                "2026-01-01T00:00:50Z after 2026-01-01T00:00:01Z; rows must be one second apart",
            ),
            (
                &["0", "60", "120"],
                "60 after 0; rows must be one second apart",
            ),
            (&["0", "1000", "1001"], "1001 after 1000;"),
        ] {
            let error = check(wrong).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
