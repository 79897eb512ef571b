//! Tests of shared budgets: no order of ticks, answers, failures and terms lets the members hold more than the budget.

mod left;

use proptest::prelude::*;

use super::*;
use crate::spec::tests::small;

const BUDGET: u32 = 12;
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A service of that name with a minimum of one core, in the budget `pool`.
fn member_service(name: &str) -> Service {
    let text = small().replace("service: demo", &format!("service: {name}"));
    let text = text.replace("cores: 8", &format!("cores: {BUDGET}, shared: pool"));
    Service::from_yaml(&text).unwrap()
}

fn pool() -> SharedBudgets {
    SharedBudgets::new(&[format!("pool={BUDGET}").parse().unwrap()]).unwrap()
}

/// Result of a change of cores.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Confirmed,
    /// Takes effect later.
    Late,
    Refused,
    /// The tick ends in the middle, and its control loop with it; the change may take effect later.
    Interrupted,
}

#[derive(Debug, Clone, Copy)]
enum Event {
    /// Tick of a loop that changes its cores to a number as far as its part covers it.
    Tick(usize, u32, Answer),
    /// Tick during which the backends do not answer.
    Mute(usize),
    Demand(usize, u32, u32),
    /// A late change takes effect.
    Effect(usize),
    /// Another control loop takes the place of one, and knows nothing.
    Restart(usize),
    /// The loop of an earlier term ends its last tick.
    Late(usize),
    /// Another planner has led, and has changed the cores of a service.
    Term(usize, u32),
    Remove(usize),
    Add(usize),
}

/// Servers and control loop of a service.
#[derive(Debug, Default)]
struct Member {
    actual: u32,
    pending: Option<u32>,
    seat: Option<Seat>,
    before: Option<Seat>,
    knows: bool,
    is_removed: bool,
}

impl Member {
    fn held(&self) -> u32 {
        self.actual.max(self.pending.unwrap_or(0))
    }

    fn restart(&mut self) {
        self.before = self.seat.take().or(self.before.take());
        self.knows = false;
    }
}

struct Bed {
    budgets: SharedBudgets,
    members: Vec<Member>,
    term: Duration,
}

impl Bed {
    fn new(cores: [u32; 3]) -> Bed {
        let budgets = pool();
        for name in NAMES {
            budgets.check(&member_service(name)).unwrap();
            budgets.insert(&member_service(name));
        }
        let member = |actual| Member {
            actual,
            ..Member::default()
        };
        Bed {
            budgets,
            members: cores.map(member).into(),
            term: Duration::ZERO,
        }
    }

    fn held(&self) -> u32 {
        self.members.iter().map(Member::held).sum()
    }

    /// Begins a tick; returns its part.
    fn begin(&mut self, index: usize) -> Option<u32> {
        let (budgets, term) = (&self.budgets, self.term);
        let member = &mut self.members[index];
        let seat = || budgets.seat(&member_service(NAMES[index]), term).unwrap();
        let seat = member.seat.get_or_insert_with(seat);
        if member.knows { seat.begin() } else { None }
    }

    fn end(&mut self, index: usize) {
        let member = &self.members[index];
        let reserved = member.knows.then(|| Cores::whole(member.held()));
        member.seat.as_ref().unwrap().end(reserved);
    }

    fn tick(&mut self, index: usize, target: u32, answer: Answer) {
        let part = self.begin(index);
        let member = &mut self.members[index];
        member.knows = true;
        let target = part.map_or(member.actual, |part| part.min(target));
        if target != member.actual && member.pending.is_none() {
            match answer {
                Answer::Confirmed => member.actual = target,
                Answer::Late => member.pending = Some(target),
                Answer::Refused => {}
                Answer::Interrupted => {
                    member.pending = Some(target);
                    member.restart();
                    return;
                }
            }
        }
        self.end(index);
    }

    /// Lets all members have these needs, and no fault any more; returns the cores that each then has.
    fn without_faults(&mut self, needs: [u32; 3]) -> Vec<u32> {
        for index in 0..NAMES.len() {
            self.play(Event::Add(index));
            self.play(Event::Effect(index));
        }
        for _ in 0..4 {
            for (index, need) in needs.into_iter().enumerate() {
                self.tick(index, need, Answer::Confirmed);
                self.play(Event::Demand(index, need, need));
            }
        }
        self.members.iter().map(|member| member.actual).collect()
    }

