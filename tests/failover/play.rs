//! One schedule, from the first planner to the last look: what is done when, and what came of it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;
use weir_apiserver::{Entry, Fault, Resizing};
use weir_bed::wait;
use weir_planner::backends::kubernetes::actuate::PENDING_WRITE_TTL;

use super::bed::Cluster;
use super::judge::{self, Meter};
use super::schedule::{Blow, Moment, Schedule};
use super::tally::Played;
use super::troupe::Troupe;

/// All cores there may be.
pub(crate) const BUDGET: f64 = 8.0;
/// All pods there may be, where what each holds is bounded.
pub(crate) const PODS: usize = 4;
/// Another plans so long after the leader was struck, or after requests about the Lease fail no more.
const TAKE_OVER: Duration = Duration::from_secs(15);
/// Longest wait for a first leader, and for a resize to strike in.
const LIMIT: Duration = Duration::from_secs(60);
/// Longest until all is as it should be without faults: what was asked without an answer is in doubt for so long.
const SETTLE: Duration = Duration::from_secs(PENDING_WRITE_TTL.as_secs() + 30);
/// How often everything is looked at.
const LOOK: Duration = Duration::from_millis(20);
/// How long all must be as it should be at the end.
const STILL: Duration = Duration::from_secs(3);
/// Lines of the log that a failure shows.
const LINES: usize = 250;

struct Stage<'a> {
    schedule: &'a Schedule,
    cluster: &'a Cluster,
    troupe: Troupe<'a>,
    struck: Option<Duration>,
    hit: Option<usize>,
    came_back: bool,
    faults: (bool, bool),
    watches_ended: Duration,
}

pub(crate) async fn play(schedule: &Schedule) -> Result<Played, String> {
    let options = |options: &mut weir_apiserver::Options| {
        options.seed = schedule.seed;
        options.starts_after = schedule.starts_after;
        options.ready_after = schedule.ready_after;
        options.exits_after = Some(schedule.exits_after);
    };
    let cluster = Cluster::of(options, |_| true).await;
    let meter = Meter::of(&cluster.server);
    let mut stage = Stage {
        schedule,
        cluster: &cluster,
        troupe: Troupe::of(&cluster),
        struck: None,
        hit: None,
        came_back: false,
        faults: (false, false),
        watches_ended: Duration::ZERO,
    };
    let mut result = stage.play().await;
    let log = cluster.server.log().after(0);
    for found in [
        meter.within(BUDGET),
        meter.within_pods(if schedule.bound { PODS } else { usize::MAX }),
        judge::nothing_is_resized_twice(&log),
        judge::only_the_holder_acts(&log),
        stage.taken_over(&log).map(drop),
        match cluster.server.log().forgotten() {
            0 => Ok(()),
            some => Err(format!("the log has forgotten {some} entries")),
        },
    ] {
        result = found.and(result);
    }
    let struck = stage.struck.unwrap_or_default();
    match result {
        Err(why) => {
            let from = struck.saturating_sub(Duration::from_secs(5));
            let log = judge::writes(&log, from, LINES);
            Err(format!(
                "{why}\nstruck at {struck:?}: {:?}\n{log}\nstatus: {}",
                stage.hit,
                cluster.resource("demo")["status"]
            ))
        }
        Ok(settled_after) => {
            let acting = |resource: &str| {
                let taken = log.iter().filter_map(judge::taken);
                taken
                    .filter(|one| one.resource == resource && judge::acts(one))
                    .count()
            };
            Ok(Played {
                virtual_time: cluster.server.elapsed(),
                took_over: stage.taken_over(&log).unwrap_or_default(),
                in_resize: matches!(schedule.moment, Moment::InResize { .. }),
                killed: matches!(schedule.blow, Blow::Kill { .. }),
                faults: cluster.server.faults().met(),
                resizes: acting("pods/resize"),
                scalings: acting("deployments/scale"),
                evictions: acting("pods/eviction"),
                most: meter.most(),
                most_pods: meter.most_pods(),
                bound: schedule.bound,
                settled_after,
            })
        }
    }
}

