//! Tests of the targets, by brute force, and of the order of changes, for any order of confirmations.

use proptest::prelude::*;

use super::*;

fn member(weight: f64, min: u32, max: u32) -> Member {
    Member { weight, min, max }
}

fn demand(need: u32, preferred: u32) -> CoreDemand {
    CoreDemand { need, preferred }
}

fn state(need: u32, preferred: u32, reserved: u32) -> MemberState {
    MemberState {
        demand: Some(demand(need, preferred)),
        reserved,
        is_idle: true,
    }
}

#[test]
fn targets_are_minimum_then_need_preference_headroom_and_rest() {
    let equal = [member(1.0, 1, 32), member(1.0, 1, 32)];
    let double = [member(2.0, 1, 32), member(1.0, 1, 32)];
    let limited = [member(1.0, 1, 6), member(1.0, 4, 32)];
    for (members, demands, expected) in [
        // What nobody prefers and no headroom takes: by the weights, so that a part is the fixed one where it can be.
        (equal, [(5, 8), (7, 10)], [16, 16]),
        (double, [(1, 1), (4, 6)], [22, 10]),
        (equal, [(1, 1), (18, 18)], [5, 27]),
        // Headroom in proportion to what is preferred, half of it at most.
        (equal, [(20, 20), (4, 4)], [27, 5]),
        (equal, [(20, 20), (1, 1)], [30, 2]),
        // What the needs leave, in proportion to what each prefers above its need.
        (equal, [(10, 30), (10, 20)], [18, 14]),
        (equal, [(10, 10), (10, 40)], [10, 22]),
        // Needs above the budget: in proportion to them, or to weight times need.
        (equal, [(40, 40), (20, 20)], [20, 12]),
        (equal, [(32, 32), (32, 32)], [16, 16]),
        (double, [(32, 32), (32, 32)], [21, 11]),
        // No more than the need, and what one cannot use goes to the other.
        (double, [(6, 6), (50, 50)], [6, 26]),
        // Minimums and maximums hold without a demand and with too much.
        (limited, [(0, 0), (0, 0)], [6, 26]),
        (limited, [(50, 50), (50, 50)], [5, 27]),
    ] {
        let demands = demands.map(|(need, preferred)| demand(need, preferred));
        assert_eq!(targets(32, &members, &demands), expected, "{demands:?}");
    }
}

#[test]
fn fixed_parts_are_in_proportion_to_the_weights() {
    for (members, expected) in [
        ([member(1.0, 1, 32), member(1.0, 1, 32)], [16, 16]),
        ([member(3.0, 1, 32), member(1.0, 1, 32)], [24, 8]),
        ([member(9.0, 1, 32), member(1.0, 6, 32)], [26, 6]),
        ([member(3.0, 1, 10), member(1.0, 1, 32)], [10, 22]),
        ([member(3.0, 1, 10), member(1.0, 1, 10)], [10, 10]),
    ] {
        assert_eq!(fixed_parts(32, &members), expected);
    }
}

/// All parts between the limits whose sum is that of the budget, or of the upper limits if that is less.
fn all_parts(budget: u32, limits: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut all = vec![Vec::new()];
    for (min, max) in limits {
        let longer = |parts: &Vec<u32>| -> Vec<Vec<u32>> {
            let with = |part| [parts.as_slice(), &[part]].concat();
            (*min..=*max).map(with).collect()
        };
        all = all.iter().flat_map(longer).collect();
    }
    let sum = budget.min(limits.iter().map(|(_, max)| max).sum());
    all.retain(|parts| parts.iter().sum::<u32>() == sum);
    all
}

/// Claim of a member in the stage in which the budget ends.
#[derive(Debug, Clone, Copy)]
struct StageClaim {
    /// Part by the stages before.
    before: u32,
    base: u32,
    value: f64,
    max: u32,
}

impl StageClaim {
    fn load(&self, part: u32) -> f64 {
        (f64::from(part) - f64::from(self.base)) / self.value
    }
}