    fn play(&mut self, event: Event) {
        let removed = |bed: &Bed, index: usize| bed.members[index].is_removed;
        match event {
            Event::Tick(index, target, answer) if !removed(self, index) => {
                self.tick(index, target, answer);
            }
            Event::Mute(index) if !removed(self, index) => {
                self.begin(index);
                self.end(index);
            }
            Event::Demand(index, need, preferred) => {
                let preferred = need.max(preferred);
                if let Some(seat) = &self.members[index].seat {
                    seat.demand(CoreDemand { need, preferred });
                }
            }
            Event::Effect(index) => {
                let member = &mut self.members[index];
                member.actual = member.pending.take().unwrap_or(member.actual);
            }
            Event::Restart(index) => self.members[index].restart(),
            Event::Late(index) => {
                if let Some(seat) = &self.members[index].before {
                    // Nothing of an earlier loop counts in a later term.
                    if seat.term < self.term {
                        seat.begin();
                        seat.end(Some(Cores::ZERO));
                    }
                }
            }
            Event::Term(index, cores) => {
                self.term += Duration::from_secs(1);
                self.members.iter_mut().for_each(Member::restart);
                let free = BUDGET - (self.held() - self.members[index].held());
                let member = &mut self.members[index];
                if !member.is_removed && member.pending.is_none() {
                    member.actual = cores.min(free);
                }
            }
            Event::Remove(index) => {
                self.budgets.remove(NAMES[index]);
                self.members[index] = Member {
                    is_removed: true,
                    ..Member::default()
                };
            }
            Event::Add(index) if removed(self, index) => {
                self.budgets.insert(&member_service(NAMES[index]));
                self.members[index].is_removed = false;
            }
            _ => {}
        }
    }
}

fn event() -> impl Strategy<Value = Event> {
    let (index, cores) = (0..NAMES.len(), 0..=BUDGET + 2);
    let answer = prop_oneof![
        4 => Just(Answer::Confirmed),
        2 => Just(Answer::Late),
        1 => Just(Answer::Refused),
        1 => Just(Answer::Interrupted),
    ];
    prop_oneof![
        12 => (index.clone(), cores.clone(), answer).prop_map(|(i, target, answer)| Event::Tick(i, target, answer)),
        6 => (index.clone(), cores.clone(), cores.clone()).prop_map(|(i, n, w)| Event::Demand(i, n, w)),
        4 => index.clone().prop_map(Event::Effect),
        1 => index.clone().prop_map(Event::Mute),
        1 => index.clone().prop_map(Event::Restart),
        1 => index.clone().prop_map(Event::Late),
        1 => (index.clone(), cores).prop_map(|(i, cores)| Event::Term(i, cores)),
        1 => index.clone().prop_map(Event::Remove),
        1 => index.prop_map(Event::Add),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn members_never_hold_more_than_the_budget(
        cores in [0..=4_u32, 0..=4, 0..=4],
        events in prop::collection::vec(event(), 1..120),
    ) {
        let mut bed = Bed::new(cores);
        for event in events {
            bed.play(event);
            prop_assert!(bed.held() <= BUDGET, "{event:?}: {:?}", bed.members);
        }
        // Without further faults every member gets what the demands let it have.
        prop_assert_eq!(bed.without_faults([6, 2, 2]), [6, 2, 2]);
    }
}

/// Part of each member, in steps; `None` while it may change nothing.
fn parts(bed: &mut Bed) -> Vec<Option<u32>> {
    let mut parts = Vec::new();
    for index in 0..NAMES.len() {
        parts.push(bed.begin(index));
        bed.end(index);
    }
    parts
}

#[test]
fn member_begins_with_what_it_has_and_grows_once_all_are_known() {
    let mut bed = Bed::new([5, 3, 0]);
    assert_eq!(parts(&mut bed), [None, None, None]);
    for (index, expected) in [
        (0, [Some(5), None, None]),
        (1, [Some(5), Some(3), None]),
        // The third has less than its minimum until all are known.
        (2, [Some(5), Some(3), Some(1)]),
    ] {
        bed.tick(index, 9, Answer::Confirmed);
        let (need, preferred) = (8, 8);
        bed.play(Event::Demand(0, need, preferred));
        let expected = match index {
            // The demand of the first is met as soon as nobody is unknown.
            2 => [Some(8), Some(3), Some(1)],
            _ => expected,
        };
        assert_eq!(parts(&mut bed), expected, "{index}");
    }
}

#[test]
fn service_that_is_no_member_yet_holds_all_parts() {
    let mut bed = Bed::new([5, 3, 1]);
    let expected = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        BTreeMap::from([("pool".to_owned(), names)])
    };
    let all = expected(&["a", "b", "c", "refused"]);
    for (expected, unknown) in [(None, 0), (Some(&all), 1)] {
        bed.budgets.expect(expected);
        for index in 0..3 {
            bed.tick(index, 9, Answer::Confirmed);
            bed.play(Event::Demand(index, 2, 2));
        }
        bed.play(Event::Demand(0, 8, 8));
        assert_eq!(parts(&mut bed), [Some(5), Some(3), Some(1)]);
        let report = bed.members[0].seat.as_ref().unwrap().report().unwrap();
        assert_eq!(report.unknown.len(), unknown);
    }
    bed.budgets.expect(Some(&expected(&["a", "b", "c"])));
    for _ in 0..2 {
        for (index, target) in [8, 2, 2].into_iter().enumerate() {
            bed.tick(index, target, Answer::Confirmed);
        }
    }
    assert_eq!(bed.begin(0), Some(8));
}

