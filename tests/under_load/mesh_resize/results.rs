//! One run of load through the mesh, with everything needed to assess it: the outcome of each request, the
//! executions, and the kubelets' resizes meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_apiserver::{Actuation, What};
use weir_bed::emulator::Execution;
use weir_bed::fate::{Outcome, Summary};
use weir_bed::load::{self, Lag, Protocol, Rates, Schedule, Sender, Target};
use weir_bed::network::Network;

use super::mesh::{Mesh, SLO_MS, is_of};

/// Seed of the request times: random, but the same in every run.
const SEED: u64 = 11;
const SLO: Duration = Duration::from_millis(SLO_MS);
/// Time that a client waits for a late answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// Results of a run.
pub(crate) struct RunResults {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) lag: Lag,
    /// Executions by variant.
    pub(crate) executions: Vec<Vec<Execution>>,
    /// Resizes between the first request and the last answer, with their time since the start.
    pub(crate) resizes: Vec<(Duration, Actuation)>,
    /// Statuses of the answers to patches of `pods/resize`.
    pub(crate) patches: Vec<u16>,
    /// For each loss of cores below the running executions: their number, and the cores left.
    pub(crate) cut: Vec<(usize, f64)>,
    planner_cycles: String,
}

impl Mesh {
    /// Sends these rates in requests/s, one per second, whatever the outcomes.
    pub(crate) async fn run_load(&self, rates: Vec<f64>) -> RunResults {
        let network = Network::none();
        let schedule = Schedule::new(&Rates::new(rates).unwrap(), &network, 0, SEED).unwrap();
        let sender = Sender {
            slo: SLO,
            timeout: PATIENCE,
            body: "{}".into(),
            answer_bytes: 0,
            read_bytes_per_s: None,
            protocol: Protocol::Http1,
        };
        let target = Target {
            name: "mesh".to_owned(),
            url: self.url(),
            then: Vec::new(),
            headers: Vec::new(),
        };
        let (entry, begun) = (
            self.cluster.server.log().latest(),
            self.cluster.server.elapsed(),
        );
        let run = load::start(Arc::new(schedule), Arc::new(network), sender, vec![target]);
        let mut record = run.unwrap().finish().await.unwrap();
        let (mut resizes, mut patches) = (Vec::new(), Vec::new());
        for entry in self.cluster.server.log().after(entry) {
            match entry.what {
                What::Actuated(one) => resizes.push((entry.at.saturating_sub(begun), one)),
                What::Request(request) if request.resource == "pods/resize" => {
                    patches.push(request.status);
                }
                What::Request(_) => {}
            }
        }
        RunResults {
            outcomes: record.outcomes.remove(0),
            lag: record.lag,
            executions: self.servers.executions().await,
            resizes,
            patches,
            cut: self.servers.cut().await,
            planner_cycles: self.describe_cycles().await,
        }
    }
}

impl RunResults {
    /// Requests that were refused, late or lost.
    pub(crate) fn failed(&self) -> Vec<&Outcome> {
        let outcomes = self.outcomes.iter();
        outcomes.filter(|outcome| !outcome.on_time(SLO)).collect()
    }

    /// Requests not executed exactly once, with the number of executions.
    pub(crate) fn not_executed_once(&self) -> BTreeMap<&str, u32> {
        let sent = self.outcomes.iter().map(|outcome| (outcome.id.as_str(), 0));
        let mut counts: BTreeMap<&str, u32> = sent.collect();
        for execution in self.executions.iter().flatten() {
            *counts.entry(&execution.request_id).or_default() += 1;
        }
        counts.retain(|_, count| *count != 1);
        counts
    }

    /// Number of resizes that raised cores, and of those that lowered them.
    pub(crate) fn resized(&self) -> [usize; 2] {
        let up = self.resizes.iter().filter(|(_, one)| grows(one)).count();
        [up, self.resizes.len() - up]
    }

    /// Whether `giver` lost cores and `taker` gained some after that.
    pub(crate) fn moved_cores(&self, giver: &str, taker: &str) -> bool {
        let gives = |(_, one): &(Duration, Actuation)| is_of(giver, &one.pod) && !grows(one);
        let takes = |(_, one): &(Duration, Actuation)| is_of(taker, &one.pod) && grows(one);
        let given = self.resizes.iter().position(gives);
        given.is_some_and(|given| self.resizes[given..].iter().any(takes))
    }

    /// Executions that waited in a server because it had more requests than cores.
    pub(crate) fn waited(&self) -> Vec<&Execution> {
        let all = self.executions.iter().flatten();
        all.filter(|one| one.started_ms > one.arrived_ms).collect()
    }

    /// Summarizes the run in one line.
    pub(crate) fn summary(&self) -> String {
        let sum = Summary::of(&self.outcomes, SLO, |_| None).unwrap();
        let [up, down] = self.resized();
        format!(
            "{} requests, {} on time, {} late, refused {:?}, {} lost, {} gone; p50 {:.0} ms, p99 {:.0} ms; cores raised \
             {up} times, lowered {down} times; {} waited in a server, cut {:?}; the load was at most {:.0} ms behind",
            sum.sent,
            sum.on_time,
            sum.late,
            sum.refused,
            sum.lost,
            sum.disconnected,
            sum.p50_ms.unwrap_or_default(),
            sum.p99_ms.unwrap_or_default(),
            self.waited().len(),
            self.cut,
            self.lag.max_ms,
        )
    }

    /// Details of the run, for a failed test.
    pub(crate) fn details(&self) -> String {
        let mut text = format!("{}\n{}", self.summary(), self.planner_cycles);
        for (at, one) in &self.resizes {
            let (before, after) = (one.before.cores(), one.after.cores());
            text += &format!("{at:?} {}: {before} to {after} cores\n", one.pod.name);
        }
        for outcome in self.failed().into_iter().take(20) {
            text += &format!("{outcome:?}\n");
        }
        for one in self.waited().into_iter().take(20) {
            text += &format!("waited {:.1}: {one:?}\n", one.started_ms - one.arrived_ms);
        }
        text
    }
}

fn grows(one: &Actuation) -> bool {
    one.after.cores() > one.before.cores()
}
