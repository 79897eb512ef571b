//! Service times measured by the proxies, compared with the profiles → variants whose profile is wrong. Pure.
//!
//! A server may make any batch from one request to the largest, so any time between those two is plausible. A time
//! that stays outside shows that the server is slower or faster than its profile, or makes other batches. The filters
//! use their measurements, and the *why* of the decision names the variant.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Planner;
use crate::observe::Scrape;
use crate::plan::{ServiceTime, service_times};

/// Relative tolerance around the expected times.
const WRONG_MIN: f64 = 0.25;
/// Additional tolerance in ms: proxies report whole ms, and the network adds some.
const WRONG_MIN_MS: f64 = 2.0;
/// Time for which a value must stay outside. Proxies have forgotten measurements with other cores by then.
const LASTS: Duration = Duration::from_secs(15);

/// Service time outside the expected range, by variant.
#[derive(Debug, Clone, Default)]
pub(super) struct ServiceTimes(Vec<Option<Outside>>);

#[derive(Debug, Clone, Copy)]
struct Outside {
    since: Duration,
    ms: f64,
    planned: ServiceTime,
}

impl ServiceTimes {
    /// Creates an empty record.
    pub(super) fn new(variants: usize) -> ServiceTimes {
        ServiceTimes(vec![None; variants])
    }

    /// Takes in the times in ms that proxies reported for a variant at `at`. `planned` is `None` for a variant without
    /// cores.
    pub(super) fn see(
        &mut self,
        at: Duration,
        variant: usize,
        reported: impl Iterator<Item = f64>,
        planned: Option<&ServiceTime>,
    ) {
        let Some(outside) = self.0.get_mut(variant) else {
            return;
        };
        let measured = planned.and_then(|planned| {
            // A proxy with too few measurements reports the planned time.
            let measured = reported.filter(|ms| (ms - planned.sent_ms).abs() > 1.0);
            Some((median(measured.collect())?, planned))
        });
        let off = measured.filter(|(ms, planned)| !may_be(planned).contains(ms));
        *outside = off.map(|(ms, planned)| Outside {
            since: outside.map_or(at, |before| before.since),
            ms,
            planned: *planned,
        });
    }

    /// Measured time of a variant in ms and the profile's, if the profile is wrong.
    fn measured(&self, variant: usize, now: Duration) -> Option<(f64, ServiceTime)> {
        let outside = self.0.get(variant).copied().flatten()?;
        let lasts = now.saturating_sub(outside.since) >= LASTS;
        lasts.then_some((outside.ms, outside.planned))
    }
}

impl Planner {
    /// Compares the proxies' measurements with the published plan.
    pub(super) fn see_service_times(&mut self, scrapes: &[Scrape]) {
        let planned = service_times(
            &self.service,
            &self.rollout.out,
            self.planned,
            self.rollout.batches.confirmed(),
        );
        for (index, variant) in self.service.variants.iter().enumerate() {
            let counts = scrapes
                .iter()
                .filter_map(|scrape| scrape.counts.as_ref().ok());
            let reported =
                counts.filter_map(|counts| counts.predicted_ms.get(&variant.name).copied());
            let planned = planned.get(index).and_then(Option::as_ref);
            self.measured
                .service_times
                .see(self.now, index, reported, planned);
        }
    }

    /// Names the variants whose service time differs from their profile.
    pub(super) fn service_time_notes(&self) -> String {
        let each = self.service.variants.iter().enumerate();
        let notes = each.filter_map(|(index, variant)| {
            let (took, planned) = self.measured.service_times.measured(index, self.now)?;
            let (min, most) = (planned.min_ms.round(), planned.most_ms.round());
            let profile_ms = match min < most {
                true => format!("{min} to {most}"),
                false => most.to_string(),
            };
            let name = &variant.name;
            Some(format!(
                "; {name} takes {took:.0} ms, its profile says {profile_ms} ms: its latency or its batches are others"
            ))
        });
        notes.collect()
    }
}

fn may_be(planned: &ServiceTime) -> RangeInclusive<f64> {
    let min = planned.min_ms * (1.0 - WRONG_MIN) - WRONG_MIN_MS;
    min..=planned.most_ms * (1.0 + WRONG_MIN) + WRONG_MIN_MS
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 ms for one request, 60 ms in the largest batch.
    const PLANNED: ServiceTime = ServiceTime {
        sent_ms: 40.0,
        min_ms: 20.0,
        most_ms: 60.0,
    };

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn time_outside_profile_for_a_while_is_reported() {
        for (reported, measured) in [
            (&[20.0, 20.0][..], None),
            (&[14.0], None),
            (&[12.0], Some(12.0)),
            (&[76.0], None),
            (&[78.0], Some(78.0)),
            // Values equal to the plan's are no measurements, and one outlier among several is ignored.
            (&[40.0, 40.0, 90.0], Some(90.0)),
            (&[50.0, 52.0, 90.0], None),
            (&[], None),
        ] {
            let mut times = ServiceTimes::new(1);
            times.see(s(0), 0, reported.iter().copied(), Some(&PLANNED));
            times.see(s(14), 0, reported.iter().copied(), Some(&PLANNED));
            assert_eq!(times.measured(0, s(14)), None);
            times.see(s(15), 0, reported.iter().copied(), Some(&PLANNED));
            let found = times.measured(0, s(15)).map(|(ms, _)| ms);
            assert_eq!(found, measured, "{reported:?}");
        }
    }

    #[test]
    fn time_within_profile_or_without_cores_resets_the_wait() {
        let mut times = ServiceTimes::new(1);
        for (second, reported, planned) in [
            (0, 90.0, Some(&PLANNED)),
            (10, 30.0, Some(&PLANNED)),
            (20, 90.0, Some(&PLANNED)),
            (30, 90.0, None),
            (40, 90.0, Some(&PLANNED)),
        ] {
            times.see(s(second), 0, std::iter::once(reported), planned);
            assert_eq!(times.measured(0, s(second)), None, "{second}");
        }
        times.see(s(55), 0, std::iter::once(95.0), Some(&PLANNED));
        assert_eq!(times.measured(0, s(55)), Some((95.0, PLANNED)));
    }
}
