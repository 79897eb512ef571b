//! Resizes that fail or take longer: no plan counts on cores that are not there.

use weir_filter::engine::StreamId;
use weir_filter::variant::VariantId;
use weir_filter::verdict::Verdict;

use super::planner_cycle::{closed_loop, waves};
use super::*;
use crate::plane::Worker;

const PLANNED: Contender = Contender {
    control: Control::Planner,
    ..WEIR
};
/// End of the faults.
const END: Duration = Duration::from_secs(30);

/// Slots of each variant's plan from a time on, ns.
#[derive(Default)]
struct Slots(Vec<(u64, usize, u32)>);

impl Witness for Slots {
    fn on_verdicts(&mut self, _: usize, who: &Worker, _: &[(StreamId, Verdict)], now: u64) {
        for (place, gauge) in who.engine.gauges().enumerate() {
            let name = who.engine.variant_name(VariantId(place as u16)).unwrap();
            let variant = usize::from(&**name == "b");
            let mut before = self
                .0
                .iter()
                .rev()
                .filter(|(_, known, _)| *known == variant);
            if before
                .next()
                .is_none_or(|(.., slots)| *slots != gauge.slots)
            {
                self.0.push((now, variant, gauge.slots));
            }
        }
    }

    fn on_new_engine(&mut self, _: usize) {}
    fn end(&mut self, _: &mut dyn Iterator<Item = &mut Worker>, _: u64) {}
}

/// Plays a rising load with faults. Checks that no plan has more slots than the servers execute at once; returns the
/// greatest number of slots of each variant until the faults end, and the play.
fn checked(faults: &[(Duration, FaultKind)]) -> ([u32; 2], Play) {
    let mut scenario = closed_loop();
    let fault = |(at, what): &(Duration, FaultKind)| Fault {
        at: *at,
        what: *what,
    };
    scenario.faults = faults.iter().map(fault).collect();
    let (play, Slots(slots)) =
        play_with(Slots::default(), &scenario, &waves(60, 250), PLANNED, 1).unwrap();
    let mut most = [0; 2];
    for (at, variant, slots) in slots {
        let at = Duration::from_nanos(at);
        let changes = play.resizes.iter().rev();
        let mut changes = changes.filter(|one| usize::from(one.variant) == variant && one.at <= at);
        let executes = changes.next().map_or(2, |one| one.slots);
        assert!(slots <= executes, "{slots} slots of {executes} at {at:?}");
        if at < END {
            most[variant] = slots.max(most[variant]);
        }
    }
    (most, play)
}

fn lasting(fault: ResizeFault, variant: Option<usize>) -> [(Duration, FaultKind); 1] {
    let what = FaultKind::Resize {
        fault,
        variant,
        lasts: END,
    };
    [(Duration::ZERO, what)]
}

/// First change of actual cores.
fn first(play: &Play) -> Duration {
    play.resizes.first().map_or(Duration::MAX, |one| one.at)
}

#[test]
fn plans_count_only_on_cores_in_force() {
    let (most, well) = checked(&[]);
    assert!(most[0] > 2, "cores move without a fault: {most:?}");
    for fault in [ResizeFault::Refused, ResizeFault::Deferred] {
        let (most, play) = checked(&lasting(fault, None));
        assert_eq!(most, [2, 2], "{fault:?}");
        assert!(first(&play) >= END, "{fault:?}: {:?}", first(&play));
    }
    // Cores that do not grow may still be taken away.
    let (most, play) = checked(&lasting(ResizeFault::Infeasible, None));
    assert_eq!(most, [2, 2]);
    let grows = play.resizes.iter().find(|one| one.cores > 2.0);
    assert!(grows.is_none_or(|one| one.at >= END), "{grows:?}");
    // The usual delay is 100 ms.
    let (_, late) = checked(&lasting(ResizeFault::Late { percent: 4100 }, None));
    let later = first(&late).saturating_sub(first(&well));
    assert!((4..20).contains(&later.as_secs()), "{later:?}");
}

#[test]
fn fault_of_one_variant_leaves_the_other() {
    let (most, play) = checked(&lasting(ResizeFault::Refused, Some(1)));
    assert!(most[0] > 2 && most[1] == 2, "{most:?}");
    let other = play.resizes.iter().find(|one| one.variant == 1);
    assert!(other.is_none_or(|one| one.at >= END), "{other:?}");
}

#[test]
fn interrupted_resizes_have_no_effect() {
    // A resize takes 100 ms.
    let times = (0..END.as_millis() as u64).step_by(50).map(ms);
    let faults: Vec<_> = times
        .map(|at| (at, FaultKind::ResizeInterrupted { variant: None }))
        .collect();
    let (most, play) = checked(&faults);
    assert_eq!(most, [2, 2]);
    let begins = first(&play);
    assert!(
        begins >= END && begins < END + Duration::from_secs(3),
        "{begins:?}"
    );
}
