//! Property: after any sequence of polls, losses, deaths, publications and waits, the slots in use never
//! grow beyond the whole, and the final slots are those of the division.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Event {
    /// A proxy polls, if it is alive and has no poll held.
    Poll(usize),
    /// Its answer arrives, or is lost on the way.
    Answer {
        proxy: usize,
        lost: bool,
    },
    Die(usize),
    /// It restarts, and polls.
    Start(usize),
    Pass {
        ms: u64,
    },
    /// A plan with the same slots and other shares.
    Publish {
        share: f64,
    },
    /// A plan with other slots.
    Resize {
        slots: [u32; 3],
    },
}

fn event(proxies: usize) -> impl Strategy<Value = Event> {
    prop_oneof![
        6 => (0..proxies).prop_map(Event::Poll),
        8 => (0..proxies, prop::bool::weighted(0.1))
            .prop_map(|(proxy, lost)| Event::Answer { proxy, lost }),
        1 => (0..proxies).prop_map(Event::Die),
        2 => (0..proxies).prop_map(Event::Start),
        2 => (0..1500_u64).prop_map(|ms| Event::Pass { ms }),
        1 => (0.0..1.0_f64).prop_map(|share| Event::Publish { share }),
        1 => prop::array::uniform3(0..6_u32).prop_map(|slots| Event::Resize { slots }),
    ]
}

/// A proxy's real state.
#[derive(Debug, Default)]
struct Real {
    alive: bool,
    incarnation: u64,
    /// Revision of the plan it uses, and whether it has any.
    revision: u64,
    slots: Option<Vec<u32>>,
    ticket: Option<Ticket>,
}

/// Proxies: combined ones (`None`), or gates of all variants or of one.
type Who = Vec<Option<Gate>>;

#[derive(Debug, Clone, Copy)]
enum Gate {
    All,
    Of(usize),
}

const NAMES: [&str; 3] = ["v0", "v1", "v2"];

fn who() -> impl Strategy<Value = Who> {
    let gate = prop_oneof![
        1 => Just(Some(Gate::All)),
        4 => (0..3_usize).prop_map(|variant| Some(Gate::Of(variant))),
    ];
    prop_oneof![
        (1..6_usize).prop_map(|count| vec![None; count]),
        prop::collection::vec(gate, 1..6),
    ]
}

/// Returns each proxy's role, and the variant it fronts.
fn member(who: Option<Gate>) -> (Role, Option<&'static str>) {
    match who {
        None => (Role::Both, None),
        Some(Gate::All) => (Role::Gate, None),
        Some(Gate::Of(variant)) => (Role::Gate, Some(NAMES[variant])),
    }
}

/// Returns the result of the division for those proxies.
fn expected_slots(slots: &[u32], who: impl Iterator<Item = Option<Gate>>) -> Vec<Vec<u32>> {
    let members: Vec<_> = who
        .map(|who| ownership::Member {
            role: member(who).0,
            variant: member(who).1,
            live: true,
        })
        .collect();
    divide::divide_slots(slots, &ownership::relations(&NAMES, &members))
}

struct Sim {
    who: Who,
    allocation: SlotAllocation,
    ms: u64,
    proxies: Vec<Real>,
    slots: [u32; 3],
    incarnations: u64,
    /// Slots in use, by variant, at the last check.
    working: Vec<u32>,
}

impl Sim {
    fn new(who: Who, slots: [u32; 3]) -> Sim {
        let mut sim = Sim {
            allocation: SlotAllocation::default(),
            ms: 0,
            proxies: who.iter().map(|_| Real::default()).collect(),
            who,
            slots,
            incarnations: 0,
            working: vec![0; 3],
        };
        sim.publish(0.5);
        sim
    }

    fn publish(&mut self, share: f64) {
        let now = now(self.ms);
        let [a, b, c] = self.slots;
        let plan = whole(&[(share, a), (1.0 - share, b), (0.0, c)]);
        let revision = self.allocation.next_revision(now);
        self.allocation.publish(Plan { revision, ..plan }, now);
    }

    fn poll(&mut self, index: usize) {
        let real = &mut self.proxies[index];
        if !real.alive || real.ticket.is_some() {
            return;
        }
        let poll = Poll {
            proxy: format!("p{index}"),
            incarnation: real.incarnation,
            workers: 1,
            role: member(self.who[index]).0,
            variant: member(self.who[index]).1.map(String::from),
            version: None,
            after: Revision(real.revision),
        };
        real.ticket = Some(self.allocation.poll(&poll, now(self.ms)).unwrap().0);
    }

