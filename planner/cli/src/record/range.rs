//! Answer of Prometheus' `/api/v1/query_range` with counters of a filter. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::counters::{Counter, Growth, NAMES, service, whole};

/// Maximum size of the file, in bytes.
pub(super) const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;
/// Path of the answer's series in messages.
const SERIES: &str = "data.result";

#[derive(Debug, Deserialize)]
struct RawAnswer {
    status: String,
    #[serde(default)]
    error: Option<String>,
    #[serde(default)]
    data: Option<RawData>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawData {
    result_type: String,
    result: Vec<RawSeries>,
}

#[derive(Debug, Deserialize)]
struct RawSeries {
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<(f64, String)>,
}

/// Counters of a range.
#[derive(Debug)]
pub(super) struct Range {
    pub(super) growth: Growth,
    /// Number of series.
    pub(super) series: usize,
    /// Number of spans longer than two steps, over which arrivals are spread.
    pub(super) gaps: u64,
}

/// A series of one counter, its index in the file, and its values by time in µs.
struct Values<'a> {
    index: usize,
    counter: Counter,
    raw: &'a RawSeries,
    each: Vec<(i64, u64)>,
}

/// Reads the counters of a service.
///
/// # Errors
/// The line of what is no JSON, or the field, its value and what would be right.
pub(super) fn read(text: &[u8], named: Option<&str>) -> Result<Range, String> {
    let answer: RawAnswer = serde_json::from_slice(text)
        .map_err(|error| format!("no answer of /api/v1/query_range: {error}"))?;
    if answer.status != "success" {
        let error = answer.error.unwrap_or_default();
        return Err(format!(
            "status: {}; it must be success: {error}",
            answer.status
        ));
    }
    let data = answer.data.ok_or("data: missing")?;
    if data.result_type != "matrix" {
        return Err(format!(
            "data.resultType: {}; it must be matrix: query /api/v1/query_range",
            data.result_type
        ));
    }
    let mut series = Vec::with_capacity(data.result.len());
    for (index, raw) in data.result.iter().enumerate() {
        series.push(Values::of(index, raw)?);
    }
    let services: BTreeSet<String> = series
        .iter()
        .map(|one| one.counter.service.clone())
        .collect();
    let service = service(&services, named)?;
    series.retain(|one| one.counter.service == service);
    grown(&series)
}

impl Values<'_> {
    fn of(index: usize, raw: &RawSeries) -> Result<Values<'_>, String> {
        let path = format!("{SERIES}[{index}].metric");
        let name = raw.metric.get("__name__").ok_or_else(|| {
            format!(
                "{path}.__name__: missing; it must be {NAMES}: query the counter itself, without rate(), \
                 increase() or sum()"
            )
        })?;
        let label = |name: &str| raw.metric.get(name).map(String::as_str);
        let counter = Counter::of(name, label).ok_or_else(|| {
            format!(
                "{path}.__name__: {name}; it must be {NAMES} with its labels, or their long form"
            )
        })?;
        let mut values = Values {
            index,
            counter,
            raw,
            each: Vec::with_capacity(raw.values.len()),
        };
        values.check()?;
        Ok(values)
    }

    fn check(&mut self) -> Result<(), String> {
        for (place, (at_s, value)) in self.raw.values.iter().enumerate() {
            let path = |part: usize| format!("{SERIES}[{}].values[{place}][{part}]", self.index);
            // Unix seconds of the years until 2242.
            if !(0.0..8.6e9).contains(at_s) {
                return Err(format!("{}: {at_s}; it must be Unix seconds", path(0)));
            }
            let at_us = (at_s * 1e6).round() as i64;
            if self.each.last().is_some_and(|(last, _)| at_us <= *last) {
                return Err(format!(
                    "{}: {at_s}; it must be after the time before",
                    path(0)
                ));
            }
            let number = value
                .parse::<f64>()
                .map_err(|_| format!("{value}; it must be a number"));
            let count = number.and_then(whole);
            let count = count.map_err(|error| format!("{}: {error}", path(1)))?;
            self.each.push((at_us, count));
        }
        Ok(())
    }
}

