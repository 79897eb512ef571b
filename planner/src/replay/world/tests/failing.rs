//! A variant whose server fails, at 0.55 × of what all can carry together: the others carry what it cannot.

use super::*;

const FAULT_S: std::ops::Range<u64> = 10..20;
/// 20 requests/s of a slot of a, 10 of a slot of b, together 40; the others can carry what either leaves.
const EVERY_MS: u64 = 45;
const BUDGET_MS: u64 = 600;

fn two_workers(faults: Vec<Fault>) -> Scenario {
    let mut scenario = scenario([2, 2]);
    scenario.length = Duration::from_secs(30);
    scenario.proxies.workers = 2;
    let variants = &mut scenario.proxies.plugin["plan"]["variants"];
    (variants[0]["share"], variants[1]["share"]) = (json!(0.5), json!(0.5));
    scenario.variants[0].round_trip = ms(1);
    scenario.variants[1].round_trip = ms(1);
    scenario.faults = faults;
    scenario
}

/// How many were sent, and how many of them were answered in time, of those sent in `seconds`.
fn on_time(play: &Play, all: &[Request], seconds: std::ops::Range<u64>) -> (usize, usize) {
    let range = Duration::from_secs(seconds.start)..Duration::from_secs(seconds.end);
    let of_them = all.iter().zip(&play.outcomes);
    let of_them = of_them.filter(|(request, _)| range.contains(&request.sent));
    let in_time = |(request, outcome): &(&Request, &Outcome)| {
        let answered = matches!(outcome.fate, Fate::Answered(_));
        answered && outcome.ended <= request.sent + request.budget
    };
    (of_them.clone().count(), of_them.filter(in_time).count())
}

#[test]
fn a_variant_that_fails_is_left_and_comes_back() {
    let times: Vec<_> = (0..30_000 / EVERY_MS)
        .map(|n| (n * EVERY_MS, BUDGET_MS))
        .collect();
    let all = requests(&times);
    let lasts = Duration::from_secs(FAULT_S.end - FAULT_S.start);
    for variant in 0..2 {
        for what in [
            FaultKind::ServerCrash { variant, lasts },
            FaultKind::ServerErrors { variant, lasts },
        ] {
            let at = Duration::from_secs(FAULT_S.start);
            let scenario = two_workers(vec![Fault { at, what }]);
            let play = play(&scenario, &all, WEIR, 1).unwrap();
            let (sent, served) = on_time(&play, &all, FAULT_S);
            assert!(served * 100 >= sent * 95, "{what:?}: {served} of {sent}");
            println!("{what:?}: {served} of {sent}");
            let (sent, served) = on_time(&play, &all, FAULT_S.start + 2..FAULT_S.end);
            println!("{what:?} from 2 s on: {served} of {sent}");
            // Back: the failed one has its share again.
            let share = |seconds: std::ops::Range<u64>| {
                let fate = Fate::Answered(variant as u16);
                let there = |n: &usize| play.outcomes[*n].fate == fate;
                let at = |second: u64| (second * 1000 / EVERY_MS) as usize;
                (at(seconds.start)..at(seconds.end)).filter(there).count()
            };
            let (before, during, after) = (share(0..9), share(11..20), share(21..30));
            println!("{before} {during} {after}");
            assert_eq!(during, 0);
            let back = FAULT_S.end
                + if matches!(what, FaultKind::ServerCrash { .. }) {
                    2
                } else {
                    8
                };
            assert!(share(back..30) > 0);
        }
    }
}