    /// Returns whether it took a plan.
    fn answer(&mut self, index: usize, lost: bool) -> bool {
        let real = &mut self.proxies[index];
        let Some(ticket) = real.ticket.take() else {
            return false;
        };
        let before = real.revision;
        match self.allocation.answer(&ticket) {
            Answer::Wait => {
                real.ticket = Some(ticket);
                return false;
            }
            Answer::Refused(why) => {
                let (slots, proxies) = match &why {
                    NoSlots::TooFew(why) => (why.slots, why.proxies),
                    NoSlots::TooFewOf { slots, gates, .. } => (u64::from(*slots), *gates),
                    NoSlots::Unknown { .. } => panic!("{why}"),
                };
                assert!(slots > 0 && slots < proxies as u64, "{why}");
            }
            Answer::Plan(plan) if !lost => {
                assert_eq!(plan.check(), Ok(()));
                assert!(
                    plan.revision.0 > real.revision,
                    "the filter would refuse it"
                );
                real.revision = plan.revision.0;
                real.slots = Some(divide::variant_slots(&plan));
            }
            Answer::Plan(_) => {}
        }
        self.allocation.leave(&ticket, true, now(self.ms));
        self.proxies[index].revision > before
    }

    fn die(&mut self, index: usize) {
        let real = std::mem::take(&mut self.proxies[index]);
        if let Some(ticket) = real.ticket {
            self.allocation.leave(&ticket, false, now(self.ms));
        }
    }

    /// Advances the time; all live proxies poll in time, as working ones do.
    fn advance(&mut self, ms: u64) {
        for _ in 0..ms.div_ceil(100) {
            self.ms += 100;
            for index in 0..self.proxies.len() {
                self.poll(index);
            }
            self.allocation.tick(now(self.ms));
        }
    }

    fn obey(&mut self, event: &Event) {
        match event {
            Event::Poll(proxy) => self.poll(*proxy),
            Event::Answer { proxy, lost } => {
                self.answer(*proxy, *lost);
            }
            Event::Die(proxy) => self.die(*proxy),
            Event::Start(proxy) => {
                self.die(*proxy);
                self.incarnations += 1;
                self.proxies[*proxy].incarnation = self.incarnations;
                self.proxies[*proxy].alive = true;
                self.poll(*proxy);
            }
            Event::Pass { ms } => self.advance(*ms),
            Event::Publish { share } => self.publish(*share),
            Event::Resize { slots } => {
                self.slots = *slots;
                self.publish(0.5);
            }
        }
    }

    /// The slots in use may exceed a whole that shrank until all proxies have heard of it, but they never
    /// grow then.
    fn check(&mut self) {
        for variant in 0..3 {
            let of = |real: &Real| real.slots.as_ref().map_or(0, |slots| slots[variant]);
            let working = self.proxies.iter().map(of).sum();
            let most = self.slots[variant].max(self.working[variant]);
            assert!(working <= most, "variant {variant}: {working} of {most}");
            self.working[variant] = working;
        }
    }

    /// All proxies poll and are answered until nothing moves any more; returns the number of rounds.
    fn converge(&mut self) -> usize {
        let mut quiet = 0;
        for round in 0..200 {
            let mut moved = false;
            for index in 0..self.proxies.len() {
                self.poll(index);
                moved |= self.answer(index, false);
                self.check();
            }
            // Slots freed in this round may be assigned in the next.
            quiet = if moved { 0 } else { quiet + 1 };
            if quiet == 2 {
                return round;
            }
        }
        panic!("it never comes to rest");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn whole_is_never_exceeded_and_finally_divided(
        who in who(),
        slots in prop::array::uniform3(0..6_u32),
        events in prop::collection::vec(event(5), 0..60),
    ) {
        let count = who.len();
        let mut sim = Sim::new(who, slots);
        for event in &events {
            let beyond = match event {
                Event::Poll(proxy)
                | Event::Answer { proxy, .. }
                | Event::Die(proxy)
                | Event::Start(proxy) => *proxy >= count,
                _ => false,
            };
            if !beyond {
                sim.obey(event);
                sim.check();
            }
        }
        // Dead proxies are noticed; then everything comes to rest.
        sim.advance(2 * MOVE_MAX.as_millis() as u64);
        sim.converge();
        let alive: Vec<usize> = (0..count).filter(|index| sim.proxies[*index].alive).collect();
        let parts = expected_slots(&sim.slots, alive.iter().map(|index| sim.who[*index]));
        for (index, part) in alive.iter().zip(parts) {
            let has = sim.proxies[*index].slots.clone().unwrap_or_else(|| vec![0; 3]);
            prop_assert_eq!(&has, &part, "proxy {} of {:?}", index, alive);
        }
    }

    /// The order of the polls does not change the result.
    #[test]
    fn order_of_polls_does_not_matter(
        slots in prop::array::uniform3(0..6_u32),
        order in Just((0..5_usize).collect::<Vec<_>>()).prop_shuffle(),
    ) {
        let mut sim = Sim::new(vec![None; 5], slots);
        for index in &order {
            sim.obey(&Event::Start(*index));
            if index % 2 == 0 {
                sim.converge();
            }
        }
        sim.converge();
        let parts: BTreeMap<usize, Vec<u32>> = (0..).zip(expected_slots(&slots, vec![None; 5].into_iter())).collect();
        for (index, part) in parts {
            let has = sim.proxies[index].slots.clone().unwrap_or_else(|| vec![0; 3]);
            prop_assert_eq!(has, part, "proxy {}", index);
        }
    }
}
