//! The servers as the bounds see them: for each variant so many slots, each so fast, from so long on.
//! Made of a scenario and the cores a contender had; nothing here runs anything.

use std::time::Duration;

use weir_model::server::SERVICE_MAX;

use crate::replay::request::Play;
use crate::replay::scenario::{FaultKind, Scenario, Server};

/// All variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Servers {
    /// In no particular order.
    pub variants: Vec<Lanes>,
    /// Whether service times vary at random around those here.
    pub noisy: bool,
    /// Whether cores are known only at the ends of seconds between which they may have changed twice.
    pub coarse: bool,
}

/// One variant over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Lanes {
    /// Percent.
    pub accuracy: f64,
    /// In the order of time; before the first it serves nothing, the last lasts for ever.
    pub steps: Vec<Step>,
}

/// What a variant can do from a time on. An execution that has begun goes on as it began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Since when.
    pub from: Duration,
    /// Executions at once.
    pub slots: u32,
    /// Requests in a full batch.
    pub batch: u32,
    /// Execution of a single request.
    pub single: Duration,
    /// Execution of a full batch.
    pub full: Duration,
}

impl Servers {
    /// The servers with the cores that a contender had. Within each second a variant counts as having
    /// the greater of its cores at the beginning and at the end.
    #[must_use]
    pub fn played(scenario: &Scenario, play: &Play) -> Servers {
        let accuracies = scenario.service.variants.iter().map(|known| known.accuracy);
        let variants = scenario.variants.iter().zip(accuracies).enumerate();
        let lanes = |(index, (server, accuracy)): (usize, (&Server, f64))| {
            let speed = fastest_factor(scenario, index);
            let mut steps: Vec<Step> = Vec::new();
            let mut before = server.cores;
            for (second, state) in play.seconds.iter().enumerate() {
                let after = state.cores_actuated.get(index).copied().unwrap_or(before);
                let from = Duration::from_secs(second as u64);
                push(&mut steps, step(server, from, before.max(after), speed));
                before = after;
            }
            let from = Duration::from_secs(play.seconds.len() as u64);
            push(&mut steps, step(server, from, before, speed));
            Lanes { accuracy, steps }
        };
        let variants: Vec<Lanes> = variants.map(lanes).collect();
        let moving = variants.iter().any(|lanes| lanes.steps.len() > 1);
        Servers {
            variants,
            noisy: scenario
                .variants
                .iter()
                .any(|server| server.noise_sigma > 0.0),
            coarse: moving && scenario.service.cycle < Duration::from_secs(1),
        }
    }

    /// The servers with the cores of the scenario's start.
    #[must_use]
    pub fn at_start(scenario: &Scenario) -> Servers {
        let still = Play {
            contender: String::new(),
            outcomes: Vec::new(),
            seconds: Vec::new(),
            core_seconds: 0.0,
            plans: 0,
            events: 0,
        };
        Servers::played(scenario, &still)
    }

    /// The shortest that an answer of at least that accuracy ever takes.
    #[must_use]
    pub fn fastest(&self, min_accuracy: f64) -> Option<Duration> {
        let allowed = self
            .variants
            .iter()
            .filter(|lanes| lanes.accuracy >= min_accuracy);
        let working = allowed
            .flat_map(|lanes| &lanes.steps)
            .filter(|step| step.slots > 0);
        working.map(|step| step.single).min()
    }

    /// Slots and service time where all slots are alike at all times.
    pub(super) fn alike(&self) -> Result<(u32, Duration), &'static str> {
        if self.blur().is_some() {
            return Err("service times or cores are not known exactly");
        }
        let [variant] = self.variants.as_slice() else {
            return Err("the variants differ");
        };
        let [step] = variant.steps.as_slice() else {
            return Err("the cores change");
        };
        if step.batch > 1 {
            return Err("requests share batches");
        }
        if step.from > Duration::ZERO {
            return Err("the server comes later");
        }
        Ok((step.slots, step.single))
    }

    /// What makes a bound an estimate.
    pub(super) fn blur(&self) -> Option<&'static str> {
        match (self.noisy, self.coarse) {
            (true, _) => {
                Some("for mean service times: the seed's noise may allow a little more or less")
            }
            (false, true) => Some(
                "cores are known by the second, and the planner may change them more often than that",
            ),
            (false, false) => None,
        }
    }
}

impl Step {
    /// Requests per second with full batches: by the law a fuller batch takes less time for each.
    #[must_use]
    pub fn rate_rps(&self) -> f64 {
        let requests = f64::from(self.slots) * f64::from(self.batch);
        // A law of all zeros is as fast as a clock of whole nanoseconds can tell.
        requests / self.full.max(Duration::from_nanos(1)).as_secs_f64()
    }
}

