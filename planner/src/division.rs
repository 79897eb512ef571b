//! Division of one budget among several services. Pure: the demands are arguments.
//!
//! [`targets`] gives each service its minimum, then the cores that its demand needs, then those that its policy
//! prefers, then headroom for a rise, and then what is left by the weights. So a plan is seldom made within a part that
//! its demand has outgrown, and a service never has less than its fixed part while the others do with theirs.
//! [`Division`] brings the parts to the targets. A smaller part holds at once, a larger one waits for free cores, so
//! that no core is given twice, whatever the order in which changes are confirmed. Small differences are no reason to
//! change a part.
//!
//! All cores are counted in steps. Of equals, the first in the list comes first.

/// Maximum number of services that share a budget.
pub const SERVICES_MAX: usize = 16;
/// Minimum difference between a part and its target, in steps, for which the part changes.
pub const HYSTERESIS_STEPS: u32 = 2;
/// The same in percent of the part; the larger of both counts.
pub const HYSTERESIS_PERCENT: u32 = 5;
/// Headroom of a part above what its policy prefers, in percent, before the rest is divided by the weights: as much as a
/// demand may rise until the part follows.
pub const HEADROOM_PERCENT: u32 = 50;

/// Service that shares a budget.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Member {
    /// Weight by which needs above the budget are met; positive.
    pub weight: f64,
    /// Minimum part, at least one step.
    pub min: u32,
    /// Maximum part.
    pub max: u32,
}

/// Cores for the demand of a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreDemand {
    /// Fewest that carry it.
    pub need: u32,
    /// Number that its policy takes with the whole budget.
    pub preferred: u32,
}

/// State of a service at a division.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberState {
    /// Its demand; `None` while it is unknown: its part stays.
    pub demand: Option<CoreDemand>,
    /// Cores reserved: those of its pods, pending changes included.
    pub reserved: u32,
    /// Whether its planner takes another part now; it does not during a cycle.
    pub is_idle: bool,
}

/// Member with its demand, within its limits.
#[derive(Debug, Clone, Copy)]
struct Bounded {
    weight: f64,
    min: u32,
    need: u32,
    preferred: u32,
    max: u32,
}

impl Bounded {
    fn new(member: &Member, demand: CoreDemand) -> Bounded {
        let max = member.max.max(member.min);
        let need = demand.need.clamp(member.min, max);
        Bounded {
            weight: member.weight,
            min: member.min,
            need,
            preferred: demand.preferred.clamp(need, max),
            max,
        }
    }

    /// Member of unknown demand, which keeps what it has.
    fn unknown(member: &Member, reserved: u32) -> Bounded {
        let kept = reserved.max(member.min);
        Bounded {
            weight: member.weight,
            min: kept,
            need: kept,
            preferred: kept,
            max: kept.max(member.max),
        }
    }

    /// Claim of a share of what the preferences leave, for a rise of the demand.
    fn headroom(&self, part: u32) -> Claim {
        let percent = u64::from(self.preferred) * u64::from(100 + HEADROOM_PERCENT);
        let max = u32::try_from(percent.div_ceil(100)).unwrap_or(u32::MAX);
        Claim {
            base: self.preferred,
            part,
            max: max.min(self.max).max(part),
            value: f64::from(self.preferred),
        }
    }

    /// Claim of a share of what the headroom leaves, by the weights.
    fn rest(&self, part: u32) -> Claim {
        Claim {
            base: 0,
            part,
            max: self.max.max(part),
            value: self.weight,
        }
    }
}

/// Target part of each member for these demands, in their order. The minimums must not exceed the budget.
pub fn targets(budget: u32, members: &[Member], demands: &[CoreDemand]) -> Vec<u32> {
    let each = members.iter().zip(demands);
    let bounded: Vec<Bounded> = each
        .map(|(one, demand)| Bounded::new(one, *demand))
        .collect();
    divide(budget, &bounded)
}

/// Parts in proportion to the weights, within the members' limits.
pub fn fixed_parts(budget: u32, members: &[Member]) -> Vec<u32> {
    let each = members.iter();
    let mut claims: Vec<Claim> = each
        .map(|one| Claim {
            base: 0,
            part: one.min,
            max: one.max.max(one.min),
            value: one.weight,
        })
        .collect();
    fill(budget, &mut claims);
    claims.iter().map(|claim| claim.part).collect()
}

fn divide(budget: u32, members: &[Bounded]) -> Vec<u32> {
    let needs = members.iter().map(|one| Claim {
        base: one.min,
        part: one.min,
        max: one.need,
        value: one.weight * f64::from(one.need),
    });
    let mut claims: Vec<Claim> = needs.collect();
    fill(budget, &mut claims);
    for (claim, one) in claims.iter_mut().zip(members) {
        *claim = Claim {
            base: one.need,
            part: claim.part,
            max: one.preferred.max(claim.part),
            value: f64::from(one.preferred - one.need),
        };
    }
    // The needs above the budget have left nothing.
    fill(budget, &mut claims);
    for of_stage in [Bounded::headroom, Bounded::rest] {
        for (claim, one) in claims.iter_mut().zip(members) {
            *claim = of_stage(one, claim.part);
        }
        fill(budget, &mut claims);
    }
    claims.iter().map(|claim| claim.part).collect()
}

/// Claim to a part of what is left.
#[derive(Debug, Clone, Copy)]
struct Claim {
    /// Steps that do not count in the proportion.
    base: u32,
    part: u32,
    max: u32,
    /// Number to which the part above its base is proportional.
    value: f64,
}

impl Claim {
    /// Part above its base with one more step, relative to the value.
    fn after_next(&self) -> f64 {
        f64::from(self.part.saturating_sub(self.base) + 1) / self.value
    }
}