impl Stage<'_> {
    fn now(&self) -> Duration {
        self.cluster.server.elapsed()
    }

    /// Until all is as it should be; how long that took after the last fault.
    async fn play(&mut self) -> Result<Duration, String> {
        self.begin().await?;
        let from = self.strike_from().await?;
        while self.now() < from {
            self.step().await;
        }
        self.strike().await?;
        let ends = self.ends();
        while self.now() < ends {
            self.step().await;
        }
        self.troupe.faults([]);
        self.settle().await
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
            self.troupe.enter(&format!("weir-{index}")).await;
        }
        let leads = || self.troupe.leader().is_some();
        let leads = wait::until("a leader", LIMIT, leads).await;
        leads.map_err(|error| error.to_string())
    }

    fn resource(&self) -> Value {
        let mut resource = self.cluster.demo();
        let ms = |time: Duration| json!(time.as_millis() as u64);
        let spec = &mut resource["spec"];
        spec["cycle_ms"] = ms(self.schedule.cycle);
        spec["resize"]["timeout_ms"] = ms(self.schedule.resize_timeout);
        spec["demand"] =
            json!({"smoothing_s": 1.0, "window_s": 2.0, "moving_s": 1.5, "headroom": 1.1});
        spec["budget"]["cores"] = json!(BUDGET as u64);
        if self.schedule.replicated {
            let small = &mut spec["variants"][0];
            small["cores"] = json!({"initial": 1, "least": 1, "greatest": 2});
            small["replicas"] = json!({"initial": 1, "least": 1, "greatest": 3});
            spec["variants"][1]["cores"]["greatest"] = json!(2);
        }
        if self.schedule.bound {
            spec["budget"]["held"] = json!({"memory": format!("{PODS}Gi")});
            for index in 0..2 {
                spec["variants"][index]["holds"] = json!({"memory": "1Gi"});
            }
        }
        if self.schedule.replaces {
            spec["resize"]["fallback"] = json!("replace");
        }
        resource
    }

    /// What goes on all the time.
    async fn step(&mut self) {
        let now = self.now();
        self.cluster.proxy.load(self.load(now));
        let after = |wait: Duration| self.struck.is_none_or(|struck| now < struck + wait);
        let general = now >= self.schedule.faults_from && after(self.schedule.faults_last);
        let of_lease = now >= self.schedule.faults_from && after(self.schedule.lease_faults_last);
        if (general, of_lease) != self.faults {
            self.faults = (general, of_lease);
            self.renew_faults();
        }
        let every = self.schedule.watches_end_every;
        if general && every.is_some_and(|every| now >= self.watches_ended + every) {
            self.watches_ended = now;
            self.cluster.server.faults().close_watches();
        }
        self.come_back(now).await;
        sleep(LOOK).await;
    }

    fn renew_faults(&self) {
        let (general, of_lease) = self.faults;
        let own = self.schedule.faults.iter().filter(|_| general);
        let lease = self.schedule.lease_faults.iter().filter(|_| of_lease);
        self.troupe.faults(lease.chain(own).cloned());
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

    /// When the leader is struck.
    async fn strike_from(&mut self) -> Result<Duration, String> {
        let (from, then) = match self.schedule.moment {
            Moment::After(from) => return Ok(from),
            Moment::InResize { from, then } => (from, then),
        };
        while self.now() < from {
            self.step().await;
        }
        let before = self.cluster.server.log().latest();
        // Where the load wants none any more, it is struck as it is.
        while self.now() < from + LIMIT / 4 {
            let log = self.cluster.server.log().after(before);
            if log.iter().filter_map(judge::taken).any(judge::acts) {
                break;
            }
            self.step().await;
        }
        Ok(self.now() + then)
    }

    async fn strike(&mut self) -> Result<(), String> {
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
        let hit = loop {
            match self.troupe.leader() {
                Some(hit) => break hit,
                None if self.now() < waits => self.step().await,
                None => return Err("nobody leads that could be struck".to_owned()),
            }
        };
        (self.struck, self.hit) = (Some(self.now()), Some(hit));
        match self.schedule.blow {
            Blow::Kill { .. } => self.troupe.kill(hit).await,
            Blow::CutOff { hangs, lasts } => {
                let longest = lasts.unwrap_or(LIMIT * 10);
                self.troupe.actors[hit].cut = Some(match hangs {
                    true => Fault::Late(longest),
                    false => Fault::HangUp,
                });
            }
        }
        self.renew_faults();
        // What has been begun would tell on.
        self.cluster.server.faults().close_watches();
        if self.schedule.full {
            self.pause(Duration::from_secs(2)).await;
            let after = self.schedule.actuated_after;
            let kubelet = self.cluster.server.kubelet();
            kubelet.resizes(Resizing::Actuated { after });
            // What never fitted does now.
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

    fn back_after(&self) -> Option<Duration> {
        match self.schedule.blow {
            Blow::Kill { again, .. } => again,
            Blow::CutOff { lasts, .. } => lasts,
        }
    }

    async fn come_back(&mut self, now: Duration) {
        let (Some(struck), Some(hit), Some(wait)) = (self.struck, self.hit, self.back_after())
        else {
            return;
        };
        if self.came_back || now < struck + wait {
            return;
        }
        self.came_back = true;
        match self.schedule.blow {
            Blow::Kill { same_name, .. } => {
                let name = match same_name {
                    true => self.troupe.actors[hit].name.clone(),
                    false => "weir-new".to_owned(),
                };
                self.troupe.enter(&name).await;
            }
            Blow::CutOff { .. } => {
                self.troupe.actors[hit].cut = None;
                self.renew_faults();
            }
        }
    }

    /// When nothing happens any more, and another must lead.
    fn ends(&self) -> Duration {
        let struck = self.struck.unwrap_or_default();
        let times = [
            self.schedule.faults_last,
            self.schedule.lease_faults_last + TAKE_OVER,
            self.back_after().unwrap_or_default() + LOOK * 2,
        ];
        struck + times.into_iter().max().unwrap_or_default() + LOOK
    }

    /// From the blow until another, or itself again, held the Lease.
    fn taken_over(&self, log: &[Entry]) -> Result<Option<Duration>, String> {
        let (Some(struck), Some(hit)) = (self.struck, self.hit) else {
            return Ok(None);
        };
        let lease_faults = match self.schedule.lease_faults.is_empty() {
            true => Duration::ZERO,
            false => self.schedule.lease_faults_last,
        };
        let most = lease_faults + TAKE_OVER;
        // One that was cut off for a while may go on.
        let back = self.back_after().filter(|wait| *wait < most);
        let goes_on = matches!(self.schedule.blow, Blow::CutOff { .. }) && back.is_some();
        let without = match goes_on {
            true => Vec::new(),
            false => vec![self.troupe.actors[hit].subject.clone()],
        };
        let took = judge::taken_over(log, struck, &without);
        match took {
            Some(took) if took <= most => Ok((!goes_on && lease_faults.is_zero()).then_some(took)),
            Some(took) => Err(format!("another led only after {took:?}, not {most:?}")),
            None => Err("nobody ever led again".to_owned()),
        }
    }

    async fn settle(&self) -> Result<Duration, String> {
        let rate = self.schedule.loads.last().map_or(0.0, |(_, rate)| *rate);
        self.cluster.proxy.load(rate);
        let begin = self.now();
        let mut since: Option<Duration> = None;
        loop {
            let now = self.now();
            match self.in_order(rate) {
                Ok(()) => {
                    let well = *since.get_or_insert(now);
                    if now >= well + STILL {
                        return Ok(well - begin);
                    }
                }
                Err(why) if now > begin + SETTLE => {
                    return Err(format!("{SETTLE:?} after the last fault: {why}"));
                }
                Err(_) => since = None,
            }
            sleep(LOOK).await;
        }
    }

    /// What is wanted is in force, it carries the load, and the status says so.
    fn in_order(&self, rate: f64) -> Result<(), String> {
        for (about, begins) in [
            ("Accepted", "True Valid"),
            ("Planned", "True"),
            ("Actuated", "True InForce"),
            ("Degraded", "False AsExpected"),
        ] {
            let said = self.cluster.condition("demo", about);
            if !said.starts_with(begins) {
                return Err(format!("{about} is {said}"));
            }
        }
        let status = self.cluster.resource("demo")["status"].clone();
        let pods = self.cluster.server.kubelet().pods();
        let mut carried = 0.0;
        for (index, (name, slope)) in [("small", 20.0), ("large", 10.0)].into_iter().enumerate() {
            let planned = &status["plans"][0]["variants"][index];
            let begins = format!("{name}-");
            let own = pods.iter().filter(|pod| pod.key.name.starts_with(&begins));
            let cores: Vec<f64> = own.map(|pod| pod.cores()).collect();
            let sum: f64 = cores.iter().sum();
            if planned["cores"] != json!(sum) || planned["replicas"] != json!(cores.len()) {
                return Err(format!("{name} has {cores:?}, the status says {planned}"));
            }
            carried += cores.iter().map(|each| slope * each - 2.0).sum::<f64>();
        }
        if let Some(pod) = pods.iter().find(|pod| pod.cores() < pod.cores_at_most()) {
            return Err(format!("{} has less than it asks for", pod.key));
        }
        let demand = status["demandRps"].as_f64().unwrap_or_default();
        if carried < rate || (demand / rate / 1.1 - 1.0).abs() > 0.2 {
            return Err(format!("{carried} carried of {rate}, planned for {demand}"));
        }
        Ok(())
    }
}
