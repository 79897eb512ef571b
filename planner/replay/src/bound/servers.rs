//! Servers as the bounds see them: slots and speed of each variant over time, derived from a scenario
//! and the cores that a contender had. Nothing is executed.

use std::ops::Range;
use std::time::Duration;

use weir_sim::server::{SERVICE_MAX, service_time};

use crate::request::{Play, Resize};
use crate::scenario::{FaultKind, Scenario, Server};

/// All variants.
#[derive(Debug, Clone, PartialEq)]
pub struct Servers {
    /// Variants, in no particular order.
    pub variants: Vec<Lanes>,
    /// Whether service times vary randomly around those given.
    pub noisy: bool,
}

/// Capacity of one variant over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Lanes {
    /// Accuracy, percent.
    pub accuracy: f64,
    /// One-way latency between the proxy and the server.
    pub hop: Duration,
    /// Steps by time; before the first the variant serves nothing, and the last lasts forever.
    pub steps: Vec<Step>,
}

/// Capacity of a variant from a time on. A running execution continues unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Start of the step.
    pub from: Duration,
    /// Number of executions at once.
    pub slots: u32,
    /// Requests in a full batch.
    pub batch: u32,
    /// Minimum execution time of a batch.
    pub shortest: Duration,
    /// Maximum execution time of a batch.
    pub longest: Duration,
    /// Batch that takes the least time per request: the full one, unless measurements say otherwise.
    pub best: BatchTime,
}

/// Size and execution time of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchTime {
    /// Requests in it.
    pub requests: u32,
    /// Execution time.
    pub time: Duration,
}

impl Servers {
    /// Creates the servers with the cores that a contender had over time.
    #[must_use]
    ///
    /// All executions of a variant are taken to be as fast as on its largest replica, and any replica to execute any
    /// request: then no replicas with these cores are on time more often.
    pub fn played(scenario: &Scenario, play: &Play) -> Servers {
        Servers::with(scenario, &play.initial, &play.resizes)
    }

    /// Creates the servers with the scenario's initial cores.
    #[must_use]
    pub fn at_start(scenario: &Scenario) -> Servers {
        Servers::with(scenario, &[], &[])
    }

    fn with(scenario: &Scenario, initial: &[f64], resizes: &[Resize]) -> Servers {
        let accuracies = scenario.service.variants.iter().map(|known| known.accuracy);
        let variants = scenario.variants.iter().zip(accuracies).enumerate();
        let lanes = |(index, (server, accuracy)): (usize, (&Server, f64))| {
            let speed = fastest_factor(scenario, index);
            let cores = initial.get(index).copied().unwrap_or(server.cores);
            let slots = server.parallelism.at_once(cores) * server.count();
            let begin = step(server, Duration::ZERO, (slots, cores), speed);
            let mut steps = vec![begin];
            for resize in resizes.iter().filter(|r| usize::from(r.variant) == index) {
                let capacity = (resize.slots, resize.each);
                push(&mut steps, step(server, resize.at, capacity, speed));
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

    /// Servers of some of the variants.
    pub(super) fn of(&self, variants: Range<usize>) -> Servers {
        Servers {
            variants: self.variants.get(variants).unwrap_or_default().to_vec(),
            noisy: self.noisy,
        }
    }

    /// Minimum time of an answer with at least that accuracy, hops included.
    #[must_use]
    pub fn fastest(&self, min_accuracy: f64) -> Option<Duration> {
        let times = self.able(min_accuracy).flat_map(|lanes| {
            let working = lanes.steps.iter().filter(|step| step.slots > 0);
            working.map(|step| step.shortest + lanes.hop * 2)
        });
        times.min()
    }

    /// Minimum one-way latency to a server with at least that accuracy.
    pub(super) fn shortest_hop(&self, min_accuracy: f64) -> Duration {
        let hops = self.able(min_accuracy).map(|lanes| lanes.hop);
        hops.min().unwrap_or_default()
    }

    fn able(&self, min_accuracy: f64) -> impl Iterator<Item = &Lanes> {
        let able = move |lanes: &&Lanes| lanes.accuracy >= min_accuracy;
        self.variants.iter().filter(able)
    }

    /// Slots and service time if all slots are identical at all times.
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
        Ok((step.slots, step.shortest))
    }

    /// Reason why a bound is only an estimate.
    pub(super) fn blur(&self) -> Option<&'static str> {
        const NOISE: &str =
            "for mean service times: the seed's noise may allow a little more or less";
        self.noisy.then_some(NOISE)
    }
}

impl Step {
    /// Creates a step from the execution time of each batch size, from 1 to `batch`.
    #[must_use]
    pub fn new(from: Duration, slots: u32, batch: u32, time: impl Fn(u32) -> Duration) -> Step {
        let single = BatchTime {
            requests: 1,
            time: time(1),
        };
        let mut step = Step {
            from,
            slots,
            batch,
            shortest: single.time,
            longest: single.time,
            best: single,
        };
        for requests in 2..=batch {
            let next = BatchTime {
                requests,
                time: time(requests),
            };
            step.shortest = step.shortest.min(next.time);
            step.longest = step.longest.max(next.time);
            if next.rate_rps() >= step.best.rate_rps() {
                step.best = next;
            }
        }
        step
    }

