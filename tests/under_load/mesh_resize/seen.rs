//! One run of load through the mesh, and all that is to be judged of it: what became of each request, where it was
//! executed, what kubelets have done to the pods meanwhile.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weir_apiserver::{Actuation, What};
use weir_bed::emulator::Execution;
use weir_bed::fate::{Outcome, Summary};
use weir_bed::load::{self, Lag, Protocol, Rates, Schedule, Sender, Target};
use weir_bed::network::Network;

use super::mesh::{Mesh, SLO_MS, is_of};

/// Requests come by chance, but the same in every run.
const SEED: u64 = 11;
const SLO: Duration = Duration::from_millis(SLO_MS);
/// How long a client waits for an answer that is late already.
const PATIENCE: Duration = Duration::from_secs(10);

/// What was seen of a run.
pub(crate) struct Seen {
    pub(crate) outcomes: Vec<Outcome>,
    pub(crate) lag: Lag,
    /// By variant.
    pub(crate) executions: Vec<Vec<Execution>>,
    /// From the first request to the last answer, since its start.
    pub(crate) resizes: Vec<(Duration, Actuation)>,
    /// Patches of `pods/resize`, and how they were answered.
    pub(crate) patches: Vec<u16>,
    /// Requests that were executed where cores went, and the cores that were left, where those were fewer.
    pub(crate) cut: Vec<(usize, f64)>,
    told: String,
}

impl Mesh {
    /// Sends so many requests/s, second by second, whatever becomes of them.
    pub(crate) async fn play(&self, rates: Vec<f64>) -> Seen {
        let network = Network::none();
        let schedule = Schedule::new(&Rates::new(rates).unwrap(), &network, 0, SEED).unwrap();
        let sender = Sender {
            slo: SLO,
            patience: PATIENCE,
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
                What::Request(asked) if asked.resource == "pods/resize" => {
                    patches.push(asked.status);
                }
                What::Request(_) => {}
            }
        }
        Seen {
            outcomes: record.outcomes.remove(0),
            lag: record.lag,
            executions: self.servers.executions().await,
            resizes,
            patches,
            cut: self.servers.cut().await,
            told: self.told().await,
        }
    }
}

impl Seen {
    /// Requests that were refused, late or lost.
    pub(crate) fn unwell(&self) -> Vec<&Outcome> {
        let outcomes = self.outcomes.iter();
        outcomes.filter(|outcome| !outcome.on_time(SLO)).collect()
    }

    /// Requests that were not executed exactly once, and how often they were.
    pub(crate) fn miscounted(&self) -> BTreeMap<&str, u32> {
        let sent = self.outcomes.iter().map(|outcome| (outcome.id.as_str(), 0));
        let mut counts: BTreeMap<&str, u32> = sent.collect();
        for execution in self.executions.iter().flatten() {
            *counts.entry(&execution.request_id).or_default() += 1;
        }
        counts.retain(|_, count| *count != 1);
        counts
    }

    /// How often cores were raised, and how often lowered.
    pub(crate) fn resized(&self) -> [usize; 2] {
        let up = self.resizes.iter().filter(|(_, one)| grows(one)).count();
        [up, self.resizes.len() - up]
    }

    /// Whether one variant gave cores up and the other had more after that.
    pub(crate) fn gave(&self, giver: &str, taker: &str) -> bool {
        let gives = |(_, one): &(Duration, Actuation)| is_of(giver, &one.pod) && !grows(one);
        let takes = |(_, one): &(Duration, Actuation)| is_of(taker, &one.pod) && grows(one);
        let given = self.resizes.iter().position(gives);
        given.is_some_and(|given| self.resizes[given..].iter().any(takes))
    }

    /// Executions that waited in a variant's server, because it had more than its cores execute at once.
    pub(crate) fn waited(&self) -> Vec<&Execution> {
        let all = self.executions.iter().flatten();
        all.filter(|one| one.started_ms > one.arrived_ms).collect()
    }

    /// The figures.
    pub(crate) fn sum(&self) -> String {
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
            sum.gone,
            sum.p50_ms.unwrap_or_default(),
            sum.p99_ms.unwrap_or_default(),
            self.waited().len(),
            self.cut,
            self.lag.max_ms,
        )
    }

    /// All of it, for a story that went wrong.
    pub(crate) fn told(&self) -> String {
        let mut text = format!("{}\n{}", self.sum(), self.told);
        for (at, one) in &self.resizes {
            let (before, after) = (one.before.cores(), one.after.cores());
            text += &format!("{at:?} {}: {before} to {after} cores\n", one.pod.name);
        }
        for outcome in self.unwell().into_iter().take(20) {
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
