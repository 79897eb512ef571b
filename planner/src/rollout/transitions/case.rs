//! Random services, their targets, and faults. A case is determined by its seed.

use std::fmt;
use std::ops::Range;

use weir_api::Cores;

use super::super::carried::carried_part;
use super::play::text;
use crate::capacity::{Allocation, ResourceLimit, ResourceLimits, Target};
use crate::rollout::Shapes;

/// Length of a cycle, in ms.
pub(super) const CYCLE_MS: u64 = 1000;
/// Random numbers from a seed (SplitMix64).
#[derive(Debug, Clone)]
pub(super) struct Rng(pub(super) u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number between both bounds, inclusive.
    pub(super) fn of(&mut self, min: u64, most: u64) -> u64 {
        min + self.next() % (most - min + 1)
    }

    pub(super) fn small(&mut self, min: u32, most: u32) -> u32 {
        u32::try_from(self.of(u64::from(min), u64::from(most))).unwrap()
    }

    /// Returns true with a probability of `part` percent.
    pub(super) fn percent(&mut self, part: u64) -> bool {
        self.of(1, 100) <= part
    }
}

/// Server or pods of a variant.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    /// Requests/s per core of a replica.
    pub(super) slope: f64,
    /// Requests/s to subtract from that, per replica.
    pub(super) offset: f64,
    /// Maximum cores of a replica, and maximum number of replicas.
    pub(super) each_max: u32,
    pub(super) replicas_max: u32,
    /// Time from the request of a resize until it is actual, in ms.
    pub(super) delay_ms: u64,
    /// Time from then until a server that had no core serves, in ms.
    pub(super) readiness_ms: u64,
}

impl Variant {
    pub(super) fn rps(&self, allocation: Allocation) -> f64 {
        let each = (self.slope * allocation.each().as_f64() - self.offset).max(0.0);
        f64::from(allocation.replicas()) * each
    }

    pub(super) fn range(&self) -> Shapes {
        Shapes {
            replicas: (0, self.replicas_max),
            each: (1, self.each_max),
            step: Cores::whole(1),
        }
    }

    /// Allocations it may have, including none.
    pub(super) fn shapes(&self) -> Vec<Allocation> {
        let mut shapes = vec![Allocation::NONE];
        for replicas in 1..=self.replicas_max {
            shapes.extend(
                (1..=self.each_max).map(|each| Allocation::new(replicas, Cores::whole(each))),
            );
        }
        shapes
    }
}

/// Target from a cycle on.
#[derive(Debug, Clone)]
pub(super) struct Phase {
    pub(super) cycle: u64,
    pub(super) demand: f64,
    /// Part of the demand that already arrives.
    pub(super) arriving: f64,
    /// Whether the rest is expected.
    pub(super) rises: bool,
    pub(super) desired: Vec<Allocation>,
}

/// Result of a change at a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Done,
    Refused,
    /// It is not applied, and no answer comes.
    LostBefore,
    /// It is applied, and no answer comes.
    LostAfter,
    Halfway,
    /// It takes this many ms longer.
    Deferred(u64),
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) seed: u64,
    pub(super) stages: Vec<Range<usize>>,
    pub(super) variants: Vec<Variant>,
    pub(super) budget: Cores,
    pub(super) limits: ResourceLimits,
    pub(super) start: Vec<Allocation>,
    pub(super) phases: Vec<Phase>,
    /// Percentage of changes that fail, and of cycles before which another controller changes something.
    pub(super) faults: u64,
    pub(super) undone: u64,
    /// Whether replicas are pods of Kubernetes.
    pub(super) pods: bool,
}

impl Case {
    /// Number of cycles, from the first one, in which faults occur.
    pub(super) const FAULT_CYCLES: u64 = 40;