/// Whether no member could give a step to another one that would have less for its value with it.
fn is_fair(parts: &[u32], claims: &[StageClaim]) -> bool {
    let each = || parts.iter().zip(claims);
    let givers = each().filter(|(part, claim)| **part > claim.before);
    givers.into_iter().all(|(part, giver)| {
        let mut takers = each().filter(|(part, claim)| **part < claim.max);
        takers.all(|(other, taker)| giver.load(*part) <= taker.load(other + 1) + 1e-9)
    })
}

/// Largest part that grew in this stage, relative to its value.
fn largest(parts: &[u32], claims: &[StageClaim]) -> f64 {
    let each = parts.iter().zip(claims);
    let grown = each.filter(|(part, claim)| **part > claim.before);
    grown
        .map(|(part, claim)| claim.load(*part))
        .fold(0.0, f64::max)
}

/// Claims in the stage in which the budget ends: of the four, the first whose maximums exceed it, or the last.
fn last_stage(budget: u32, members: &[Bounded]) -> Vec<StageClaim> {
    let claim = |before, base, value, max| StageClaim {
        before,
        base,
        value,
        max,
    };
    let with_headroom = |one: &Bounded| (one.preferred * 3).div_ceil(2).min(one.max);
    let stages: [&dyn Fn(&Bounded) -> StageClaim; 4] = [
        &|one| claim(one.min, one.min, one.weight * f64::from(one.need), one.need),
        &|one| {
            let value = f64::from(one.preferred - one.need);
            claim(one.need, one.need, value, one.preferred)
        },
        &|one| {
            let (base, max) = (one.preferred, with_headroom(one));
            claim(base, base, f64::from(base), max)
        },
        &|one| claim(with_headroom(one), 0, one.weight, one.max),
    ];
    let stages = stages.map(|stage| members.iter().map(stage).collect::<Vec<StageClaim>>());
    let exceeds = |stage: &&Vec<StageClaim>| stage.iter().map(|one| one.max).sum::<u32>() > budget;
    let found = stages.iter().find(exceeds);
    found.unwrap_or(&stages[3]).clone()
}

/// Members, their demands, and a budget that covers the minimums.
fn cases() -> impl Strategy<Value = (Vec<(Member, CoreDemand)>, u32)> {
    let one = (1_u32..=4, 1_u32..=3, 3_u32..=12, 0_u32..=12, 0_u32..=12);
    let one = one.prop_map(|(weight, min, max, need, more)| {
        (
            member(f64::from(weight), min, max),
            demand(need, need + more),
        )
    });
    (prop::collection::vec(one, 1..=3), 9_u32..=12)
}

proptest! {
    #[test]
    fn targets_are_those_of_an_exhaustive_search((members, budget) in cases()) {
        let (members, demands): (Vec<Member>, Vec<CoreDemand>) = members.into_iter().unzip();
        let found = targets(budget, &members, &demands);
        let bounded: Vec<Bounded> =
            members.iter().zip(&demands).map(|(one, demand)| Bounded::new(one, *demand)).collect();
        let stage = last_stage(budget, &bounded);
        let limits: Vec<(u32, u32)> = stage.iter().map(|one| (one.before, one.max)).collect();
        let all = all_parts(budget, &limits);
        prop_assert!(all.contains(&found), "{found:?} is none of {all:?}");
        prop_assert!(is_fair(&found, &stage), "{found:?}");
        for other in &all {
            let more = largest(other, &stage) - largest(&found, &stage);
            prop_assert!(more > -1e-9, "{other:?} is fairer than {found:?}");
            // Fair ones differ in ties alone.
            prop_assert!(!is_fair(other, &stage) || more < 1e-9, "{other:?}, {found:?}");
        }
    }

    #[test]
    fn no_core_is_given_twice_in_any_order(
        members in prop::collection::vec((1_u32..=3, 1_u32..=2), 2..=4),
        steps in prop::collection::vec((0_usize..4, 0_u8..5, 0_u32..=24), 20..=120),
    ) {
        let budget = 24;
        let members: Vec<Member> =
            members.iter().map(|(weight, min)| member(f64::from(*weight), *min, budget)).collect();
        let mut services = Services::new(budget, &members);
        for (index, kind, cores) in steps {
            services.step(index % members.len(), kind, cores);
            let (reserved, held) = services.sums();
            prop_assert!(reserved <= budget, "{services:?}");
            prop_assert!(held <= budget, "{services:?}");
            prop_assert!(services.resizes <= RESIZES_MAX);
        }
        // Once everything is confirmed, all needs that the budget covers are met.
        services.finish();
        let needs: u32 = services.needs(&members).iter().sum();
        for (part, need) in services.division.parts().iter().zip(services.needs(&members)) {
            prop_assert!(needs > budget || *part >= need, "{services:?}");
        }
    }
}

