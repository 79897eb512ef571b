//! Profile from a proxy's own histograms: service times, batches and slots of each variant, as Envoy's
//! `/stats/prometheus` shows them. Pure.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use weir_api::metrics::{Metric, decode};

use crate::ProfileError;
use crate::exposition::{Sample, histograms, samples};
use crate::histogram::{Histogram, Quantile};
use crate::measurement::{Measurement, Percentile};

/// Path of a proxy's statistics.
pub const STATS_PATH: &str = "/stats/prometheus";

/// Service and variant.
type Key = (String, String);

/// One reading of a proxy's statistics.
#[derive(Debug, Clone, PartialEq)]
pub struct Reading {
    service_ms: BTreeMap<Key, Histogram>,
    batch: BTreeMap<Key, Histogram>,
    slots: BTreeMap<Key, f64>,
    /// Time with all slots taken, in seconds.
    full_s: BTreeMap<Key, f64>,
    full_executions: BTreeMap<Key, f64>,
}

/// Minimum time with all slots taken, and minimum number of executions in it, from which a rate is taken: its standard
/// error is then at most 10 % with executions that come at random.
const FULL_MIN: (f64, f64) = (1.0, 100.0);

/// Variant as the proxy sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Observed {
    /// Service time, its percentiles and the batch.
    pub measurement: Measurement,
    /// Batches executed at once: slots over the batch.
    pub at_once: Option<NonZeroU32>,
    /// The percentile that `tail` is of, with the edges of its bucket.
    pub quantile: Quantile,
    /// Requests per second between the two readings.
    pub rps: Option<f64>,
    /// Time in seconds with all slots taken, if it was long enough for the rate of the servers. Without it the rate is that
    /// of `at_once` executions of the mean time, which is too much for a server that executes one after the other.
    pub full_s: Option<f64>,
}

/// Conditions of an observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Conditions {
    /// Cores that the variant's servers had.
    pub cores: f64,
    /// Percentile that `tail` is of.
    pub percentile: Percentile,
    /// Batches executed at once, where the proxy's slots do not say it.
    pub at_once: Option<NonZeroU32>,
}

impl Reading {
    /// Reads a proxy's statistics.
    ///
    /// # Errors
    /// A text that is truncated or has a value that cannot be read.
    pub fn of(text: &str) -> Result<Reading, ProfileError> {
        let metrics = [
            Metric::ServiceMs,
            Metric::BatchRequests,
            Metric::Slots,
            Metric::FullUs,
            Metric::FullExecutions,
        ];
        let samples = samples(text, &metrics.map(Metric::name))?;
        let key = |of: Metric| {
            move |sample: &Sample, base: &str| {
                let series =
                    decode(base, |name| sample.label(name)).filter(|series| series.metric == of)?;
                Some((series.service, series.value))
            }
        };
        let values = |of: Metric| -> BTreeMap<Key, f64> {
            let of = key(of);
            let each = samples.iter();
            each.filter_map(|sample| Some((of(sample, sample.name)?, sample.value)))
                .collect()
        };
        let mut full_s = values(Metric::FullUs);
        for time in full_s.values_mut() {
            *time /= 1e6;
        }
        Ok(Reading {
            service_ms: histograms(&samples, key(Metric::ServiceMs))?,
            batch: histograms(&samples, key(Metric::BatchRequests))?,
            slots: values(Metric::Slots),
            full_s,
            full_executions: values(Metric::FullExecutions),
        })
    }

    /// Returns the variants of a service that the proxy has executions of.
    #[must_use]
    pub fn variants(&self, service: &str) -> Vec<String> {
        let keys = self.service_ms.keys();
        let ours = keys.filter(|(of, _)| of == service);
        ours.map(|(_, variant)| variant.clone()).collect()
    }

