//! One slot, all jobs present from the start, arbitrary service times: the maximum number of jobs that
//! end by their due times. Exact, O(n log n).
//!
//! J. M. Moore, "An n job, one machine sequencing algorithm for minimizing the number of late jobs",
//! Management Science 15 (1968), in Hodgson's form: take the jobs by due time; whenever the one just
//! added ends too late, drop the longest job so far. The idea of the proof: after each job the kept
//! set has the maximum number of jobs, and among the sets of that size the minimum total time;
//! dropping the longest job preserves both.

use std::collections::BinaryHeap;
use std::time::Duration;

/// Work on one slot; times count from the moment at which all jobs are present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Job {
    /// Service time.
    pub service: Duration,
    /// Time by which it must have ended.
    pub due: Duration,
}

/// Maximum number of jobs that can end by their due times.
#[must_use]
pub fn most_on_time(jobs: &[Job]) -> u64 {
    let mut by_due = jobs.to_vec();
    by_due.sort_by_key(|job| job.due);
    let mut kept: BinaryHeap<Duration> = BinaryHeap::new();
    let mut end = Duration::ZERO;
    for job in by_due {
        kept.push(job.service);
        end += job.service;
        if end > job.due {
            end -= kept.pop().unwrap_or_default();
        }
    }
    kept.len() as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn job((service_ms, due_ms): (u64, u64)) -> Job {
        Job {
            service: Duration::from_millis(service_ms),
            due: Duration::from_millis(due_ms),
        }
    }

    #[test]
    fn longest_job_is_dropped() {
        for (jobs, on_time) in [
            (vec![], 0),
            (vec![(5, 4)], 0),
            (vec![(5, 5)], 1),
            // As in Moore's examples: dropping the long second job saves two later ones.
            (vec![(1, 2), (8, 9), (2, 10), (3, 11)], 3),
            (vec![(10, 6), (3, 8), (4, 9), (8, 15), (6, 20)], 3),
        ] {
            let jobs: Vec<Job> = jobs.into_iter().map(job).collect();
            assert_eq!(most_on_time(&jobs), on_time, "{jobs:?}");
        }
    }

    /// The largest subset that is on time in the order of due times, which is the best order for a set.
    fn by_force(jobs: &[Job]) -> u64 {
        let mut jobs = jobs.to_vec();
        jobs.sort_by_key(|job| job.due);
        let fits = |subset: u32| {
            let mut end = Duration::ZERO;
            jobs.iter().enumerate().all(|(index, job)| {
                let chosen = subset & (1 << index) != 0;
                end += if chosen { job.service } else { Duration::ZERO };
                !chosen || end <= job.due
            })
        };
        let subsets = (0..1u32 << jobs.len()).filter(|subset| fits(*subset));
        subsets
            .map(|subset| u64::from(subset.count_ones()))
            .max()
            .unwrap()
    }

    proptest! {
        #[test]
        fn result_equals_brute_force(jobs in prop::collection::vec((0u64..9, 0u64..25), 0..=8)) {
            let jobs: Vec<Job> = jobs.into_iter().map(job).collect();
            prop_assert_eq!(most_on_time(&jobs), by_force(&jobs));
        }
    }
}
