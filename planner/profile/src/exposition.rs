//! Samples of a Prometheus text, read strictly: where the planner leaves out what it cannot read, a profile must not
//! come from a part of it. A line that cannot be read, a value that is not finite, or a text that ends within a line is
//! an error that names the line. Pure.

use std::collections::BTreeMap;

pub use weir_planner::observe::exposition::Sample;

use crate::ProfileError;
use crate::histogram::Histogram;

/// Maximum number of samples that are read from one text.
pub const SAMPLES_MAX: usize = 100_000;
/// Characters of a line that an error shows.
const SHOWN_MAX: usize = 120;

/// Reads the samples whose names begin with one of `prefixes`.
///
/// # Errors
/// The first line of theirs that cannot be read, or a text that ends within a line.
pub fn samples<'a>(text: &'a str, prefixes: &[&str]) -> Result<Vec<Sample<'a>>, ProfileError> {
    let lines = text.lines().count();
    if !text.is_empty() && !text.ends_with('\n') {
        return Err(ProfileError(format!(
            "line {lines} has no end: the text is truncated; it must be the whole answer"
        )));
    }
    let mut found = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if !prefixes.iter().any(|prefix| line.starts_with(prefix)) {
            continue;
        }
        let sample = sample(line).map_err(|why| ProfileError(format!("line {number}: {why}")))?;
        found.push(sample);
        if found.len() > SAMPLES_MAX {
            let text = format!("more than {SAMPLES_MAX} samples; it must be at most that");
            return Err(ProfileError(text));
        }
    }
    Ok(found)
}

fn sample(line: &str) -> Result<Sample<'_>, String> {
    let sample = Sample::parse_strictly(line).ok_or_else(|| {
        let shown: String = line.chars().take(SHOWN_MAX).collect();
        format!("{shown}; it must be NAME{{LABELS}} VALUE")
    })?;
    if !sample.value.is_finite() || sample.value < 0.0 {
        return Err(format!(
            "{}: {}; it must be a finite number, 0 or more",
            sample.name, sample.value
        ));
    }
    Ok(sample)
}