#[test]
fn failed_loop_keeps_its_cores_and_report_names_it() {
    let mut bed = Bed::new([6, 6, 0]);
    for index in 0..3 {
        bed.tick(index, 12, Answer::Confirmed);
    }
    bed.play(Event::Demand(0, 10, 10));
    bed.play(Event::Demand(1, 1, 1));
    bed.play(Event::Demand(2, 1, 1));
    // The second has a smaller part at once, and its loop fails before it releases anything.
    bed.members[1].restart();
    let report = bed.members[0].seat.as_ref().unwrap().report().unwrap();
    assert_eq!(report.part, Some(Cores::whole(6)));
    assert_eq!(
        (report.need, report.preferred),
        (Some(Cores::whole(10)), Some(Cores::whole(10)))
    );
    assert_eq!(
        (report.awaits, report.unknown),
        (vec!["b".to_owned()], Vec::new())
    );
    bed.tick(1, 1, Answer::Confirmed);
    assert_eq!(bed.members[1].actual, 6, "it observes before it acts");
    bed.tick(1, 1, Answer::Confirmed);
    assert_eq!(parts(&mut bed), [Some(10), Some(1), Some(1)]);
    // A new term knows nothing.
    bed.play(Event::Term(0, 6));
    assert_eq!(parts(&mut bed), [None, None, None]);
    let report = bed.members[0].seat.as_ref().unwrap().report().unwrap();
    assert_eq!((report.part, report.unknown.len()), (None, 2));
}

#[test]
fn cores_of_a_removed_member_are_not_counted() {
    let mut bed = Bed::new([6, 6, 0]);
    for index in 0..3 {
        bed.tick(index, 12, Answer::Confirmed);
        bed.play(Event::Demand(index, 6, 6));
    }
    bed.play(Event::Demand(0, 11, 11));
    bed.play(Event::Remove(1));
    bed.tick(2, 0, Answer::Confirmed);
    bed.play(Event::Demand(2, 1, 1));
    let part = bed.begin(0);
    assert_eq!(part, Some(11));
}

#[test]
fn two_sizes_of_one_budget_are_refused() {
    let sizes = |texts: &[&str]| -> Vec<SharedBudgetArgument> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    };
    let error = SharedBudgets::new(&sizes(&["a=3", "b=3", "a=4"])).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--shared-budget: a=4; it must be one size: the name is given twice"
    );
    let many: Vec<String> = (0..=BUDGETS_MAX).map(|n| format!("b{n}=1")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let error = SharedBudgets::new(&sizes(&many)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--shared-budget: 65; it must be given at most 64 times"
    );
}

#[test]
fn services_beyond_the_limit_are_refused() {
    let budgets = SharedBudgets::new(&["pool=64".parse().unwrap()]).unwrap();
    for index in 0..crate::division::SERVICES_MAX {
        let service = member_service(&format!("s{index}"));
        budgets.check(&service).unwrap();
        budgets.insert(&service);
    }
    let error = budgets.check(&member_service("more")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "budget.shared: pool; it must be another one: 16 services share it already, no more"
    );
    // One that is in it already may change.
    assert_eq!(budgets.check(&member_service("s3")), Ok(()));
}