    pub(super) fn new(seed: u64, pods: bool) -> Case {
        let mut rng = Rng(seed);
        let count = rng.small(2, if pods { 4 } else { 5 });
        let budget = rng.small(3, if pods { 10 } else { 12 });
        let variants: Vec<Variant> = (0..count)
            .map(|_| variant(&mut rng, budget, pods))
            .collect();
        let mut case = Case {
            seed,
            stages: stages(&mut rng, variants.len()),
            budget: Cores::whole(budget),
            limits: limits(&mut rng, variants.len(), pods),
            start: Vec::new(),
            phases: Vec::new(),
            faults: if rng.percent(50) { 0 } else { rng.of(5, 50) },
            undone: if rng.percent(70) { 0 } else { rng.of(2, 20) },
            variants,
            pods,
        };
        case.start = case.allocations(&mut rng);
        let mut cycle = 0;
        let phases = rng.of(1, 4);
        for phase in 1..=phases {
            let desired = case.allocations(&mut rng);
            let (before, after) = (case.rps(&case.start), case.rps(&desired));
            // Usually both carry it, sometimes barely, and sometimes neither does.
            let demand = match rng.of(0, 9) {
                0 => before.max(after) * 1.5,
                1 => before.max(after),
                2..=4 => before.min(after),
                _ => before.min(after) * rng.of(20, 100) as f64 / 100.0,
            };
            let demand = demand.max(1.0);
            // Servers are planned for partial use: even when all arrives, it is less than the demand.
            let arriving = rng.of(0, 75) as f64 / 100.0;
            // In the end all expected requests arrive.
            let rises = phase < phases && rng.percent(50);
            case.phases.push(Phase {
                cycle,
                demand,
                arriving,
                rises,
                desired,
            });
            cycle += match rng.of(0, 2) {
                0 => 1,
                1 => rng.of(2, 5),
                _ => rng.of(6, 30),
            };
        }
        case
    }

