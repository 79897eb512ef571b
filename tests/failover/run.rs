//! Execution of one schedule: when each event happens, and the outcome.

mod checks;
mod edits;

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use weir_apiserver::{Fault, Resizing, Rule};
use weir_bed::wait;
use weir_planner::backends::kubernetes::actuate::PENDING_WRITE_TTL;
use weir_planner::backends::kubernetes::watch::REFUSED_AGAIN_MAX;

use super::bed::Cluster;
use super::invariants::{self, Meter};
use super::planners::PlannerGroup;
use super::resizes;
use super::schedule::{FailureTime, LeaderFailure, Schedule};
use super::summary::Outcome;

/// Core budget.
pub(crate) const BUDGET: f64 = 8.0;
/// Maximum number of pods in schedules with a limit on the pods' resources.
pub(crate) const PODS: usize = 4;
/// Longest takeover, from the leader's failure or from the end of the faults of requests for the Lease.
const TAKEOVER_MAX: Duration = Duration::from_secs(15);
/// Longest wait for a first leader, and for a resize to fail the leader in.
const LIMIT: Duration = Duration::from_secs(60);
/// Longest time from the last fault until the actual state is the target: pending writes are uncertain for
/// `PENDING_WRITE_TTL`, and a forbidden watch pauses for `REFUSED_AGAIN_MAX`.
const CONVERGE_MAX: Duration =
    Duration::from_secs(PENDING_WRITE_TTL.as_secs() + REFUSED_AGAIN_MAX.as_secs() + 30);
/// Interval between two steps.
const STEP: Duration = Duration::from_millis(20);
/// Time for which the final state must stay correct.
const STABLE_FOR: Duration = Duration::from_secs(3);
/// Maximum number of log lines shown for a failed schedule.
const LOG_LINES_MAX: usize = 250;

struct Run<'a> {
    schedule: &'a Schedule,
    cluster: &'a Cluster,
    planners: PlannerGroup<'a>,
    failed_at: Option<Duration>,
    failed_leader: Option<usize>,
    restored: bool,
    /// Faults in force: general ones, those of the Lease, and those of a re-election.
    faults: (bool, bool, bool),
    /// Edits that have been made, and when the latest is to be taken back.
    edits: usize,
    takes_back: Option<Duration>,
    watches_ended: Duration,
}

pub(crate) async fn run_schedule(schedule: &Schedule) -> Result<Outcome, String> {
    let options = |options: &mut weir_apiserver::Options| {
        options.seed = schedule.seed;
        options.starts_after = schedule.starts_after;
        options.ready_after = schedule.ready_after;
        options.exits_after = Some(schedule.exits_after);
    };
    let cluster = Cluster::of(options, |_| true).await;
    let meter = Meter::of(&cluster.server);
    let mut run = Run {
        schedule,
        cluster: &cluster,
        planners: PlannerGroup::of(&cluster),
        failed_at: None,
        failed_leader: None,
        restored: false,
        faults: (false, false, false),
        edits: 0,
        takes_back: None,
        watches_ended: Duration::ZERO,
    };
    let mut result = run.execute().await;
    let log = cluster.server.log().after(0);
    for found in [
        meter.within(BUDGET),
        meter.within_pods(if schedule.pods_bounded {
            PODS
        } else {
            usize::MAX
        }),
        resizes::nothing_is_resized_twice(&log),
        invariants::only_the_holder_acts(&log),
        run.takeover(&log).map(drop),
        match cluster.server.log().forgotten() {
            0 => Ok(()),
            some => Err(format!("the log has forgotten {some} entries")),
        },
    ] {
        result = found.and(result);
    }
    let failed_at = run.failed_at.unwrap_or_default();
    match result {
        Err(why) => {
            let from = failed_at.saturating_sub(Duration::from_secs(5));
            let log = invariants::writes(&log, from, LOG_LINES_MAX);
            Err(format!(
                "{why}\nleader failed at {failed_at:?}: {:?}\n{log}\nstatus: {}",
                run.failed_leader,
                cluster.resource("demo")["status"]
            ))
        }
        Ok(settled_after) => {
            let acting = |resource: &str| {
                let taken = log.iter().filter_map(resizes::taken);
                taken
                    .filter(|one| one.resource == resource && invariants::acts(one))
                    .count()
            };
            Ok(Outcome {
                virtual_time: cluster.server.elapsed(),
                takeover: run.takeover(&log).unwrap_or_default(),
                in_resize: matches!(schedule.failure_time, FailureTime::InResize { .. }),
                killed: matches!(schedule.leader_failure, LeaderFailure::Kill { .. }),
                faults: cluster.server.faults().met(),
                resizes: acting("pods/resize"),
                scalings: acting("deployments/scale"),
                evictions: acting("pods/eviction"),
                most: meter.most(),
                most_pods: meter.most_pods(),
                pods_bounded: schedule.pods_bounded,
                settled_after,
            })
        }
    }
}

