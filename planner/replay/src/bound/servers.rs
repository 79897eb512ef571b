//! The servers as the bounds see them: for each variant so many slots, each so fast, from so long on.
//! Made of a scenario and the cores a contender had; nothing here runs anything.

use std::time::Duration;

use weir_sim::server::SERVICE_MAX;

use crate::request::{Play, Resize};
use crate::scenario::{FaultKind, Scenario, Server};

/// All variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Servers {
    /// In no particular order.
    pub variants: Vec<Lanes>,
    /// Whether service times vary at random around those here.
    pub noisy: bool,
}

/// One variant over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Lanes {
    /// Percent.
    pub accuracy: f64,
    /// From the proxy to it, and from it to the proxy.
    pub hop: Duration,
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
    /// The servers with the cores that a contender had, at each moment.
    #[must_use]
    pub fn played(scenario: &Scenario, play: &Play) -> Servers {
        Servers::with(scenario, &play.resizes)
    }

    /// The servers with the cores of the scenario's start.
    #[must_use]
    pub fn at_start(scenario: &Scenario) -> Servers {
        Servers::with(scenario, &[])
    }

    fn with(scenario: &Scenario, resizes: &[Resize]) -> Servers {
        let accuracies = scenario.service.variants.iter().map(|known| known.accuracy);
        let variants = scenario.variants.iter().zip(accuracies).enumerate();
        let lanes = |(index, (server, accuracy)): (usize, (&Server, f64))| {
            let speed = fastest_factor(scenario, index);
            let mut steps = vec![step(server, Duration::ZERO, server.cores, speed)];
            for resize in resizes.iter().filter(|r| usize::from(r.variant) == index) {
                push(&mut steps, step(server, resize.at, resize.cores, speed));
            }
            Lanes {
                accuracy,
                hop: server.hop(),
                steps,
            }
        };
        Servers {
            variants: variants.map(lanes).collect(),
            noisy: scenario
                .variants
                .iter()
                .any(|server| server.noise_sigma > 0.0),
        }
    }

    /// The shortest that an answer of at least that accuracy ever takes, hops included.
    #[must_use]
    pub fn fastest(&self, min_accuracy: f64) -> Option<Duration> {
        let times = self.able(min_accuracy).flat_map(|lanes| {
            let working = lanes.steps.iter().filter(|step| step.slots > 0);
            working.map(|step| step.single + lanes.hop * 2)
        });
        times.min()
    }

    /// The shortest way to a server that gives at least that accuracy.
    pub(super) fn shortest_hop(&self, min_accuracy: f64) -> Duration {
        let hops = self.able(min_accuracy).map(|lanes| lanes.hop);
        hops.min().unwrap_or_default()
    }

    fn able(&self, min_accuracy: f64) -> impl Iterator<Item = &Lanes> {
        let able = move |lanes: &&Lanes| lanes.accuracy >= min_accuracy;
        self.variants.iter().filter(able)
    }

    /// Slots and service time where all slots are alike at all times.
    pub(super) fn alike(&self) -> Result<(u32, Duration), &'static str> {
        if self.blur().is_some() {
            return Err("service times are not known exactly");
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
        const NOISE: &str =
            "for mean service times: the seed's noise may allow a little more or less";
        self.noisy.then_some(NOISE)
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
    use crate::report::tests::{play, scenario};
    use crate::scenario::Fault;

    fn slots(lanes: &Lanes) -> Vec<(u64, u32)> {
        let step = |step: &Step| (step.from.as_millis() as u64, step.slots);
        lanes.steps.iter().map(step).collect()
    }

    fn resized(resizes: &[(u64, u16, f64)]) -> Play {
        let resize = |(at_ms, variant, cores): &(u64, u16, f64)| Resize {
            at: Duration::from_millis(*at_ms),
            variant: *variant,
            cores: *cores,
        };
        Play {
            resizes: resizes.iter().map(resize).collect(),
            ..play("weir", Vec::new(), Vec::new())
        }
    }

    #[test]
    fn cores_count_from_the_moment_they_are_in_force() {
        let play = resized(&[
            (100, 0, 9.0),
            (400, 0, 1.0),
            (400, 1, 2.0),
            (900, 1, 0.0),
            (900, 0, 1.2),
            (5000, 0, 3.0),
        ]);
        let mut scenario = scenario(4);
        scenario.variants[1].round_trip = Duration::from_millis(10);
        let servers = Servers::played(&scenario, &play);
        let [a, b] = servers.variants.as_slice() else {
            panic!("two variants");
        };
        // What comes after the scenario's length too: the last requests may still be under way.
        assert_eq!(slots(a), [(0, 4), (100, 9), (400, 1), (5000, 3)]);
        assert_eq!(slots(b), [(0, 2), (900, 0)]);
        assert_eq!((a.accuracy, b.accuracy), (70.0, 80.0));
        let of_a = Duration::from_millis(40);
        assert!(
            a.steps
                .iter()
                .all(|step| step.single == of_a && step.full == of_a)
        );
        let of_b = Duration::from_millis(80 + 10);
        assert_eq!(
            (servers.fastest(0.0), servers.fastest(75.0)),
            (Some(of_a), Some(of_b))
        );
        let hops = [0.0, 75.0, 81.0].map(|accuracy| servers.shortest_hop(accuracy));
        assert_eq!(hops.map(|hop| hop.as_millis()), [0, 5, 0]);
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
        scenario.service.cycle = Duration::from_millis(500);
        let moving = Servers::played(&scenario, &resized(&[(100, 0, 5.0), (600, 0, 4.0)]));
        assert_eq!(moving.blur(), None, "however often cores change");
        scenario.variants[1].noise_sigma = 0.1;
        let noisy = Servers::at_start(&scenario).blur();
        assert!(noisy.unwrap().contains("mean service times"));
    }
}
