//! Schedules generated from seeds; pure.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use weir_apiserver::{Fault, Rule, Verb};

/// Failure of the leader.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum LeaderFailure {
    /// The leader is killed. Another process may start after `again`, perhaps with the same name.
    Kill {
        again: Option<Duration>,
        same_name: bool,
    },
    /// The leader cannot reach the API server, for `lasts` or for good.
    CutOff {
        /// Whether requests hang; otherwise their connections are closed.
        hangs: bool,
        lasts: Option<Duration>,
    },
}

/// Edit of the resource while it is planned for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Edit {
    /// A valid edit, which starts the controller anew.
    Valid,
    /// An edit that is refused: the generation before it acts on. It is taken back after this time.
    Refused(Duration),
    /// A refused edit that says mode advisory, taken back after this time.
    RefusedAdvisory(Duration),
}

/// Time in which no planner can renew the Lease: the leader may act no more, and leads again afterwards.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reelection {
    pub(crate) from: Duration,
    pub(crate) lasts: Duration,
}

/// Time of the leader's failure.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FailureTime {
    /// Time since the start.
    After(Duration),
    /// `then` after the first resize accepted after `from`.
    InResize { from: Duration, then: Duration },
}

/// Longest time after which a patch takes effect that was sent.
const OVERDUE_MAX_MS: u64 = 5_000;

/// Everything that happens in a run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) planners: usize,
    /// Whether the replicas of one variant change too.
    pub(crate) replicated: bool,
    /// Whether the pods' resources limit their number to [`PODS`](super::run::PODS).
    pub(crate) pods_bounded: bool,
    pub(crate) cycle: Duration,
    pub(crate) resize_timeout: Duration,
    /// Delay of the kubelets' resizes.
    pub(crate) actuated_after: Duration,
    pub(crate) starts_after: Duration,
    pub(crate) ready_after: Duration,
    pub(crate) exits_after: Duration,
    /// Whether nodes have no free cores from shortly before the leader's failure until shortly after it.
    pub(crate) full: bool,
    /// Whether pods are replaced then, because their nodes can never fit the resize.
    pub(crate) replaces: bool,
    /// Load in requests/s and its duration; the last load stays.
    pub(crate) loads: Vec<(Duration, f64)>,
    pub(crate) failure_time: FailureTime,
    pub(crate) leader_failure: LeaderFailure,
    /// Start of the faults.
    pub(crate) faults_from: Duration,
    pub(crate) faults: Vec<Rule>,
    /// End of the faults, after the leader's failure.
    pub(crate) faults_last: Duration,
    /// Faults of requests for the Lease.
    pub(crate) lease_faults: Vec<Rule>,
    pub(crate) lease_faults_last: Duration,
    /// Edits of the resource, each at its time since the start; all before the end of the faults.
    pub(crate) edits: Vec<(Duration, Edit)>,
    /// Loss of the leadership that the same process may regain, before the leader's failure.
    pub(crate) reelection: Option<Reelection>,
    /// Interval at which all watches are closed during the faults.
    pub(crate) watches_end_every: Option<Duration>,
}

struct Random(ChaCha8Rng);

impl Random {
    fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(self.0.random_range(from..=to))
    }

    fn chance(&mut self, probability: f64) -> bool {
        self.0.random_bool(probability)
    }

    fn fault(&mut self) -> Fault {
        match self.0.random_range(0..6) {
            0 => Fault::Slow(self.ms(50, 600)),
            1 => Fault::Late(self.ms(50, 600)),
            2 => Fault::Error(503),
            3 => Fault::TooMany(1),
            4 => Fault::HangUp,
            _ => Fault::LoseAnswer,
        }
    }

    /// Generates up to `most` faults for the requests selected by `of`, each with a probability below
    /// `max`.
    fn rules(&mut self, most: u32, max: f64, of: impl Fn(Rule) -> Rule) -> Vec<Rule> {
        let count = self.0.random_range(0..=most);
        let rule = |_| {
            let fault = self.fault();
            let probability = self.0.random_range(0.02..max);
            of(Rule::always(fault)).probability(probability)
        };
        (0..count).map(rule).collect()
    }
}

