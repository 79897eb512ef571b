//! Tests of servers that have left a budget: what they hold counts until they are known to hold nothing.

use super::*;

/// Servers that no service has any more.
struct Servers {
    place: Left,
    held: u32,
}

/// Members, and the servers that have left.
struct Wider {
    bed: Bed,
    left: Vec<Servers>,
}

#[derive(Debug, Clone)]
enum Change {
    Of(Event),
    /// A service is deleted; its servers run on.
    Delete(usize),
    /// A service leaves out servers that have this number of its cores.
    LeaveOut(usize, u32),
    /// Servers that have left get fewer cores by hand.
    Shrink(usize, u32),
    /// They are observed, or do not answer.
    Observe(usize, bool),
}

impl Wider {
    fn held(&self) -> u32 {
        self.bed.held() + self.left.iter().map(|left| left.held).sum::<u32>()
    }

    fn play(&mut self, change: Change) {
        let bed = &mut self.bed;
        match change {
            // Cores of a removed service are not counted: deletions are events of their own here.
            Change::Of(Event::Remove(_) | Event::Term(..)) => {}
            Change::Of(event) => bed.play(event),
            Change::Delete(index) if !bed.members[index].is_removed => {
                let place = bed.budgets.leave(&member_service(NAMES[index]));
                let held = bed.members[index].held();
                bed.members[index] = Member {
                    is_removed: true,
                    ..Member::default()
                };
                let place = place.unwrap();
                self.left.push(Servers { place, held });
            }
            Change::LeaveOut(index, cores) if !bed.members[index].is_removed => {
                let service = member_service(NAMES[index]);
                let member = &mut bed.members[index];
                let held = cores.min(member.actual);
                if member.pending.is_some() || bed.budgets.check_leave_out(&service).is_err() {
                    return;
                }
                let place = bed.budgets.leave_out(&service).unwrap();
                member.actual -= held;
                member.restart();
                self.left.push(Servers { place, held });
            }
            Change::Shrink(index, cores) if !self.left.is_empty() => {
                let index = index % self.left.len();
                let left = &mut self.left[index];
                left.held = left.held.min(cores);
            }
            Change::Observe(index, answers) if !self.left.is_empty() => {
                let index = index % self.left.len();
                let left = &self.left[index];
                if left.place.count(answers.then(|| Cores::whole(left.held))) {
                    assert_eq!(left.held, 0);
                    self.left.remove(index);
                }
            }
            _ => {}
        }
    }
}