    /// Observes a variant, since the proxy's start or since an earlier reading that long ago.
    ///
    /// # Errors
    /// An unknown variant, too few executions, or a proxy that restarted between the readings.
    pub fn observe(
        &self,
        (service, variant): (&str, &str),
        earlier: Option<(&Reading, Duration)>,
        conditions: Conditions,
    ) -> Result<Observed, ProfileError> {
        let key = (service.to_owned(), variant.to_owned());
        let about =
            |why: &str| ProfileError(format!("service {service}, variant {variant}: {why}"));
        let new = |of: fn(&Reading) -> &BTreeMap<Key, Histogram>| {
            let before = earlier.and_then(|(reading, _)| of(reading).get(&key));
            match (of(self).get(&key), before) {
                (Some(now), Some(before)) => now.since(before).map(Some),
                (Some(now), None) => Ok(Some(now.clone())),
                (None, Some(_)) => Err(about(
                    "its histogram is no longer there: the proxy restarted between the two readings; read again",
                )),
                (None, None) => Ok(None),
            }
        };
        let times = new(|reading| &reading.service_ms)?.ok_or_else(|| {
            let known: Vec<String> = self
                .service_ms
                .keys()
                .map(|(s, v)| format!("{s}/{v}"))
                .collect();
            let known = match known.is_empty() {
                true => {
                    "none has been executed yet, or this is no proxy's /stats/prometheus".to_owned()
                }
                false => format!("the proxy has {}", known.join(", ")),
            };
            about(&format!("no {}; {known}", Metric::ServiceMs.name()))
        })?;
        let batches = new(|reading| &reading.batch)?;
        let percentile = conditions.percentile;
        let (executions, needed) = (times.count(), percentile.executions_min());
        if executions < needed as f64 {
            return Err(about(&format!(
                "{executions} executions; it must be {needed} or more for the {}th percentile, ten above it: wait \
                 longer, or take a lower --percentile",
                percentile.percent()
            )));
        }
        let at = |percentile: Percentile| times.quantile(f64::from(percentile.percent()) / 100.0);
        let quantile = at(percentile).ok_or_else(|| about("no buckets"))?;
        let batch = batches.and_then(|batches| batches.mean());
        let batch = batch.map_or(1, |mean| mean.round().max(1.0) as u32);
        let slots = self
            .slots
            .get(&key)
            .map(|slots| (slots / f64::from(batch)).round() as u32);
        let at_once = conditions.at_once.or(slots.and_then(NonZeroU32::new));
        let mean_ms = times.mean().filter(|ms| *ms > 0.0).ok_or_else(|| {
            about("a mean of 0 ms; it must be more: the server answers faster than the proxy measures")
        })?;
        let requests = at_once.map(|at_once| f64::from(at_once.get()) * f64::from(batch));
        let full = self.full(&key, earlier.map(|(reading, _)| reading));
        // With all slots taken an execution takes as long as their rate says.
        let mean_ms = match (full, requests) {
            (Some((time, executions)), Some(requests)) => requests * 1e3 * time / executions,
            _ => mean_ms,
        };
        let busy = requests.map(|requests| requests * 1e3 / mean_ms);
        let at = |percentile: Percentile| at(percentile).map(|one| one.value.max(mean_ms));
        Ok(Observed {
            measurement: Measurement {
                cores: conditions.cores,
                batch,
                mean_ms: Some(mean_ms),
                half_width_percent: times.half_width_percent(),
                p80_ms: at(Percentile::P80),
                p95_ms: at(Percentile::P95),
                p99_ms: at(Percentile::P99),
                rps: busy,
                executions: Some(executions as u64),
            },
            at_once,
            quantile,
            rps: earlier.map(|(_, time)| executions / time.as_secs_f64()),
            full_s: full.map(|(time, _)| time),
        })
    }

