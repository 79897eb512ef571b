//! Service times that the proxies have measured, held against what the profile says → which variants it is wrong for. Pure.
//!
//! A server may make any batch from a request alone to its greatest, so a time between those two is as it should be. One
//! that stays outside says that the server is slower or faster than its profile, or makes other batches: the filters go
//! by what they measure, and the why says it.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::Planner;
use crate::observe::Scrape;
use crate::plan::{ServiceTime, service_times};

/// Part of a time by which it may lie outside.
const WRONG_MIN: f64 = 0.25;
/// Time by which it may lie outside besides, in ms: proxies say whole ones, and the network takes some.
const WRONG_MIN_MS: f64 = 2.0;
/// For so long it has to lie outside: what proxies measured with other cores is forgotten by then.
const LASTS: Duration = Duration::from_secs(15);

/// Time of each variant that lies outside.
#[derive(Debug, Clone, Default)]
pub(super) struct ServiceTimes(Vec<Option<Outside>>);

#[derive(Debug, Clone, Copy)]
struct Outside {
    since: Duration,
    ms: f64,
    planned: ServiceTime,
}

impl ServiceTimes {
    /// None was measured yet.
    pub(super) fn new(variants: usize) -> ServiceTimes {
        ServiceTimes(vec![None; variants])
    }

    /// Times that proxies `said` of a variant, in ms, `at` that time; nothing where the plan gives it no cores.
    pub(super) fn see(
        &mut self,
        at: Duration,
        variant: usize,
        said: impl Iterator<Item = f64>,
        planned: Option<&ServiceTime>,
    ) {
        let Some(outside) = self.0.get_mut(variant) else {
            return;
        };
        let measured = planned.and_then(|planned| {
            // A proxy that has measured too little says what is planned.
            let measured = said.filter(|ms| (ms - planned.sent_ms).abs() > 1.0);
            Some((median(measured.collect())?, planned))
        });
        let off = measured.filter(|(ms, planned)| !may_be(planned).contains(ms));
        *outside = off.map(|(ms, planned)| Outside {
            since: outside.map_or(at, |before| before.since),
            ms,
            planned: *planned,
        });
    }

    /// Time that a variant takes, in ms, and what its profile says, where that is wrong.
    fn measured(&self, variant: usize, now: Duration) -> Option<(f64, ServiceTime)> {
        let outside = self.0.get(variant).copied().flatten()?;
        let lasts = now.saturating_sub(outside.since) >= LASTS;
        lasts.then_some((outside.ms, outside.planned))
    }
}

impl Planner {
    /// Holds what the proxies have measured against the plan that is out.
    pub(super) fn see_service_times(&mut self, scrapes: &[Scrape]) {
        let planned = service_times(&self.service, &self.out, self.planned, self.batches.told());
        for (index, variant) in self.service.variants.iter().enumerate() {
            let counts = scrapes
                .iter()
                .filter_map(|scrape| scrape.counts.as_ref().ok());
            let said = counts.filter_map(|counts| counts.predicted_ms.get(&variant.name).copied());
            let planned = planned.get(index).and_then(Option::as_ref);
            self.service_times.see(self.now, index, said, planned);
        }
    }

    /// Names the variants that take another time to answer than their profiles say.
    pub(super) fn service_time_notes(&self) -> String {
        let each = self.service.variants.iter().enumerate();
        let notes = each.filter_map(|(index, variant)| {
            let (took, planned) = self.service_times.measured(index, self.now)?;
            let (least, most) = (planned.least_ms.round(), planned.most_ms.round());
            let says = match least < most {
                true => format!("{least} to {most}"),
                false => most.to_string(),
            };
            let name = &variant.name;
            Some(format!(
                "; {name} takes {took:.0} ms, its profile says {says} ms: its latency or its batches are others"
            ))
        });
        notes.collect()
    }
}

fn may_be(planned: &ServiceTime) -> RangeInclusive<f64> {
    let least = planned.least_ms * (1.0 - WRONG_MIN) - WRONG_MIN_MS;
    least..=planned.most_ms * (1.0 + WRONG_MIN) + WRONG_MIN_MS
}

fn median(mut all: Vec<f64>) -> Option<f64> {
    all.sort_by(f64::total_cmp);
    all.get(all.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 20 ms alone, 60 ms in the greatest batch.
    const PLANNED: ServiceTime = ServiceTime {
        sent_ms: 40.0,
        least_ms: 20.0,
        most_ms: 60.0,
    };

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_time_that_stays_outside_of_what_the_profile_says_is_said() {
        for (said, measured) in [
            (&[20.0, 20.0][..], None),
            (&[14.0], None),
            (&[12.0], Some(12.0)),
            (&[76.0], None),
            (&[78.0], Some(78.0)),
            // The plan's word says nothing, and one of many nothing of the server.
            (&[40.0, 40.0, 90.0], Some(90.0)),
            (&[50.0, 52.0, 90.0], None),
            (&[], None),
        ] {
            let mut times = ServiceTimes::new(1);
            times.see(s(0), 0, said.iter().copied(), Some(&PLANNED));
            times.see(s(14), 0, said.iter().copied(), Some(&PLANNED));
            assert_eq!(times.measured(0, s(14)), None);
            times.see(s(15), 0, said.iter().copied(), Some(&PLANNED));
            let got = times.measured(0, s(15)).map(|(ms, _)| ms);
            assert_eq!(got, measured, "{said:?}");
        }
    }

    #[test]
    fn what_lies_inside_again_or_has_no_cores_is_forgotten() {
        let mut times = ServiceTimes::new(1);
        for (second, said, planned) in [
            (0, 90.0, Some(&PLANNED)),
            (10, 30.0, Some(&PLANNED)),
            (20, 90.0, Some(&PLANNED)),
            (30, 90.0, None),
            (40, 90.0, Some(&PLANNED)),
        ] {
            times.see(s(second), 0, std::iter::once(said), planned);
            assert_eq!(times.measured(0, s(second)), None, "{second}");
        }
        times.see(s(55), 0, std::iter::once(95.0), Some(&PLANNED));
        assert_eq!(times.measured(0, s(55)), Some((95.0, PLANNED)));
    }
}
