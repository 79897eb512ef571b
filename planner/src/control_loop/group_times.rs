//! Service times by class and by size over all proxies, for the plan: each proxy of many sees few executions of a
//! group, and a new one none. Pure.
//!
//! The test is the filter's ([`weir_api::group`]). Sums fade: those of a group with many executions by half in
//! [`FADE_EVERY`], as in the filter's windows; those of a rare one in minutes, so that it is told apart at all.
//!
//! A plan tells the groups by class or by size, whichever explains more, and is changed for them at most once in
//! [`TELL_EVERY`], and only if they have moved: each change is a plan for every proxy.

use std::collections::BTreeMap;
use std::time::Duration;

use weir_api::VariantPlan;
use weir_api::group::{
    GROUPS_MAX, GroupName, GroupTime, RATIO_MAX, SAMPLES_MIN, SIZES_MORE, differs, explained,
};
use weir_api::moments::Moments;
use weir_api::plan::PLAN_GROUPS_MAX;

use super::Planner;
use crate::observe::{ByGroup, GroupCounts, Scrape};

/// Time after which sums fade.
const FADE_EVERY: Duration = Duration::from_secs(5);
/// Factor of a group with many executions.
const FADE_MIN: f64 = 0.5;
/// Factor of one with few: it loses half in three minutes.
const FADE_MAX: f64 = 0.98;
/// Number of times after which any sums have faded.
const FADES_MAX: u64 = 1000;
/// Executions that suffice; more fade faster.
const ENOUGH: f64 = 2.0 * SAMPLES_MIN as f64;
/// Shortest time between two changes of what a plan tells of a variant.
const TELL_EVERY: Duration = Duration::from_secs(10);
/// Change of a mean or deviation that is told, as a part of the mean.
const CHANGE_MIN: f64 = 0.1;
/// Steps per unit that ratios are rounded to.
const STEPS: f64 = 1000.0;

/// Service times by group of all variants.
#[derive(Debug)]
pub(super) struct GroupTimes {
    counts: GroupCounts,
    faded_at: Duration,
    variants: Vec<VariantGroups>,
}

/// Service times by group of one variant.
#[derive(Debug, Clone, Default)]
struct VariantGroups {
    measured: BTreeMap<String, Moments>,
    published: Vec<GroupTime>,
    published_at: Option<Duration>,
}

impl GroupTimes {
    /// Creates an empty record.
    pub(super) fn new(variants: usize) -> GroupTimes {
        GroupTimes {
            counts: GroupCounts::default(),
            faded_at: Duration::ZERO,
            variants: vec![VariantGroups::default(); variants],
        }
    }

    /// Sums of a variant by group.
    pub(super) fn sums(&self, variant: usize) -> impl Iterator<Item = (&String, &Moments)> {
        let known = self.variants.get(variant).into_iter();
        known.flat_map(|groups| &groups.measured)
    }

    /// Continues from sums that were measured `age` ago.
    pub(super) fn restore(
        &mut self,
        variant: usize,
        sums: &BTreeMap<String, Moments>,
        age: Duration,
    ) {
        let Some(groups) = self.variants.get_mut(variant) else {
            return;
        };
        groups.measured.clone_from(sums);
        let fades = (age.as_secs() / FADE_EVERY.as_secs()).min(FADES_MAX);
        (0..fades).for_each(|_| groups.fade());
    }

    /// Takes in the executions since the last cycle, of the variants with these names.
    fn see<'a>(&mut self, now: Duration, scrapes: &[Scrape], names: impl Iterator<Item = &'a str>) {
        let mut new: ByGroup = self.counts.observe(now, scrapes);
        let fades = now.saturating_sub(self.faded_at) >= FADE_EVERY;
        if fades {
            self.faded_at = now;
        }
        for (name, variant) in names.zip(&mut self.variants) {
            if fades {
                variant.fade();
            }
            variant.add(new.remove(name).unwrap_or_default());
            variant.tell(now);
        }
    }
}

impl VariantGroups {
    fn add(&mut self, new: BTreeMap<String, Moments>) {
        for (group, sums) in new {
            let known = self.measured.entry(group).or_default();
            *known = *known + sums;
        }
    }

    fn fade(&mut self) {
        self.measured.retain(|_, sums| {
            *sums = sums.scaled((ENOUGH / sums.count).clamp(FADE_MIN, FADE_MAX));
            sums.count >= 1.0
        });
    }

