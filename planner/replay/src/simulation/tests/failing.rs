//! Failing server of one variant, at 0.55 × the capacity of all variants: the others take over its load.

use super::*;

const FAULT_S: std::ops::Range<u64> = 10..20;
/// Length of the scenario.
const END_S: u64 = 35;
/// 55.6 requests/s: a slot of a serves 20, one of b 10, and all slots below 100 together.
const EVERY_MS: u64 = 18;
const BUDGET_MS: u64 = 600;

fn broken(slots: [u32; 2], what: FaultKind) -> Scenario {
    let mut scenario = scenario(slots);
    scenario.length = Duration::from_secs(END_S);
    scenario.proxies.workers = 2;
    let variants = &mut scenario.proxies.plugin["plan"]["variants"];
    let share = f64::from(slots[0]) * 0.2;
    (variants[0]["share"], variants[1]["share"]) = (json!(share), json!(1.0 - share));
    scenario.variants[0].round_trip = ms(1);
    scenario.variants[1].round_trip = ms(1);
    let at = Duration::from_secs(FAULT_S.start);
    scenario.faults = vec![Fault { at, what }];
    scenario
}

/// Counts of the requests sent in these seconds: all, those on time, and those on time by this variant.
fn counts(play: &Play, all: &[Request], sent: std::ops::Range<u64>, by: usize) -> [usize; 3] {
    let sent = Duration::from_secs(sent.start)..Duration::from_secs(sent.end);
    let mut counts = [0; 3];
    for (request, outcome) in all.iter().zip(&play.outcomes) {
        if !sent.contains(&request.sent) {
            continue;
        }
        counts[0] += 1;
        if let Fate::Answered(variant) = outcome.fate
            && outcome.ended <= request.sent + request.budget
        {
            counts[1] += 1;
            counts[2] += usize::from(usize::from(variant) == by);
        }
    }
    counts
}

#[test]
fn failing_variant_is_avoided_until_it_recovers() {
    let times: Vec<_> = (0..END_S * 1000 / EVERY_MS)
        .map(|n| (n * EVERY_MS, BUDGET_MS))
        .collect();
    let all = requests(&times);
    let lasts = Duration::from_secs(FAULT_S.end - FAULT_S.start);
    for (variant, slots) in [(0, [2, 6]), (1, [4, 2])] {
        for what in [
            FaultKind::ServerCrash { variant, lasts },
            FaultKind::ServerErrors { variant, lasts },
        ] {
            let play = play(&broken(slots, what), &all, WEIR, 1).unwrap();
            let of = |sent| counts(&play, &all, sent, variant);
            // Requests in flight at the start of the fault are lost, too.
            let [sent, in_time, _] = of(FAULT_S.start - 1..FAULT_S.end);
            println!("{what:?}: {in_time} of {sent}");
            assert!(in_time * 100 >= sent * 98, "{what:?}: {in_time} of {sent}");
            let [sent, in_time, by_it] = of(FAULT_S.end + 2..END_S);
            assert_eq!(sent, in_time, "{what:?}");
            assert!(by_it > 0, "{what:?}: it does not come back");
            let [.., before] = of(0..5);
            let [.., after] = of(END_S - 5..END_S);
            assert!(before.abs_diff(after) <= 5, "{before}, {after}");
            assert_eq!(of(FAULT_S.start + 1..FAULT_S.end)[2], 0);
        }
    }
}
