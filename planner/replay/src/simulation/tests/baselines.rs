//! The baselines in a closed loop: they stay within the budget, and serve.

use super::planner_cycle::{answered, closed_loop, waves};
use super::*;
use weir_api::Cores;

/// Two variants for 300 s at 40 requests/s on average, which take 5 s to load.
fn scenario() -> Scenario {
    let mut scenario = closed_loop();
    scenario.length = Duration::from_secs(300);
    for (variant, server) in scenario
        .service
        .variants
        .iter_mut()
        .zip(&mut scenario.variants)
    {
        variant.readiness = Duration::from_secs(5);
        server.readiness = Duration::from_secs(5);
    }
    scenario
}

fn cores(play: &Play, second: usize) -> &[f64] {
    &play.seconds[second].cores_actual
}

#[test]
fn baselines_serve_within_the_budget() {
    let (scenario, all) = (scenario(), waves(300, 65));
    for (plane, control, min) in [
        (Plane::Weir, Control::Hpa, 0.97),
        (Plane::Weir, Control::Vpa, 0.9),
        (Plane::Weir, Control::VpaPlus { variant: 0 }, 0.9),
        (Plane::FifoWeights, Control::VpaPlus { variant: 0 }, 0.5),
        (Plane::Weir, Control::MsPlus, 0.9),
        (Plane::FifoQuotas, Control::MsPlus, 0.5),
        (Plane::Weir, Control::InfadapterCode, 0.9),
        (Plane::FifoQuotas, Control::InfadapterCode, 0.5),
        (Plane::Weir, Control::Fa2 { variant: 0 }, 0.9),
        (Plane::Weir, Control::SpongePaper { variant: 0 }, 0.9),
        (Plane::FifoWeights, Control::SpongePaper { variant: 0 }, 0.8),
        (Plane::Weir, Control::SpongeCode { variant: 0 }, 0.8),
    ] {
        let contender = Contender {
            plane,
            control,
            breaker: None,
        };
        let play = play(&scenario, &all, contender, 1).unwrap();
        let name = contender.label(&scenario.service);
        println!("{name}: {}, {} core-s", answered(&play), play.core_seconds);
        assert!(answered(&play) >= min, "{name}: {}", answered(&play));
        for second in &play.seconds {
            // While one variant replaces another, both have their cores, as the programs leave them.
            let replaces = matches!(control, Control::MsPlus | Control::InfadapterCode);
            let cores = match replaces {
                true => &second.cores_target,
                false => &second.cores_actual,
            };
            let cores: f64 = cores.iter().sum();
            assert!(cores <= 8.0 + 1e-9, "{name}: {second:?}");
            let only = control.variant() == Some(0);
            assert!(!only || second.cores_actual[1] == 0.0, "{name}");
        }
        let changes = play.resizes.len();
        assert!(changes > 0 || control == Control::Vpa, "{name}");
    }
}

#[test]
fn static_cores_belong_to_one_variant() {
    let scenario = scenario();
    let control = Control::StaticAt {
        variant: 1,
        cores: Cores::whole(3),
    };
    let play = play(&scenario, &waves(60, 10), Contender { control, ..WEIR }, 1).unwrap();
    assert_eq!(cores(&play, 0), [0.0, 3.0]);
    assert_eq!(play.core_seconds, 900.0);
    assert!(play.outcomes.iter().all(|one| one.fate == B));
}

/// MS+ goes to another variant: both have cores while the new one loads, and quotas follow once it is ready.
#[test]
fn replaced_variant_serves_until_the_other_is_ready() {
    let mut scenario = scenario();
    scenario.service.objective.beta = 0.05;
    let contender = Contender {
        plane: Plane::FifoQuotas,
        control: Control::MsPlus,
        breaker: None,
    };
    let play = play(&scenario, &waves(300, 60), contender, 1).unwrap();
    let changed = play.resizes.first().unwrap().at.as_secs();
    assert_eq!(changed, 125, "{:?}", play.resizes);
    // b alone carries it. It has two cores, and is replaced by a larger one.
    assert_eq!(cores(&play, 123), [2.0, 2.0]);
    let after = cores(&play, 130);
    assert!(after[0] == 0.0 && after[1] > 2.0, "{after:?}");
    assert_eq!(play.seconds[130].shares, [0.0, 1.0]);
}
