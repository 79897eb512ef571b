//! Service times by group that this worker has measured and not reported yet, for the planner to add up over all
//! proxies.
//!
//! Classes are reported where there are several, sizes once the worker has seen two. A body of unknown size has no size
//! to report.

use super::group_sums::{GROUPS, Sums, index_of_class};
use super::group_times::Group;
use crate::size::{SIZES, Size};
use crate::waiting::class::{ClassId, Classes};
use weir_api::group::GroupName;

const _: () = assert!(SIZES <= u16::BITS as usize);

/// Group in a report: a size or a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct GroupId(u8);

impl GroupId {
    /// Name of the group in metrics and plans; `None` for a body of unknown size, or an unknown class.
    #[must_use]
    pub fn name(self, classes: &Classes) -> Option<String> {
        let index = usize::from(self.0);
        let name = match index.checked_sub(SIZES) {
            None => GroupName::Size(Size::min_bytes_of(index)?),
            Some(class) => GroupName::Class(classes.name(ClassId(class as u8))?),
        };
        Some(name.to_string())
    }
}

/// Sums since the last report.
#[derive(Debug)]
pub struct GroupReport {
    sums: Box<[Sums; GROUPS]>,
    /// A bit for each size seen.
    sizes_seen: u16,
}

impl Default for GroupReport {
    fn default() -> GroupReport {
        GroupReport {
            sums: Box::new([Sums::default(); GROUPS]),
            sizes_seen: 0,
        }
    }
}

impl GroupReport {
    /// Records an execution of a group, by its size, and by its class if `by_class`.
    pub fn record(&mut self, group: Group, by_class: bool, one: &Sums) {
        if group.size != Size::UNKNOWN
            && let Some(of_size) = self.sums.get_mut(group.size.index())
        {
            of_size.add(one);
            self.sizes_seen |= 1 << group.size.index();
        }
        if by_class && let Some(of_class) = self.sums.get_mut(index_of_class(group.class)) {
            of_class.add(one);
        }
    }

    /// Takes the sums of the groups that had executions.
    pub fn take(&mut self, mut report: impl FnMut(GroupId, &Sums)) {
        let several_sizes = self.sizes_seen.count_ones() > 1;
        for (index, sums) in (0..).zip(self.sums.iter_mut()) {
            let sums = std::mem::take(sums);
            if sums.count > 0 && (usize::from(index) >= SIZES || several_sizes) {
                report(GroupId(index), &sums);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(report: &mut GroupReport) -> Vec<(String, u32)> {
        let mut names = Vec::new();
        report.take(|id, sums| {
            names.push((id.name(&Classes::default()).unwrap(), sums.count));
        });
        names
    }

    #[test]
    fn sizes_are_reported_from_the_second_on() {
        let mut report = GroupReport::default();
        let record = |report: &mut GroupReport, bytes: Option<u64>, by_class| {
            let group = Group {
                size: bytes.map_or(Size::UNKNOWN, Size::of),
                ..Group::default()
            };
            report.record(group, by_class, &Sums::of(0.5, true));
        };
        record(&mut report, Some(700), false);
        record(&mut report, None, false);
        assert_eq!(names(&mut report), []);
        record(&mut report, Some(1023), true);
        record(&mut report, Some(5 << 20), true);
        let expected = [("size-512", 1), ("size-4194304", 1), ("class-default", 2)];
        assert_eq!(
            names(&mut report),
            expected.map(|(name, count)| (name.to_owned(), count))
        );
        assert_eq!(names(&mut report), [], "each is taken once");
    }
}