impl Schedule {
    pub(crate) fn of(seed: u64) -> Schedule {
        let mut random = Random(ChaCha8Rng::seed_from_u64(seed));
        let cycle = [300, 500, 1_000][random.0.random_range(0..3)];
        let mut faults = Vec::new();
        for (resource, max) in [
            ("pods/resize", 0.3),
            ("deployments/scale", 0.3),
            ("sloservices/status", 0.3),
            ("sloservices", 0.2),
        ] {
            let of = |rule: Rule| rule.verbs(&[Verb::Patch]).resource(resource);
            faults.extend(random.rules(3, max, of));
        }
        // The Lease is left out: it has its own faults, with a longer takeover limit.
        for resource in ["pods", "deployments", "sloservices"] {
            faults.extend(random.rules(1, 0.1, |rule| {
                let reads = [Verb::Get, Verb::List, Verb::Watch];
                rule.verbs(&reads).resource(resource)
            }));
        }
        if random.chance(0.4) {
            faults.push(Rule::always(Fault::LagWatch(random.ms(20, 800))).probability(0.7));
        }
        if random.chance(0.3) {
            let few = random.0.random_range(0..20);
            faults.push(Rule::always(Fault::CloseWatch(few)).probability(0.5));
        }
        // A patch that takes effect late, whatever has become of its sender.
        for resource in ["pods/resize", "deployments/scale"] {
            if random.chance(0.5) {
                let rule = Rule::always(Fault::Overdue(random.ms(300, OVERDUE_MAX_MS)));
                let rule = rule.verbs(&[Verb::Patch]).resource(resource);
                faults.push(rule.probability(random.0.random_range(0.02..0.3)));
            }
        }
        // Lists that are forbidden for a while; closed watches list anew.
        for resource in [
            "horizontalpodautoscalers",
            "poddisruptionbudgets",
            "pods",
            "deployments",
        ] {
            if random.chance(0.15) {
                let rule = Rule::always(Fault::Forbidden).verbs(&[Verb::List, Verb::Watch]);
                let rule = rule.resource(resource);
                faults.push(rule.probability(random.0.random_range(0.3..1.0)));
            }
        }
        let lease_faults = match random.chance(0.5) {
            true => random.rules(3, 0.4, |rule| rule.resource("leases")),
            false => Vec::new(),
        };
        let failure_from = random.ms(3_000, 9_000);
        let failure_time = match random.chance(0.7) {
            true => FailureTime::InResize {
                from: failure_from,
                then: random.ms(0, 300),
            },
            false => FailureTime::After(failure_from),
        };
        let leader_failure = match random.chance(0.5) {
            true => LeaderFailure::Kill {
                again: random.chance(0.5).then(|| random.ms(500, 20_000)),
                same_name: random.chance(0.5),
            },
            false => LeaderFailure::CutOff {
                hangs: random.chance(0.5),
                lasts: random.chance(0.7).then(|| random.ms(500, 25_000)),
            },
        };
        let mut edits = Vec::new();
        for _ in 0..random.0.random_range(0..4) {
            let edit = match random.0.random_range(0..4) {
                0 => Edit::Refused(random.ms(300, 4_000)),
                1 => Edit::RefusedAdvisory(random.ms(300, 4_000)),
                _ => Edit::Valid,
            };
            edits.push((random.ms(2_000, 16_000), edit));
        }
        edits.sort_by_key(|(at, _)| *at);
        let reelection = random.chance(0.3).then(|| Reelection {
            from: random.ms(1_000, 6_000),
            lasts: random.ms(5_000, 9_000),
        });
        let mut loads = Vec::new();
        for _ in 0..12 {
            loads.push((random.ms(800, 3_500), random.0.random_range(2.0..70.0)));
        }
        let replicated = random.chance(0.5);
        let replaces = replicated && seed.is_multiple_of(2);
        // Away from the thresholds where noise in the demand would change the number of cores.
        let high = if replicated { 60.0 } else { 45.0 };
        loads.push((
            random.ms(1_000, 2_000),
            [20.0, high][random.0.random_range(0..2)],
        ));
        Schedule {
            seed,
            planners: random.0.random_range(2..=3),
            replicated,
            pods_bounded: replicated && seed.is_multiple_of(3),
            cycle: Duration::from_millis(cycle),
            resize_timeout: random.ms(150, cycle - 50),
            actuated_after: random.ms(20, 1_500),
            starts_after: random.ms(20, 1_500),
            ready_after: random.ms(20, 1_500),
            exits_after: random.ms(10, 1_000),
            full: random.chance(0.2) || replaces,
            replaces,
            loads,
            failure_time,
            leader_failure,
            faults_from: random.ms(0, 6_000),
            faults,
            faults_last: random.ms(2_000, 18_000),
            lease_faults,
            lease_faults_last: random.ms(0, 8_000),
            edits,
            reelection,
            watches_end_every: random.chance(0.3).then(|| random.ms(500, 5_000)),
        }
    }
}