/// Puts the samples of histograms and summaries together by the key that `key` returns for a sample and its name without
/// `_bucket`, `_sum` and `_count`. Those of equal keys are added.
///
/// # Errors
/// A histogram with an edge that is no number, or without its sum, count or greatest bucket.
pub fn histograms<K: Ord + Clone>(
    samples: &[Sample],
    key: impl Fn(&Sample, &str) -> Option<K>,
) -> Result<BTreeMap<K, Histogram>, ProfileError> {
    #[derive(Default)]
    struct Parts {
        name: String,
        buckets: Vec<(f64, f64)>,
        sum: Option<f64>,
        count: Option<f64>,
    }
    let mut all: BTreeMap<K, Parts> = BTreeMap::new();
    for sample in samples {
        let parts = ["_bucket", "_sum", "_count"].into_iter();
        let mut split = parts.filter_map(|part| Some((sample.name.strip_suffix(part)?, part)));
        let Some((base, part)) = split.next() else {
            continue;
        };
        let Some(key) = key(sample, base) else {
            continue;
        };
        let of = all.entry(key).or_default();
        base.clone_into(&mut of.name);
        match part {
            "_sum" => *of.sum.get_or_insert(0.0) += sample.value,
            "_count" => *of.count.get_or_insert(0.0) += sample.value,
            _ => {
                let le = sample.label("le").unwrap_or_default();
                let edge = le.parse().map_err(|_| {
                    ProfileError(format!("{}, le: {le:?}; it must be a number", sample.name))
                })?;
                match of.buckets.iter_mut().find(|(other, _)| *other == edge) {
                    Some((_, count)) => *count += sample.value,
                    None => of.buckets.push((edge, sample.value)),
                }
            }
        }
    }
    let whole = |(key, parts): (K, Parts)| {
        let missing = |what: &str| {
            let name = &parts.name;
            ProfileError(format!(
                "{name}: {what} is missing; the text is truncated, or no histogram"
            ))
        };
        let sum = parts.sum.ok_or_else(|| missing("_sum"))?;
        let count = parts.count.ok_or_else(|| missing("_count"))?;
        let histogram = Histogram::new(&parts.name, parts.buckets, sum, count)?;
        Ok((key, histogram))
    };
    all.into_iter().map(whole).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_real_programs_are_read() {
        let text = "# HELP rest_server_requests_total x\n\
            weir_service_milliseconds__service__demo__variant__a_bucket{le=\"+Inf\"} 3\n\
            weir_arrivals_total__service__demo{} 3\n\
            weir_slots 4 1700000000000\n\
            rest_server_request_duration_seconds_count{method=\"POST\",path=\"/v2/models/{model_name}/infer\"} 7.0\n\
            :tensorflow:serving:request_latency_sum{model_name=\"m\",API=\"predict\",entrypoint=\"REST\"} 1.5e+06\n\
            other{broken 1\n";
        let found = samples(text, &["weir_", "rest_", ":tensorflow:"]).unwrap();
        let found: Vec<_> = found
            .iter()
            .map(|sample| (sample.name, sample.value, sample.label("path")))
            .collect();
        assert_eq!(
            found,
            [
                (
                    "weir_service_milliseconds__service__demo__variant__a_bucket",
                    3.0,
                    None
                ),
                ("weir_arrivals_total__service__demo", 3.0, None),
                ("weir_slots", 4.0, None),
                (
                    "rest_server_request_duration_seconds_count",
                    7.0,
                    Some("/v2/models/{model_name}/infer")
                ),
                (":tensorflow:serving:request_latency_sum", 1.5e6, None),
            ]
        );
    }

    #[test]
    fn unreadable_text_is_refused_with_its_line() {
        for (text, expected) in [
            (
                "a 1\nweir_slots 2",
                "line 2 has no end: the text is truncated",
            ),
            (
                "a 1\nweir_slots NaN\n",
                "line 2: weir_slots: NaN; it must be a finite number",
            ),
            ("weir_slots +Inf\n", "line 1: weir_slots: inf; it must be"),
            ("weir_slots -1\n", "line 1: weir_slots: -1; it must be"),
            (
                "weir_slots{a=\"b\"\n",
                "line 1: weir_slots{a=\"b\"; it must be NAME",
            ),
            ("weir_slots\n", "line 1: weir_slots; it must be NAME"),
            (
                "weir_slots{} many\n",
                "line 1: weir_slots{} many; it must be NAME",
            ),
            (
                "weir_slots{a=1} 2\n",
                "line 1: weir_slots{a=1} 2; it must be NAME",
            ),
        ] {
            let error = samples(text, &["weir_"]).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{text}: {error}");
        }
        assert!(samples("", &["weir_"]).unwrap().is_empty());
        let many = "weir_slots 1\n".repeat(SAMPLES_MAX + 1);
        let error = samples(&many, &["weir_"]).unwrap_err().to_string();
        assert!(error.starts_with("more than 100000 samples"), "{error}");
    }

    fn one(text: &str) -> Result<Histogram, ProfileError> {
        let samples = samples(text, &["h_"])?;
        let mut all = histograms(&samples, |_, base| (base == "h_ms").then_some(()))?;
        Ok(all.remove(&()).unwrap())
    }

    #[test]
    fn histograms_of_equal_keys_are_added() {
        let of = |label: &str, count: u32| {
            format!(
                "h_ms_bucket{{of=\"{label}\",le=\"10\"}} {count}\nh_ms_bucket{{of=\"{label}\",le=\"+Inf\"}} {count}\n\
                 h_ms_sum{{of=\"{label}\"}} 50\nh_ms_count{{of=\"{label}\"}} {count}\n"
            )
        };
        let both = one(&(of("a", 4) + &of("b", 6))).unwrap();
        assert_eq!((both.count(), both.mean()), (10.0, Some(10.0)));
    }

    #[test]
    fn histogram_without_a_part_is_refused() {
        let whole =
            "h_ms_bucket{le=\"10\"} 3\nh_ms_bucket{le=\"+Inf\"} 4\nh_ms_sum{} 40\nh_ms_count{} 4\n";
        assert_eq!(one(whole).unwrap().count(), 4.0);
        for (from, to, expected) in [
            ("h_ms_sum{} 40\n", "", "h_ms: _sum is missing"),
            ("h_ms_count{} 4\n", "", "h_ms: _count is missing"),
            (
                "h_ms_bucket{le=\"+Inf\"} 4\n",
                "",
                "h_ms: no bucket le=\"+Inf\"",
            ),
            (
                "h_ms_count{} 4\n",
                "h_ms_count{} 5\n",
                "h_ms: count 5, bucket le=\"+Inf\" 4",
            ),
            (
                "{le=\"10\"} 3",
                "{le=\"10\"} 5",
                "h_ms: bucket le=\"inf\": 4",
            ),
            (
                "le=\"10\"",
                "le=\"ten\"",
                "h_ms_bucket, le: \"ten\"; it must be a number",
            ),
        ] {
            let error = one(&whole.replace(from, to)).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{expected}: {error}");
        }
    }
}