proptest! {
    #[test]
    fn ample_budget_is_given_away_and_parts_are_the_fixed_ones_where_all_fit((members, _) in cases(), more in 0_u32..=24) {
        let (members, demands): (Vec<Member>, Vec<CoreDemand>) = members.into_iter().unzip();
        let each = members.iter().zip(&demands);
        let bounded: Vec<Bounded> = each.map(|(one, demand)| Bounded::new(one, *demand)).collect();
        let preferred: u32 = bounded.iter().map(|one| one.preferred).sum();
        let budget = preferred + more;
        let found = targets(budget, &members, &demands);
        let most: u32 = bounded.iter().map(|one| one.max).sum();
        prop_assert_eq!(found.iter().sum::<u32>(), budget.min(most));
        let fixed = fixed_parts(budget, &members);
        for (part, one) in found.iter().zip(&bounded) {
            prop_assert!(*part >= one.preferred, "{found:?}");
        }
        // While nobody takes more than its fixed part with its headroom, each has that.
        let within = |(one, fixed): (&Bounded, &u32)| (one.preferred * 3).div_ceil(2) <= *fixed;
        if bounded.iter().zip(&fixed).all(within) {
            prop_assert_eq!(found, fixed);
        }
    }
}

/// Maximum number of resizes of a case.
const RESIZES_MAX: usize = 20;

/// Services whose resizes are confirmed in any order.
#[derive(Debug)]
struct Services {
    division: Division,
    states: Vec<MemberState>,
    /// Cores after the confirmation of all resizes, and whether one is pending.
    pending: Vec<Option<u32>>,
    /// Parts by which the planners work, those at the beginning of a cycle.
    taken: Vec<u32>,
    resizes: usize,
}

impl Services {
    fn new(budget: u32, members: &[Member]) -> Services {
        let mins: Vec<u32> = members.iter().map(|one| one.min).collect();
        let state = |reserved: &u32| MemberState {
            demand: None,
            reserved: *reserved,
            is_idle: true,
        };
        Services {
            states: mins.iter().map(state).collect(),
            pending: vec![None; members.len()],
            taken: mins.clone(),
            division: Division::new(budget, members.to_vec(), &mins),
            resizes: 0,
        }
    }

    /// Changes the demand, begins or ends a cycle, requests a resize within the part, or confirms one; then divides.
    fn step(&mut self, index: usize, kind: u8, cores: u32) {
        let part = self.division.parts()[index];
        let state = &mut self.states[index];
        match kind {
            0 => state.demand = Some(demand(cores, cores + cores / 4)),
            1 => {
                state.is_idle = !state.is_idle;
                self.taken[index] = part;
            }
            2 => self.confirm(index),
            // A planner changes cores within its cycle only.
            _ if !state.is_idle && self.pending[index].is_none() && self.resizes < RESIZES_MAX => {
                let desired = cores.min(self.taken[index]);
                state.reserved = state.reserved.max(desired);
                self.pending[index] = Some(desired);
                self.resizes += 1;
            }
            _ => {}
        }
        self.division.update(&self.states);
    }

    fn confirm(&mut self, index: usize) {
        if let Some(cores) = self.pending[index].take() {
            self.states[index].reserved = cores;
        }
    }

    fn finish(&mut self) {
        for index in 0..self.states.len() {
            self.confirm(index);
            self.states[index].is_idle = true;
        }
        self.division.update(&self.states);
        // Each planner releases what is above its part.
        for (state, part) in self.states.iter_mut().zip(self.division.parts()) {
            state.reserved = state.reserved.min(*part);
        }
        self.division.update(&self.states);
    }