fn change() -> impl Strategy<Value = Change> {
    let (index, cores) = (0..NAMES.len(), 0..=BUDGET);
    prop_oneof![
        20 => event().prop_map(Change::Of),
        1 => index.clone().prop_map(Change::Delete),
        1 => (index.clone(), cores.clone()).prop_map(|(i, cores)| Change::LeaveOut(i, cores)),
        2 => (index.clone(), cores).prop_map(|(i, cores)| Change::Shrink(i, cores)),
        3 => (index, any::<bool>()).prop_map(|(i, answers)| Change::Observe(i, answers)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn members_and_servers_that_left_never_hold_more_than_the_budget(
        cores in [0..=4_u32, 0..=4, 0..=4],
        changes in prop::collection::vec(change(), 1..120),
    ) {
        let mut wider = Wider { bed: Bed::new(cores), left: Vec::new() };
        for change in changes {
            wider.play(change.clone());
            prop_assert!(wider.held() <= BUDGET, "{change:?}: {:?}", wider.bed.members);
        }
        // Once all servers that left have stopped, every member gets what the demands let it have.
        while !wider.left.is_empty() {
            wider.play(Change::Shrink(0, 0));
            wider.play(Change::Observe(0, true));
        }
        prop_assert_eq!(wider.bed.without_faults([6, 2, 2]), [6, 2, 2]);
    }
}

#[test]
fn cores_of_a_deleted_service_are_free_once_its_servers_hold_none() {
    let mut bed = Bed::new([6, 5, 1]);
    for index in 0..3 {
        bed.tick(index, 12, Answer::Confirmed);
        bed.play(Event::Demand(index, 1, 1));
    }
    bed.play(Event::Demand(0, 11, 11));
    let left = bed.budgets.leave(&member_service("b")).unwrap();
    assert_eq!(left.name(), "b (left)");
    bed.members[1] = Member {
        is_removed: true,
        ..Member::default()
    };
    for (observed, part) in [
        (None, 6),
        (Some(5), 6),
        (Some(2), 9),
        (None, 9),
        (Some(0), 11),
    ] {
        let ended = left.count(observed.map(Cores::whole));
        assert_eq!(ended, observed == Some(0));
        bed.tick(2, 1, Answer::Confirmed);
        assert_eq!(bed.begin(0), Some(part), "{observed:?}");
        bed.tick(0, part, Answer::Confirmed);
        if !ended {
            let report = bed.members[0].seat.as_ref().unwrap().report().unwrap();
            assert_eq!(report.awaits, ["b (left)"]);
        }
    }
    // Another service of that name brings the cores that it has.
    bed.play(Event::Add(1));
    assert_eq!(bed.begin(0), Some(11));
    bed.end(0);
    let report = bed.members[0].seat.as_ref().unwrap().report().unwrap();
    assert_eq!(report.unknown, ["b"]);
}

#[test]
fn servers_that_are_left_out_hold_all_parts_until_they_are_known() {
    let mut bed = Bed::new([6, 5, 1]);
    for index in 0..3 {
        bed.tick(index, 12, Answer::Confirmed);
        bed.play(Event::Demand(index, 1, 1));
    }
    let left = bed.budgets.leave_out(&member_service("b")).unwrap();
    bed.members[1].actual = 2;
    bed.members[1].restart();
    bed.play(Event::Demand(0, 10, 10));
    for index in [1, 1, 2] {
        bed.tick(index, 1, Answer::Confirmed);
    }
    assert_eq!(bed.begin(0), Some(4));
    bed.end(0);
    left.count(Some(Cores::whole(3)));
    assert_eq!(bed.begin(0), Some(7));
    bed.end(0);
    assert!(left.count(Some(Cores::ZERO)));
    assert_eq!(bed.begin(0), Some(10));
}

/// Servers that left with no cores are out of the budget at once. When they counted on, they ended the place of others that
/// had got their name.
#[test]
fn servers_that_left_without_cores_have_no_place() {
    let mut bed = Bed::new([1, 0, 0]);
    // It has no part while the others are not known.
    bed.tick(2, 0, Answer::Confirmed);
    let without = bed.budgets.leave_out(&member_service("c")).unwrap();
    assert!(without.count(None), "they held none at most");
    bed.members[2].restart();
    for (index, target) in [(0, 0), (1, 0), (2, 0), (2, 5)] {
        bed.play(Event::Demand(2, 0, 6));
        bed.tick(index, target, Answer::Confirmed);
    }
    assert!(bed.members[2].actual > 0);
    let left = bed.budgets.leave_out(&member_service("c")).unwrap();
    assert_eq!(left.name(), without.name());
    assert!(!left.count(None));
}

#[test]
fn places_of_servers_that_left_are_limited() {
    let budgets = SharedBudgets::new(&["pool=64".parse().unwrap()]).unwrap();
    let service = member_service("a");
    budgets.insert(&service);
    let mut all = Vec::new();
    while budgets.check_leave_out(&service).is_ok() {
        all.extend(budgets.leave_out(&service));
    }
    assert_eq!(all.len(), crate::division::SERVICES_MAX - 1);
    assert_eq!(all[1].name(), "a (left 2)");
    let error = budgets.check_leave_out(&service).unwrap_err().to_string();
    assert!(
        error.starts_with("budget.shared: pool; it must be"),
        "{error}"
    );
}
