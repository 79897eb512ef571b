//! Checks of a run: the time until another planner led, and the state after the last fault.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;
use weir_apiserver::Entry;

use super::{CONVERGE_MAX, Run, STABLE_FOR, STEP, TAKEOVER_MAX};
use crate::invariants;
use crate::schedule::LeaderFailure;

impl Run<'_> {
    /// Time from the leader's failure until another planner, or the same one again, held the Lease.
    pub(super) fn takeover(&self, log: &[Entry]) -> Result<Option<Duration>, String> {
        let (Some(failed_at), Some(failed_leader)) = (self.failed_at, self.failed_leader) else {
            return Ok(None);
        };
        let lease_faults = match self.schedule.lease_faults.is_empty() {
            true => Duration::ZERO,
            false => self.schedule.lease_faults_last,
        };
        let most = lease_faults + TAKEOVER_MAX;
        // A planner that was cut off only for a while may keep its leadership.
        let back = self.restored_after().filter(|wait| *wait < most);
        let goes_on =
            matches!(self.schedule.leader_failure, LeaderFailure::CutOff { .. }) && back.is_some();
        let without = match goes_on {
            true => Vec::new(),
            false => vec![self.planners.processes[failed_leader].subject.clone()],
        };
        let took = invariants::takeover(log, failed_at, &without);
        match took {
            Some(took) if took <= most => Ok((!goes_on && lease_faults.is_zero()).then_some(took)),
            Some(took) => Err(format!(
                "another planner led only after {took:?}, not {most:?}"
            )),
            None => Err("no planner led again".to_owned()),
        }
    }

    pub(super) async fn converge(&self) -> Result<Duration, String> {
        let rate = self.schedule.loads.last().map_or(0.0, |(_, rate)| *rate);
        self.cluster.proxy.load(rate);
        let begin = self.now();
        let mut since: Option<Duration> = None;
        loop {
            let now = self.now();
            match self.check_state(rate) {
                Ok(()) => {
                    let well = *since.get_or_insert(now);
                    if now >= well + STABLE_FOR {
                        return Ok(well - begin);
                    }
                }
                Err(why) if now > begin + CONVERGE_MAX => {
                    return Err(format!("{CONVERGE_MAX:?} after the last fault: {why}"));
                }
                Err(_) => since = None,
            }
            sleep(STEP).await;
        }
    }

    /// Checks that the target is actual, carries the load, and is reported in the status.
    fn check_state(&self, rate: f64) -> Result<(), String> {
        for (about, begins) in [
            ("Accepted", "True Valid"),
            ("Planned", "True"),
            ("Actuated", "True InForce"),
            ("Degraded", "False AsExpected"),
        ] {
            let condition = self.cluster.condition("demo", about);
            if !condition.starts_with(begins) {
                return Err(format!("{about} is {condition}"));
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