    fn needs(&self, members: &[Member]) -> Vec<u32> {
        let each = self.states.iter().zip(members).zip(self.division.parts());
        each.map(|((state, member), part)| match state.demand {
            Some(demand) => demand.need.clamp(member.min, member.max),
            None => *part,
        })
        .collect()
    }

    /// Cores reserved, and those with the parts that are not used.
    fn sums(&self) -> (u32, u32) {
        let reserved = self.states.iter().map(|state| state.reserved);
        let parts = self.division.parts().iter().copied();
        (
            reserved.clone().sum(),
            reserved
                .zip(parts)
                .map(|(reserved, part)| reserved.max(part))
                .sum(),
        )
    }
}

/// Parts after an update of a division of 32 steps with two members.
fn updated(before: [u32; 2], states: [MemberState; 2]) -> Vec<u32> {
    let members = vec![member(1.0, 1, 32); 2];
    let mut division = Division::new(32, members, &before);
    division.update(&states);
    division.parts().to_vec()
}

#[test]
fn smaller_part_holds_at_once_and_larger_one_waits_for_free_cores() {
    // The first shrinks; its cores are still reserved.
    let waits = updated([20, 12], [state(4, 4, 20), state(28, 28, 12)]);
    assert_eq!(waits, [4, 12]);
    let partly = updated([20, 12], [state(4, 4, 14), state(28, 28, 12)]);
    assert_eq!(partly, [4, 18]);
    let wholly = updated([20, 12], [state(4, 4, 4), state(28, 28, 12)]);
    assert_eq!(wholly, [4, 28]);
    // Of several that wait, the one that lacks the most of its target comes first.
    let both = updated([4, 4], [state(12, 12, 20), state(20, 20, 4)]);
    assert_eq!(both, [12, 12]);
    // Headroom comes after what others would take: the first lacks more of its target.
    let mut division = Division::new(32, vec![member(1.0, 1, 32); 3], &[2, 8, 1]);
    division.update(&[state(2, 2, 2), state(12, 12, 8), state(1, 1, 20)]);
    assert_eq!(division.parts(), [2, 10, 7]);
}

#[test]
fn member_without_demand_or_during_a_cycle_keeps_its_part() {
    let unknown = MemberState {
        demand: None,
        ..state(0, 0, 20)
    };
    assert_eq!(updated([20, 12], [unknown, state(20, 20, 12)]), [20, 12]);
    let busy = MemberState {
        is_idle: false,
        ..state(2, 2, 20)
    };
    assert_eq!(updated([20, 12], [busy, state(20, 20, 12)]), [20, 12]);
    let busy = MemberState {
        is_idle: false,
        ..state(20, 20, 10)
    };
    assert_eq!(updated([10, 12], [busy, state(12, 12, 12)]), [10, 12]);
}

#[test]
fn small_differences_change_no_part_unless_a_need_exceeds_it() {
    for (before, demands, after) in [
        // The targets are 16 and 16, then 14 and 18, for which the second waits, then 21 and 11.
        ([17, 15], [(9, 9), (9, 9)], [17, 15]),
        ([18, 14], [(8, 8), (9, 12)], [14, 14]),
        ([20, 12], [(20, 20), (11, 11)], [20, 12]),
        // A need that exceeds the part counts, however small. It waits until the second has released a core.
        ([20, 12], [(21, 21), (11, 11)], [20, 11]),
        // But not one that the budget does not cover. The targets are 16 and 16, then 17 and 15, then 18 and 14, for
        // which the first waits until the second has released its cores.
        ([16, 16], [(40, 40), (40, 40)], [16, 16]),
        ([16, 16], [(30, 30), (27, 27)], [16, 16]),
        ([16, 16], [(30, 30), (23, 23)], [16, 14]),
    ] {
        let [(a, b), (c, d)] = demands;
        let got = updated(before, [state(a, b, before[0]), state(c, d, before[1])]);
        assert_eq!(got, [after[0], got[1]], "{demands:?}");
        assert_eq!(got[1], after[1], "{demands:?}");
    }
    let far = |part, target| differs(part, target);
    assert!(far(10, 12) && far(10, 8) && !far(10, 11) && !far(1, 2));
    assert!(!far(100, 104) && far(100, 105) && far(100, 95) && !far(100, 96));
}