fn step(server: &Server, from: Duration, cores: f64, factor: f64) -> Step {
    let slots = server.parallelism.at_once(cores);
    let each = server.parallelism.cores_each(cores);
    // As the model server computes it, to the nanosecond.
    let service = |batch| {
        let ms = server.law.service_ms(batch, each) * factor;
        Duration::from_secs_f64((ms / 1e3).min(SERVICE_MAX.as_secs_f64()))
    };
    let idle = slots == 0;
    Step {
        from,
        slots,
        batch: server.batch_max.max(1),
        single: if idle { SERVICE_MAX } else { service(1) },
        full: if idle {
            SERVICE_MAX
        } else {
            service(server.batch_max.max(1))
        },
    }
}

/// Adds a step unless nothing changes with it.
fn push(steps: &mut Vec<Step>, step: Step) {
    let same = |last: &Step| {
        Step {
            from: step.from,
            ..*last
        } == step
    };
    if !steps.last().is_some_and(same) {
        steps.push(step);
    }
}

/// 1, or less where a fault makes the variant faster.
fn fastest_factor(scenario: &Scenario, index: usize) -> f64 {
    let factors = scenario.faults.iter().filter_map(|fault| match fault.what {
        FaultKind::ServerSlow {
            variant, percent, ..
        } if variant == index => Some(f64::from(percent) / 100.0),
        _ => None,
    });
    factors.fold(1.0, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::report::tests::{play, scenario};
    use crate::replay::request::Second;
    use crate::replay::scenario::Fault;

    fn slots(lanes: &Lanes) -> Vec<(u64, u32)> {
        let step = |step: &Step| (step.from.as_secs(), step.slots);
        lanes.steps.iter().map(step).collect()
    }

    #[test]
    fn a_second_counts_with_the_most_cores_at_its_ends() {
        let second = |a, b| Second {
            cores_actuated: vec![a, b],
            ..Second::default()
        };
        let seconds = vec![
            second(4.0, 2.0),
            second(1.0, 2.0),
            second(1.0, 0.0),
            second(3.0, 0.0),
        ];
        let servers = Servers::played(&scenario(4), &play("weir", Vec::new(), seconds));
        let [a, b] = servers.variants.as_slice() else {
            panic!("two variants");
        };
        assert_eq!(slots(a), [(0, 4), (2, 1), (3, 3)]);
        assert_eq!(slots(b), [(0, 2), (3, 0)]);
        assert_eq!((a.accuracy, b.accuracy), (70.0, 80.0));
        let of_a = Duration::from_millis(40);
        assert!(
            a.steps
                .iter()
                .all(|step| step.single == of_a && step.full == of_a)
        );
        assert_eq!(
            (servers.fastest(0.0), servers.fastest(75.0)),
            (Some(of_a), Some(of_a * 2))
        );
        assert_eq!((servers.fastest(81.0), servers.blur()), (None, None));
    }

    #[test]
    fn what_is_not_known_is_said() {
        let mut scenario = scenario(1);
        let slow = |variant, percent| Fault {
            at: Duration::ZERO,
            what: FaultKind::ServerSlow {
                variant,
                percent,
                lasts: Duration::from_secs(1),
            },
        };
        scenario.faults = vec![slow(0, 300), slow(1, 50)];
        let servers = Servers::at_start(&scenario);
        // Slower is no reason to expect less of somebody who could avoid it; faster is one to expect more.
        let both = Some(Duration::from_millis(40));
        assert_eq!((servers.fastest(0.0), servers.fastest(80.0)), (both, both));
        scenario.variants[1].noise_sigma = 0.1;
        assert!(
            Servers::at_start(&scenario)
                .blur()
                .unwrap()
                .contains("mean service times")
        );
        scenario.variants[1].noise_sigma = 0.0;
        scenario.service.cycle = Duration::from_millis(500);
        assert_eq!(Servers::at_start(&scenario).blur(), None, "the cores stay");
        let moved = vec![
            Second {
                cores_actuated: vec![5.0, 2.0],
                ..Second::default()
            };
            2
        ];
        let servers = Servers::played(&scenario, &play("weir", Vec::new(), moved));
        assert_eq!(
            servers.blur(),
            None,
            "they had moved within the first second"
        );
        let moved = vec![
            Second::default(),
            Second {
                cores_actuated: vec![5.0, 2.0],
                ..Second::default()
            },
        ];
        let servers = Servers::played(&scenario, &play("weir", Vec::new(), moved));
        assert!(servers.blur().unwrap().contains("by the second"));
    }
}