    /// Returns the rate that the weakest stage carries.
    pub(super) fn rps(&self, allocations: &[Allocation]) -> f64 {
        let of = |stage: &Range<usize>| -> f64 {
            let all = stage.clone();
            all.map(|index| self.variants[index].rps(allocations[index]))
                .sum()
        };
        self.stages.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// Returns the part of a demand that is carried.
    pub(super) fn carried(&self, allocations: &[Allocation], demand: f64) -> f64 {
        let capacities = self.variants.iter().zip(allocations);
        let capacities: Vec<f64> = capacities
            .map(|(variant, allocation)| variant.rps(*allocation))
            .collect();
        carried_part(
            self.stages.iter().cloned(),
            &capacities,
            allocations,
            Some(demand),
        )
    }

    pub(super) fn targets(desired: &[Allocation]) -> Vec<Target> {
        desired.iter().copied().map(Target::of).collect()
    }

    pub(super) fn resources_fit(&self, allocations: &[Allocation]) -> bool {
        let replicas: Vec<u32> = allocations.iter().map(|one| one.replicas()).collect();
        self.limits.fit(&replicas)
    }

    /// Returns the result of a change requested at `now`.
    pub(super) fn fate(&self, now: u64, rng: &mut Rng) -> Fate {
        if now > Case::FAULT_CYCLES * CYCLE_MS || !rng.percent(self.faults) {
            return Fate::Done;
        }
        match rng.of(0, 4) {
            0 => Fate::Refused,
            1 => Fate::LostBefore,
            2 => Fate::LostAfter,
            3 => Fate::Halfway,
            _ => Fate::Deferred(rng.of(200, 5000)),
        }
    }

    /// Returns a variant that another controller changes before a cycle, and the new allocation.
    pub(super) fn undoes(&self, now: u64, rng: &mut Rng) -> Option<(usize, Allocation)> {
        if now > Case::FAULT_CYCLES * CYCLE_MS || !rng.percent(self.undone) {
            return None;
        }
        let index = rng.small(0, u32::try_from(self.variants.len()).unwrap() - 1) as usize;
        let shapes = self.variants[index].shapes();
        let shape = rng.small(0, u32::try_from(shapes.len()).unwrap() - 1) as usize;
        Some((index, shapes[shape]))
    }

    /// Returns allocations within budget and limits, at least one per stage, often all of the budget.
    fn allocations(&self, rng: &mut Rng) -> Vec<Allocation> {
        let mut all = vec![Allocation::NONE; self.variants.len()];
        let full = rng.percent(40);
        let tries = rng.of(1, 4);
        for round in 0..tries + 2 {
            for stage in &self.stages {
                let index =
                    usize::try_from(rng.of(stage.start as u64, stage.end as u64 - 1)).unwrap();
                let variant = &self.variants[index];
                let mut with = all.clone();
                let each = match (full, self.pods) {
                    (true, false) => variant.each_max,
                    _ => rng.small(1, variant.each_max),
                };
                let replicas = rng.small(1, variant.replicas_max);
                with[index] = Allocation::new(replicas, Cores::whole(each));
                let fits = |with: &[Allocation]| {
                    let cores: Cores = with.iter().map(|one| one.cores()).sum();
                    cores <= self.budget && self.resources_fit(with)
                };
                let serves = stage.clone().any(|index| all[index] != Allocation::NONE);
                if round > 0 && serves && !full && rng.percent(60) {
                    continue;
                }
                // Less of it if all does not fit.
                while !fits(&with) && with[index] != Allocation::NONE {
                    let one = with[index];
                    with[index] = match one.replicas() > 1 {
                        true => Allocation::new(one.replicas() - 1, one.each()),
                        false => Allocation::one(one.each().saturating_sub(Cores::whole(1))),
                    };
                }
                if with[index] != Allocation::NONE && fits(&with) {
                    all = with;
                }
            }
        }
        all
    }
}

fn variant(rng: &mut Rng, budget: u32, pods: bool) -> Variant {
    let each_max = if pods {
        rng.small(1, 3)
    } else {
        rng.small(1, budget)
    };
    Variant {
        slope: f64::from(rng.small(4, 30)),
        offset: f64::from(rng.small(0, 8)),
        each_max,
        replicas_max: if pods { rng.small(1, 4) } else { 1 },
        delay_ms: rng.of(100, 1200),
        readiness_ms: if rng.percent(20) {
            0
        } else {
            rng.of(0, 15_000)
        },
    }
}

/// Returns one stage, or several if there are enough variants.
fn stages(rng: &mut Rng, count: usize) -> Vec<Range<usize>> {
    if count < 3 || rng.percent(60) {
        return std::iter::once(0..count).collect();
    }
    let middle = rng.small(1, u32::try_from(count).unwrap() - 1) as usize;
    let rest = middle..count;
    if rest.len() > 1 && rng.percent(30) {
        return vec![0..middle, middle..middle + 1, middle + 1..count];
    }
    vec![0..middle, rest]
}

fn limits(rng: &mut Rng, count: usize, pods: bool) -> ResourceLimits {
    if !pods || rng.percent(60) {
        return ResourceLimits::default();
    }
    let each: Vec<u64> = (0..count).map(|_| rng.of(0, 5)).collect();
    let most = each.iter().max().unwrap() * rng.of(2, 4);
    let name = "memory".to_owned();
    ResourceLimits(vec![ResourceLimit { name, most, each }])
}

/// Prints a line for the case and one for each variant and target.
impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case {
            seed,
            pods,
            budget,
            stages,
            faults,
            undone,
            ..
        } = self;
        writeln!(
            f,
            "seed {seed}, pods {pods}, budget {budget}, stages {stages:?}, faults {faults} % {undone} %"
        )?;
        for limit in &self.limits.0 {
            writeln!(f, "  {limit:?}")?;
        }
        for (variant, start) in self.variants.iter().zip(&self.start) {
            writeln!(f, "  at the start {start} of {variant:?}")?;
        }
        for phase in &self.phases {
            let Phase {
                cycle,
                demand,
                arriving,
                rises,
                desired,
            } = phase;
            let desired = text(desired);
            writeln!(
                f,
                "  from {cycle} s {desired} for {demand}, of which {arriving} arrives, {}",
                if *rises { "rising" } else { "not rising" }
            )?;
        }
        Ok(())
    }
}