    /// Time in seconds with all slots taken, since the proxy's start or an earlier reading, and the executions that ended
    /// in it; `None` below [`FULL_MIN`].
    fn full(&self, key: &Key, earlier: Option<&Reading>) -> Option<(f64, f64)> {
        let new = |of: fn(&Reading) -> &BTreeMap<Key, f64>| {
            let before = earlier.and_then(|reading| of(reading).get(key));
            Some(of(self).get(key)? - before.unwrap_or(&0.0))
        };
        let time = new(|reading| &reading.full_s)?;
        let executions = new(|reading| &reading.full_executions)?;
        (time >= FULL_MIN.0 && executions >= FULL_MIN.1).then_some((time, executions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONDITIONS: Conditions = Conditions {
        cores: 2.0,
        percentile: Percentile::P99,
        at_once: None,
    };

    /// Statistics of 4 slots, where `count` executions of 20 to 40 ms had a mean of 30, and `slow` more took 100.
    fn text(count: u32, slow: u32, labelled: bool) -> String {
        let (name, labels) = match labelled {
            true => ("", "service=\"demo\",variant=\"res-net\""),
            false => ("__service__demo__variant__res_net", ""),
        };
        let all = count + slow;
        let with = |more: &str| match labels.is_empty() {
            true => format!("{{{more}}}"),
            false => format!(
                "{{{labels}{}{more}}}",
                if more.is_empty() { "" } else { "," }
            ),
        };
        let mut text =
            "# TYPE weir_service_milliseconds histogram\nenvoy_server_live{} 1\n".to_owned();
        for (le, value) in [("20", 0), ("40", count), ("200", all), ("+Inf", all)] {
            let labels = with(&format!("le=\"{le}\""));
            text += &format!("weir_service_milliseconds{name}_bucket{labels} {value}\n");
        }
        let none = with("");
        text += &format!(
            "weir_service_milliseconds{name}_sum{none} {}\n",
            30 * count + 100 * slow
        );
        text += &format!("weir_service_milliseconds{name}_count{none} {all}\n");
        text += &format!("weir_slots{name}{none} 4\nweir_slots_in_use{name}{none} 3\n");
        text
    }

    fn observe(now: &str, before: Option<&str>) -> Result<Observed, ProfileError> {
        let before = before.map(Reading::of).transpose()?;
        let earlier = before.as_ref().map(|one| (one, Duration::from_secs(50)));
        Reading::of(now)?.observe(("demo", "res-net"), earlier, CONDITIONS)
    }

    #[test]
    fn both_forms_of_a_series_give_mean_tail_and_bound() {
        for labelled in [false, true] {
            let found = observe(&text(1000, 20, labelled), None).unwrap();
            let measured = found.measurement;
            assert_eq!((measured.executions, measured.batch), (Some(1020), 1));
            let mean_ms = 32000.0 / 1020.0;
            assert!(
                (measured.mean_ms.unwrap() - mean_ms).abs() < 1e-9,
                "{found:?}"
            );
            assert_eq!(found.at_once, NonZeroU32::new(4));
            assert!((measured.rps.unwrap() - 4000.0 / mean_ms).abs() < 1e-9);
            assert_eq!((found.quantile.lower, found.quantile.upper), (40.0, 200.0));
            assert_eq!(
                (measured.p99_ms, found.rps),
                (Some(found.quantile.value), None)
            );
        }
    }

    #[test]
    fn increase_between_two_readings_counts() {
        let found = observe(&text(3000, 20, true), Some(&text(1000, 20, true))).unwrap();
        assert_eq!(found.measurement.executions, Some(2000));
        assert_eq!(
            (found.measurement.mean_ms, found.rps),
            (Some(30.0), Some(40.0))
        );
        // A variant that had no execution before counts from 0.
        let found = observe(&text(2000, 0, true), Some("")).unwrap();
        assert_eq!(found.measurement.executions, Some(2000));
    }

    #[test]
    fn mean_batch_divides_the_slots() {
        let mut now = text(2000, 0, true);
        for (part, value) in [("bucket", 1000), ("sum", 1900), ("count", 1000)] {
            let le = if part == "bucket" { ",le=\"+Inf\"" } else { "" };
            let labels = format!("service=\"demo\",variant=\"res-net\"{le}");
            now += &format!("weir_batch_requests_{part}{{{labels}}} {value}\n");
        }
        let found = observe(&now, None).unwrap();
        assert_eq!(
            (found.measurement.batch, found.at_once),
            (2, NonZeroU32::new(2))
        );
        let rps = found.measurement.rps.unwrap();
        assert!((rps - 4000.0 / 30.0).abs() < 1e-9, "{rps}");
    }

    #[test]
    fn rate_with_all_slots_taken_goes_before_the_mean_of_all_executions() {
        let full = |us: u64, executions: u32| {
            let labels = "{service=\"demo\",variant=\"res-net\"}";
            format!(
                "weir_full_microseconds_total{labels} {us}\nweir_full_executions_total{labels} {executions}\n"
            )
        };
        let now = text(3000, 0, true) + &full(12_000_000, 900);
        let before = text(1000, 0, true) + &full(2_000_000, 100);
        // 800 executions within 10 s, of 4 slots: 50 ms each.
        let found = observe(&now, Some(&before)).unwrap();
        let measured = found.measurement;
        assert_eq!((measured.rps, measured.mean_ms), (Some(80.0), Some(50.0)));
        assert_eq!(found.full_s, Some(10.0));
        // No percentile is below the mean.
        assert_eq!((measured.p80_ms, measured.p99_ms), (Some(50.0), Some(50.0)));
        // Too short, or with too few executions.
        for (us, executions) in [(900_000, 500), (5_000_000, 99)] {
            let now = text(3000, 0, true) + &full(us, executions);
            let found = observe(&now, None).unwrap();
            assert_eq!(
                (found.measurement.mean_ms, found.full_s),
                (Some(30.0), None)
            );
        }
    }

    #[test]
    fn readings_that_give_no_profile_are_refused() {
        let of = |count| text(count, 0, true);
        for (now, before, expected) in [
            (
                of(999),
                None,
                "service demo, variant res-net: 999 executions; it must be 1000 or more",
            ),
            (
                of(5000),
                Some(of(4500)),
                "service demo, variant res-net: 500 executions",
            ),
            (
                of(100),
                Some(of(4500)),
                "weir_service_milliseconds: the count fell from 4500 to 100",
            ),
            (
                String::new(),
                Some(of(9)),
                "service demo, variant res-net: its histogram is no longer there",
            ),
            (
                String::new(),
                None,
                "service demo, variant res-net: no weir_service_milliseconds; none has",
            ),
            (
                of(2000).replace("res-net", "b"),
                None,
                "service demo, variant res-net: no weir_service_milliseconds; the proxy has demo/b",
            ),
            (
                of(2000).replace(" 2000\n", " NaN\n"),
                None,
                "line 4: weir_service_milliseconds_bucket: NaN",
            ),
            (of(2000).trim_end().to_owned(), None, "line 10 has no end"),
            (
                of(2000).replace("le=\"40\"", "le=\"50\""),
                Some(of(1)),
                "weir_service_milliseconds: its buckets changed",
            ),
        ] {
            let error = observe(&now, before.as_deref()).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{expected}\n{error}");
        }
    }

    #[test]
    fn variants_of_a_service_are_listed() {
        let reading = Reading::of(&text(1, 0, false)).unwrap();
        assert_eq!(reading.variants("demo"), ["res-net"]);
        assert!(reading.variants("other").is_empty());
    }
}
