//! A seed → all that a schedule does: pure.

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use weir_apiserver::{Fault, Rule, Verb};

/// What befalls the leader.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Blow {
    /// It is killed; perhaps another process begins so long after, perhaps under its name.
    Kill {
        again: Option<Duration>,
        same_name: bool,
    },
    /// It does not reach the API server, perhaps for so long only.
    CutOff {
        /// Requests find nobody, or hang.
        hangs: bool,
        lasts: Option<Duration>,
    },
}

/// When it does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Moment {
    /// So long after the beginning.
    After(Duration),
    /// So long after a resize that is taken after that.
    InResize { from: Duration, then: Duration },
}

/// All that a schedule does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) planners: usize,
    /// Whether one variant is changed by replicas too.
    pub(crate) replicated: bool,
    /// Whether what each pod holds lets there be no more than [`PODS`](super::play::PODS).
    pub(crate) bound: bool,
    pub(crate) cycle: Duration,
    pub(crate) resize_timeout: Duration,
    /// The kubelets'.
    pub(crate) actuated_after: Duration,
    pub(crate) starts_after: Duration,
    pub(crate) ready_after: Duration,
    pub(crate) exits_after: Duration,
    /// Whether nodes have no room from shortly before the blow until shortly after it.
    pub(crate) full: bool,
    /// Whether pods are replaced then: their nodes never have it.
    pub(crate) replaces: bool,
    /// Requests/s, each for so long; the last one for good.
    pub(crate) loads: Vec<(Duration, f64)>,
    pub(crate) moment: Moment,
    pub(crate) blow: Blow,
    /// From when on requests fail.
    pub(crate) faults_from: Duration,
    pub(crate) faults: Vec<Rule>,
    /// How long after the blow they do.
    pub(crate) faults_last: Duration,
    /// The same of those about the Lease.
    pub(crate) lease_faults: Vec<Rule>,
    pub(crate) lease_faults_last: Duration,
    /// How often all watches are ended while requests fail.
    pub(crate) watches_end_every: Option<Duration>,
}

struct Dice(ChaCha8Rng);

impl Dice {
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

    /// Up to `most` faults of those requests, each as likely as `greatest` at most.
    fn rules(&mut self, most: u32, greatest: f64, of: impl Fn(Rule) -> Rule) -> Vec<Rule> {
        let count = self.0.random_range(0..=most);
        let rule = |_| {
            let fault = self.fault();
            let probability = self.0.random_range(0.02..greatest);
            of(Rule::always(fault)).probability(probability)
        };
        (0..count).map(rule).collect()
    }
}

impl Schedule {
    pub(crate) fn of(seed: u64) -> Schedule {
        let mut dice = Dice(ChaCha8Rng::seed_from_u64(seed));
        let cycle = [300, 500, 1_000][dice.0.random_range(0..3)];
        let mut faults = Vec::new();
        for (resource, greatest) in [
            ("pods/resize", 0.3),
            ("deployments/scale", 0.3),
            ("sloservices/status", 0.3),
            ("sloservices", 0.2),
        ] {
            let of = |rule: Rule| rule.verbs(&[Verb::Patch]).resource(resource);
            faults.extend(dice.rules(3, greatest, of));
        }
        // Not the Lease: it has faults of its own, for which more time is left.
        for resource in ["pods", "deployments", "sloservices"] {
            faults.extend(dice.rules(1, 0.1, |rule| {
                let reads = [Verb::Get, Verb::List, Verb::Watch];
                rule.verbs(&reads).resource(resource)
            }));
        }
        if dice.chance(0.4) {
            faults.push(Rule::always(Fault::LagWatch(dice.ms(20, 800))).probability(0.7));
        }
        if dice.chance(0.3) {
            let few = dice.0.random_range(0..20);
            faults.push(Rule::always(Fault::CloseWatch(few)).probability(0.5));
        }
        let lease_faults = match dice.chance(0.5) {
            true => dice.rules(3, 0.4, |rule| rule.resource("leases")),
            false => Vec::new(),
        };
        let blow_from = dice.ms(3_000, 9_000);
        let moment = match dice.chance(0.7) {
            true => Moment::InResize {
                from: blow_from,
                then: dice.ms(0, 300),
            },
            false => Moment::After(blow_from),
        };
        let blow = match dice.chance(0.5) {
            true => Blow::Kill {
                again: dice.chance(0.5).then(|| dice.ms(500, 20_000)),
                same_name: dice.chance(0.5),
            },
            false => Blow::CutOff {
                hangs: dice.chance(0.5),
                lasts: dice.chance(0.7).then(|| dice.ms(500, 25_000)),
            },
        };
        let mut loads = Vec::new();
        for _ in 0..12 {
            loads.push((dice.ms(800, 3_500), dice.0.random_range(2.0..70.0)));
        }
        let replicated = dice.chance(0.5);
        let replaces = replicated && seed.is_multiple_of(2);
        // Far from where noise in the demand would want another number of cores.
        let high = if replicated { 60.0 } else { 45.0 };
        loads.push((
            dice.ms(1_000, 2_000),
            [20.0, high][dice.0.random_range(0..2)],
        ));
        Schedule {
            seed,
            planners: dice.0.random_range(2..=3),
            replicated,
            bound: replicated && seed.is_multiple_of(3),
            cycle: Duration::from_millis(cycle),
            resize_timeout: dice.ms(150, cycle - 50),
            actuated_after: dice.ms(20, 1_500),
            starts_after: dice.ms(20, 1_500),
            ready_after: dice.ms(20, 1_500),
            exits_after: dice.ms(10, 1_000),
            full: dice.chance(0.2) || replaces,
            replaces,
            loads,
            moment,
            blow,
            faults_from: dice.ms(0, 6_000),
            faults,
            faults_last: dice.ms(2_000, 18_000),
            lease_faults,
            lease_faults_last: dice.ms(0, 8_000),
            watches_end_every: dice.chance(0.3).then(|| dice.ms(500, 5_000)),
        }
    }
}