/// Gives what is left of the budget, step by step, to the claim that has the least for its value afterwards.
fn fill(budget: u32, claims: &mut [Claim]) {
    let given: u32 = claims.iter().map(|claim| claim.part).sum();
    for _ in given..budget {
        let open = claims.iter_mut().filter(|claim| claim.part < claim.max);
        let next = open.min_by(|one, other| one.after_next().total_cmp(&other.after_next()));
        let Some(next) = next else { return };
        next.part += 1;
    }
}

/// Parts of the members of a shared budget.
#[derive(Debug, Clone)]
pub struct Division {
    budget: u32,
    members: Vec<Member>,
    parts: Vec<u32>,
    /// Demands and targets of the last division, if all demands were known.
    known: Option<(Vec<CoreDemand>, Vec<u32>)>,
}

impl Division {
    /// Begins with what each member has reserved, its minimum at least. The sum of these must not exceed the budget.
    pub fn new(budget: u32, members: Vec<Member>, reserved: &[u32]) -> Division {
        let each = members.iter().zip(reserved);
        Division {
            budget,
            parts: each.map(|(one, reserved)| one.min.max(*reserved)).collect(),
            members,
            known: None,
        }
    }

    /// Part of each member, in their order.
    pub fn parts(&self) -> &[u32] {
        &self.parts
    }

    /// Divides among other members from now on, with these parts. Both lists have the same order.
    pub fn set_members(&mut self, members: Vec<Member>, parts: Vec<u32>) {
        self.members = members;
        self.parts = parts;
        self.known = None;
    }

    /// Sets the part of a member to what it has reserved, whatever the budget.
    pub fn set_part(&mut self, index: usize, reserved: u32) {
        if let Some(part) = self.parts.get_mut(index) {
            *part = reserved;
        }
    }

    /// Changes the parts as far as the states allow it now. All parts together with what is reserved above them stay
    /// within the budget, if they were.
    pub fn update(&mut self, states: &[MemberState]) {
        let targets = self.targets(states);
        let each = self.parts.iter().zip(&targets).zip(states);
        // Needs above the budget cannot be met; their noise is no reason either.
        let is_short = |(part, target): (&u32, &u32), state: &MemberState| {
            let need = state.demand.map_or(0, |demand| demand.need);
            need > *part && target > part && *target >= need
        };
        let is_below_min = |part: u32, member: &Member| part < member.min;
        let each = each.zip(&self.members);
        let short = each
            .map(|((pair, state), member)| is_short(pair, state) || is_below_min(*pair.0, member));
        let short: Vec<bool> = short.collect();
        // Cores within the hysteresis are given back once another service needs them.
        let any_is_short = short.contains(&true);
        for ((part, target), state) in self.parts.iter_mut().zip(&targets).zip(states) {
            let shrinks = target < part && (any_is_short || differs(*part, *target));
            if shrinks && state.is_idle {
                *part = *target;
            }
        }
        let held = self.parts.iter().zip(states);
        let held: u32 = held.map(|(part, state)| (*part).max(state.reserved)).sum();
        let mut free = self.budget.saturating_sub(held);
        // Nobody gets headroom while another one waits for cores that its policy would take.
        let preferred = targets.iter().zip(states).zip(&self.members);
        let preferred = preferred.map(|((target, state), member)| {
            let preferred = state.demand.map_or(0, |one| one.preferred.max(one.need));
            (*target).min(preferred.max(member.min))
        });
        let preferred: Vec<u32> = preferred.collect();
        for limits in [&preferred, &targets] {
            for index in self.growing(limits, states, &short) {
                let (Some(part), Some(limit), Some(state)) = (
                    self.parts.get_mut(index),
                    limits.get(index),
                    states.get(index),
                ) else {
                    continue;
                };
                let held = (*part).max(state.reserved);
                let grown = (*limit).min(held + free);
                if grown > *part {
                    free -= grown.saturating_sub(held);
                    *part = grown;
                }
            }
        }
    }

    /// Members whose parts grow, those that lack the most of their targets first.
    fn growing(&self, targets: &[u32], states: &[MemberState], short: &[bool]) -> Vec<usize> {
        let each = self.parts.iter().zip(targets).zip(states.iter().zip(short));
        let growing = each
            .enumerate()
            .filter(|(_, ((part, target), (state, short)))| {
                target > part && state.is_idle && (**short || differs(**part, **target))
            });
        let mut growing: Vec<(usize, f64)> = growing
            .map(|(index, ((part, target), _))| {
                (index, f64::from(target - part) / f64::from(*target))
            })
            .collect();
        growing.sort_by(|(_, one), (_, other)| other.total_cmp(one));
        growing.into_iter().map(|(index, _)| index).collect()
    }

    fn targets(&mut self, states: &[MemberState]) -> Vec<u32> {
        let demands: Option<Vec<CoreDemand>> = states.iter().map(|state| state.demand).collect();
        if let (Some(demands), Some((known, targets))) = (&demands, &self.known)
            && demands == known
        {
            return targets.clone();
        }
        let each = self.members.iter().zip(states);
        let bounded = each.map(|(member, state)| match state.demand {
            Some(demand) => Bounded::new(member, demand),
            None => Bounded::unknown(member, state.reserved),
        });
        let targets = divide(self.budget, &bounded.collect::<Vec<Bounded>>());
        self.known = demands.map(|demands| (demands, targets.clone()));
        targets
    }
}

/// Whether a part is so far from its target that it changes.
fn differs(part: u32, target: u32) -> bool {
    let percent = u64::from(part) * u64::from(HYSTERESIS_PERCENT);
    let min = u64::from(HYSTERESIS_STEPS) * 100;
    u64::from(part.abs_diff(target)) * 100 >= percent.max(min)
}

#[cfg(test)]
mod tests;