impl Run<'_> {
    fn now(&self) -> Duration {
        self.cluster.server.elapsed()
    }

    /// Runs the schedule; returns the time from the last fault until the state was correct.
    async fn execute(&mut self) -> Result<Duration, String> {
        self.begin().await?;
        let from = self.failure_start().await?;
        while self.now() < from {
            self.step().await;
        }
        self.fail_leader().await?;
        let ends = self.ends();
        while self.now() < ends {
            self.step().await;
        }
        // All edits have been made and taken back.
        while self.edits < self.schedule.edits.len() || self.takes_back.is_some() {
            self.step().await;
        }
        self.planners.faults([]);
        self.converge().await
    }

    async fn begin(&mut self) -> Result<(), String> {
        let kubelet = self.cluster.server.kubelet();
        let after = self.schedule.actuated_after;
        kubelet.resizes(Resizing::Actuated { after });
        for name in ["small", "large"] {
            self.cluster.deploy(name, 1, 1);
        }
        let resource = self.resource();
        self.cluster.server.store().create(&resource).unwrap();
        for index in 0..self.schedule.planners {
            self.planners.start(&format!("weir-{index}")).await;
        }
        let leads = || self.planners.leader().is_some();
        let leads = wait::until("a leader", LIMIT, leads).await;
        leads.map_err(|error| error.to_string())
    }

    fn resource(&self) -> Value {
        let mut resource = self.cluster.demo();
        let ms = |time: Duration| json!(format!("{}ms", time.as_millis()));
        let spec = &mut resource["spec"];
        spec["cycle"] = ms(self.schedule.cycle);
        spec["resize"]["timeout"] = ms(self.schedule.resize_timeout);
        spec["demand"] =
            json!({"smoothing": "1s", "window": "2s", "moving": "1500ms", "headroom": 1.1});
        spec["budget"]["cores"] = json!(BUDGET as u64);
        if self.schedule.replicated {
            let small = &mut spec["variants"][0];
            small["cores"] = json!({"initial": 1, "min": 1, "max": 2});
            small["replicas"] = json!({"initial": 1, "min": 1, "max": 3});
            spec["variants"][1]["cores"]["max"] = json!(2);
        }
        if self.schedule.pods_bounded {
            spec["budget"]["resources"] = json!({"memory": format!("{PODS}Gi")});
            for index in 0..2 {
                spec["variants"][index]["resources"] = json!({"memory": "1Gi"});
            }
        }
        if self.schedule.replaces {
            spec["resize"]["fallback"] = json!("replace");
        }
        resource
    }

    /// Applies load and faults for the current time, then sleeps.
    async fn step(&mut self) {
        let now = self.now();
        self.cluster.proxy.load(self.load(now));
        let after = |wait: Duration| {
            self.failed_at
                .is_none_or(|failed_at| now < failed_at + wait)
        };
        let general = now >= self.schedule.faults_from && after(self.schedule.faults_last);
        let of_lease = now >= self.schedule.faults_from && after(self.schedule.lease_faults_last);
        let reelection = self.schedule.reelection.as_ref();
        let no_lease = self.failed_at.is_none()
            && reelection.is_some_and(|one| now >= one.from && now < one.from + one.lasts);
        if (general, of_lease, no_lease) != self.faults {
            self.faults = (general, of_lease, no_lease);
            self.renew_faults();
        }
        self.edit(now);
        let every = self.schedule.watches_end_every;
        if general && every.is_some_and(|every| now >= self.watches_ended + every) {
            self.watches_ended = now;
            self.cluster.server.faults().close_watches();
        }
        self.restore_leader(now).await;
        sleep(STEP).await;
    }

    fn renew_faults(&self) {
        let (general, of_lease, no_lease) = self.faults;
        let none = Rule::always(Fault::HangUp).resource("leases");
        let none = no_lease.then_some(none);
        let own = self.schedule.faults.iter().filter(|_| general);
        let lease = self.schedule.lease_faults.iter().filter(|_| of_lease);
        let rules = lease.chain(own).cloned();
        self.planners.faults(none.into_iter().chain(rules));
    }

    fn load(&self, now: Duration) -> f64 {
        let mut until = Duration::ZERO;
        let loads = &self.schedule.loads;
        let current = loads.iter().find(|(lasts, _)| {
            until += *lasts;
            now < until
        });
        current.or(loads.last()).map_or(0.0, |(_, rate)| *rate)
    }

    /// Returns the time at which the leader fails.
    async fn failure_start(&mut self) -> Result<Duration, String> {
        let (from, then) = match self.schedule.failure_time {
            FailureTime::After(from) => return Ok(from),
            FailureTime::InResize { from, then } => (from, then),
        };
        while self.now() < from {
            self.step().await;
        }
        let before = self.cluster.server.log().latest();
        // Without a resize within this time, the leader fails all the same.
        while self.now() < from + LIMIT / 4 {
            let log = self.cluster.server.log().after(before);
            if log.iter().filter_map(resizes::taken).any(invariants::acts) {
                break;
            }
            self.step().await;
        }
        Ok(self.now() + then)
    }

    async fn fail_leader(&mut self) -> Result<(), String> {
        if self.schedule.full {
            let never = || Resizing::Infeasible("Node didn't have enough capacity".to_owned());
            let full = match self.schedule.replaces {
                true => never(),
                false => Resizing::Deferred,
            };
            self.cluster.server.kubelet().resizes(full);
            self.pause(Duration::from_secs(1)).await;
        }
        let waits = self.now() + LIMIT;
        let failed_leader = loop {
            match self.planners.leader() {
                Some(failed_leader) => break failed_leader,
                None if self.now() < waits => self.step().await,
                None => return Err("no leader that could fail".to_owned()),
            }
        };
        (self.failed_at, self.failed_leader) = (Some(self.now()), Some(failed_leader));
        match self.schedule.leader_failure {
            LeaderFailure::Kill { .. } => self.planners.kill(failed_leader).await,
            LeaderFailure::CutOff { hangs, lasts } => {
                let longest = lasts.unwrap_or(LIMIT * 10);
                self.planners.processes[failed_leader].cut = Some(match hangs {
                    true => Fault::Late(longest),
                    false => Fault::HangUp,
                });
            }
        }
        self.renew_faults();
        // Watches that are already open would bypass the faults.
        self.cluster.server.faults().close_watches();
        if self.schedule.full {
            self.pause(Duration::from_secs(2)).await;
            let after = self.schedule.actuated_after;
            let kubelet = self.cluster.server.kubelet();
            kubelet.resizes(Resizing::Actuated { after });
            // Resizes that were infeasible become feasible.
            kubelet.restart();
        }
        Ok(())
    }

    async fn pause(&mut self, time: Duration) {
        let until = self.now() + time;
        while self.now() < until {
            self.step().await;
        }
    }

    fn restored_after(&self) -> Option<Duration> {
        match self.schedule.leader_failure {
            LeaderFailure::Kill { again, .. } => again,
            LeaderFailure::CutOff { lasts, .. } => lasts,
        }
    }

    async fn restore_leader(&mut self, now: Duration) {
        let (Some(failed_at), Some(failed_leader), Some(wait)) =
            (self.failed_at, self.failed_leader, self.restored_after())
        else {
            return;
        };
        if self.restored || now < failed_at + wait {
            return;
        }
        self.restored = true;
        match self.schedule.leader_failure {
            LeaderFailure::Kill { same_name, .. } => {
                let name = match same_name {
                    true => self.planners.processes[failed_leader].name.clone(),
                    false => "weir-new".to_owned(),
                };
                self.planners.start(&name).await;
            }
            LeaderFailure::CutOff { .. } => {
                self.planners.processes[failed_leader].cut = None;
                self.renew_faults();
            }
        }
    }

    /// Time after the last event, by which another planner must lead.
    fn ends(&self) -> Duration {
        let failed_at = self.failed_at.unwrap_or_default();
        let times = [
            self.schedule.faults_last,
            self.schedule.lease_faults_last + TAKEOVER_MAX,
            self.restored_after().unwrap_or_default() + STEP * 2,
        ];
        failed_at + times.into_iter().max().unwrap_or_default() + STEP
    }
}