    /// Changes what is told if it has moved.
    fn tell(&mut self, now: Duration) {
        let is_due = self
            .published_at
            .is_none_or(|at| now.saturating_sub(at) >= TELL_EVERY);
        if !is_due {
            return;
        }
        let found = self.distinct_groups();
        if have_moved(&self.published, &found) {
            (self.published, self.published_at) = (found, Some(now));
        }
    }

    /// Groups that are told apart, by class or by size.
    fn distinct_groups(&self) -> Vec<GroupTime> {
        let is_class = |name: &str| matches!(GroupName::parse(name), Some(GroupName::Class(_)));
        let is_size = |name: &str| matches!(GroupName::parse(name), Some(GroupName::Size(_)));
        let (classes, all_classes) = self.of(is_class);
        let (sizes, all_sizes) = self.of(is_size);
        let apart = |own: Moments, all: Moments| differs(own, all - own);
        let by_class: Vec<_> = (classes.into_iter())
            .filter(|(_, own)| apart(*own, all_classes))
            .collect();
        let any_size = sizes.iter().any(|(_, own)| apart(*own, all_sizes));
        let by_size: Vec<_> = (sizes.into_iter())
            .filter(|(_, own)| any_size && own.count >= f64::from(SAMPLES_MIN))
            .collect();
        let part = |groups: &[(&str, Moments)], all| explained(groups.iter().map(|it| it.1), all);
        let sizes_first = part(&by_size, all_sizes) > SIZES_MORE * part(&by_class, all_classes);
        let found = if sizes_first { by_size } else { by_class };
        let times = found.into_iter().filter_map(|(name, own)| time(name, own));
        times.take(GROUPS_MAX).collect()
    }

    /// Sums of the groups of one kind, and over all of them.
    fn of(&self, is_kind: impl Fn(&str) -> bool) -> (Vec<(&str, Moments)>, Moments) {
        let each = self
            .measured
            .iter()
            .map(|(name, own)| (name.as_str(), *own));
        let groups: Vec<_> = each.filter(|(name, _)| is_kind(name)).collect();
        let all = groups
            .iter()
            .fold(Moments::default(), |all, (_, own)| all + *own);
        (groups, all)
    }
}

/// Time of a group in a plan; `None` if it is none that a plan may have.
fn time(name: &str, own: Moments) -> Option<GroupTime> {
    let rounded = |ratio: f64| (ratio * STEPS).round() / STEPS;
    let [mean, deviation] = [own.mean(), own.variance().sqrt()].map(rounded);
    (mean > 0.0 && mean <= RATIO_MAX).then(|| GroupTime {
        group: name.to_owned(),
        mean,
        deviation: deviation.min(RATIO_MAX),
    })
}

/// Whether `new` differs enough from what was told.
fn have_moved(old: &[GroupTime], new: &[GroupTime]) -> bool {
    let same = |(old, new): (&GroupTime, &GroupTime)| {
        let max = CHANGE_MIN * old.mean;
        old.group == new.group
            && (old.mean - new.mean).abs() <= max
            && (old.deviation - new.deviation).abs() <= max
    };
    old.len() != new.len() || !old.iter().zip(new).all(same)
}

impl Planner {
    /// Takes in the executions by group since the last cycle.
    pub(super) fn see_group_times(&mut self, scrapes: &[Scrape]) {
        let names = self.service.variants.iter().map(|it| it.name.as_str());
        self.measured.group_times.see(self.now, scrapes, names);
    }

    /// Puts the times of the groups into a plan's variants. Those executed in batches take a batch's time.
    pub(super) fn tell_group_times(&self, variants: &mut [VariantPlan]) {
        let mut left = PLAN_GROUPS_MAX;
        for planned in variants.iter_mut().filter(|planned| planned.batch <= 1) {
            let names = self.service.variants.iter().map(|it| &it.name);
            let mut each = names.zip(&self.measured.group_times.variants);
            let Some((_, groups)) = each.find(|(name, _)| **name == planned.name) else {
                continue;
            };
            if groups.published.len() <= left {
                left -= groups.published.len();
                planned.groups.clone_from(&groups.published);
            }
        }
    }

    /// Names the groups that plans tell apart.
    pub(super) fn group_time_notes(&self) -> String {
        let each = self.service.variants.iter();
        let each = each.zip(&self.measured.group_times.variants);
        let published = each.filter(|(_, groups)| !groups.published.is_empty());
        published
            .map(|(variant, groups)| {
                let times = groups.published.iter();
                let times: Vec<_> = times
                    .map(|it| format!("{} {:.2}", it.group, it.mean))
                    .collect();
                format!(
                    "; {}: times by group, × planned: {}",
                    variant.name,
                    times.join(", ")
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests;