    /// Maximum rate, requests/s: all slots with the best batches.
    #[must_use]
    pub fn rate_rps(&self) -> f64 {
        f64::from(self.slots) * self.best.rate_rps()
    }
}

impl BatchTime {
    /// Rate of a slot that executes only such batches, requests/s.
    pub(super) fn rate_rps(self) -> f64 {
        // A latency model of zeros is limited to the clock's resolution of a nanosecond.
        f64::from(self.requests) / self.time.max(Duration::from_nanos(1)).as_secs_f64()
    }
}

/// Step with `slots` executions at once, each as fast as on a replica with those cores.
fn step(server: &Server, from: Duration, (slots, cores): (u32, f64), factor: f64) -> Step {
    let each = server.parallelism.cores_each(cores);
    let batch = server.batch_max.max(1);
    if slots == 0 {
        return Step::new(from, 0, batch, |_| SERVICE_MAX);
    }
    // Computed like the simulated server, to the nanosecond.
    Step::new(from, slots, batch, |requests| {
        service_time(server.latency.ms(requests, each) * factor)
    })
}

/// Adds a step unless it changes nothing.
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

/// Minimum factor on service times: 1, or less if a fault makes the variant faster.
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
    use weir_sim::server::Parallelism;

    fn slots(lanes: &Lanes) -> Vec<(u64, u32)> {
        let step = |step: &Step| (step.from.as_millis() as u64, step.slots);
        lanes.steps.iter().map(step).collect()
    }

    fn resized(resizes: &[(u64, u16, f64)]) -> Play {
        let resize = |(at_ms, variant, cores): &(u64, u16, f64)| Resize {
            at: Duration::from_millis(*at_ms),
            variant: *variant,
            cores: *cores,
            slots: Parallelism::PerCore.at_once(*cores),
            each: *cores,
        };
        Play {
            resizes: resizes.iter().map(resize).collect(),
            ..play("weir", Vec::new(), Vec::new())
        }
    }

    #[test]
    fn cores_count_from_the_time_they_take_effect() {
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
        // Changes after the scenario's length count too: the last requests may still be in flight.
        assert_eq!(slots(a), [(0, 4), (100, 9), (400, 1), (5000, 3)]);
        assert_eq!(slots(b), [(0, 2), (900, 0)]);
        assert_eq!((a.accuracy, b.accuracy), (70.0, 80.0));
        let of_a = Duration::from_millis(40);
        assert!(
            a.steps
                .iter()
                .all(|step| step.shortest == of_a && step.longest == of_a)
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
    fn unsupported_cases_return_reasons() {
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
        // A slowdown does not lower the bound, because a contender could avoid the variant; a speed-up raises it.
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