/// Growth of all series. A series that begins later than the others begins at 0, a step before.
fn grown(series: &[Values<'_>]) -> Result<Range, String> {
    let pairs = |one: &Values<'_>| {
        let each = one.each.iter().copied();
        each.clone().zip(each.skip(1)).collect::<Vec<_>>()
    };
    let spans = series.iter().flat_map(pairs);
    let step_us = spans.map(|(before, now)| now.0 - before.0).min();
    let Some(step_us) = step_us else {
        return Err(format!(
            "{SERIES}: no series with two values; the range must be longer than the step"
        ));
    };
    let begins = series.iter().filter_map(|one| one.each.first());
    let begin_us = begins.map(|(at, _)| *at).min().unwrap_or_default();
    let mut range = Range {
        growth: Growth::default(),
        series: series.len(),
        gaps: 0,
    };
    for one in series {
        let class = one.counter.class.as_deref();
        let late = one.each.first().filter(|(at, _)| *at > begin_us);
        let late = late.map(|(at, count)| (((*at - step_us).max(begin_us), 0), (*at, *count)));
        for ((from_us, before), (to_us, now)) in late.into_iter().chain(pairs(one)) {
            range.gaps += u64::from(to_us - from_us > 2 * step_us);
            range.growth.add(class, (from_us, to_us), (before, now))?;
        }
    }
    Ok(range)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(class: &str, instance: &str, values: &str) -> String {
        format!(
            r#"{{"metric": {{"__name__": "weir_class_arrivals_total", "service": "demo", "class": "{class}",
                "instance": "{instance}"}}, "values": [{values}]}}"#
        )
    }

    fn answer(series: &[String]) -> String {
        let all = series.join(",\n");
        format!(
            "{{\"status\": \"success\", \"data\": {{\"resultType\": \"matrix\", \"result\": [{all}]}}}}"
        )
    }

    #[test]
    fn series_add_up_by_class_and_late_ones_begin_at_zero() {
        let text = answer(&[
            series("gold", "a", r#"[100, "7"], [115, "17"], [130, "2"]"#),
            series("gold", "b", r#"[130, "40"], [145, "41"]"#),
            series("bulk", "a", r#"[100, "0"], [145, "30"]"#),
        ]);
        let range = read(text.as_bytes(), None).unwrap();
        assert_eq!((range.series, range.gaps), (3, 1));
        let arrivals = range.growth.arrivals(1).unwrap();
        assert_eq!(arrivals.begin_us, 100_000_000);
        let count = |class: &str, from_s: i64, to_s: i64| {
            let index = arrivals
                .classes
                .iter()
                .position(|c| c.as_deref() == Some(class));
            let of = arrivals
                .times
                .iter()
                .filter(|(_, class)| Some(*class) == index);
            of.filter(|(at, _)| (from_s * 1_000_000..to_s * 1_000_000).contains(at))
                .count()
        };
        assert_eq!(count("gold", 100, 115), 10);
        assert_eq!(
            count("gold", 115, 130),
            2 + 40,
            "one restarted, another began"
        );
        assert_eq!(count("gold", 130, 145), 1);
        assert_eq!(count("bulk", 100, 145), 30);
    }

    #[test]
    fn wrong_answers_are_refused_with_line_or_field() {
        let one = |values: &str| answer(&[series("gold", "a", values)]);
        for (text, parts) in [
            (
                "{\n\"status\": success}".to_owned(),
                vec!["no answer of /api/v1/query_range", "line 2"],
            ),
            (
                r#"{"status": "error", "error": "parse error"}"#.to_owned(),
                vec!["status: error; it must be success: parse error"],
            ),
            (r#"{"status": "success"}"#.to_owned(), vec!["data: missing"]),
            (
                r#"{"status": "success", "data": {"resultType": "vector", "result": []}}"#
                    .to_owned(),
                vec!["data.resultType: vector; it must be matrix"],
            ),
            (answer(&[]), vec!["no series weir_class_arrivals_total"]),
            (
                answer(&[r#"{"metric": {"class": "gold"}, "values": []}"#.to_owned()]),
                vec!["data.result[0].metric.__name__: missing", "without rate()"],
            ),
            (
                answer(&[r#"{"metric": {"__name__": "up"}, "values": []}"#.to_owned()]),
                vec!["data.result[0].metric.__name__: up; it must be weir_class_arrivals_total"],
            ),
            (
                answer(&[r#"{"metric": {"__name__": "up"}, "values": [[1, 2]]}"#.to_owned()]),
                vec!["expected a string", "line 1"],
            ),
            (
                one(r#"[1, "1"], [2, "1.5"]"#),
                vec!["data.result[0].values[1][1]: 1.5; it must be a whole number"],
            ),
            (
                one(r#"[1, "1"], [1, "2"]"#),
                vec!["values[1][0]: 1; it must be after"],
            ),
            (
                one(r#"[-1, "1"]"#),
                vec!["values[0][0]: -1; it must be Unix seconds"],
            ),
            (
                one(r#"[1, "x"]"#),
                vec!["values[0][1]: x; it must be a number"],
            ),
            (one(r#"[1, "1"]"#), vec!["no series with two values"]),
        ] {
            let refused = read(text.as_bytes(), None).unwrap_err();
            for part in parts {
                assert!(refused.contains(part), "{part}: {refused}");
            }
        }
    }

    #[test]
    fn long_form_is_read_and_another_service_is_left_out() {
        let long = |service: &str, class: &str| {
            format!(
                r#"{{"metric": {{"__name__": "weir_class_arrivals_total__service__{service}__class__{class}"}},
                    "values": [[1, "0"], [2, "5"]]}}"#
            )
        };
        let text = answer(&[long("demo", "gold_one"), long("other", "x")]);
        let arrivals = read(text.as_bytes(), Some("demo"))
            .unwrap()
            .growth
            .arrivals(1)
            .unwrap();
        assert_eq!(arrivals.times.len(), 5);
        assert_eq!(arrivals.classes, [Some("gold-one".to_owned())]);
        let refused = read(text.as_bytes(), None).unwrap_err();
        assert!(refused.contains("one of demo, other"), "{refused}");
    }
}
