//! A network that fades, as the planner sees it: by what the filter counts of the way from clients.

use super::steering::closed_loop;
use super::*;
use weir_planner::policy::Sponge;
use weir_planner::service::SharedPolicy;

/// The network's way up while it is as ever.
const WAY_MS: u64 = 50;
/// While it fades: of 1000 ms 99 to 119 are left, as far as the histogram can tell, and a request takes 210
/// on a core, 110 on two, 77 on three.
const FADED_MS: u64 = 900;
/// From when to when it fades, s.
const FADES: std::ops::Range<u64> = 20..40;
/// When the planner is sure to have seen it, and to have forgotten it, s later.
const SEEN: u64 = 3;
const FORGOTTEN: u64 = 14;
/// How long requests are sent, s.
const SENT: u64 = 80;

/// One variant of 200·b/c + 10 ms, a batch at a time, on 1 to 8 cores; its cores and batch by Sponge.
fn sponge() -> Scenario {
    let mut scenario = closed_loop();
    let service = &mut scenario.service;
    service.policy = SharedPolicy::new(Sponge {
        delta: 0.001,
        percentile: 99.0,
    });
    service.slo = ms(1000);
    service.variants.truncate(1);
    service.stages[0].variants = 0..1;
    scenario.variants.truncate(1);
    let one = Parallelism::Fixed(std::num::NonZeroU32::MIN);
    let law = Law {
        gamma_ms: 200.0,
        epsilon_ms: 0.0,
        delta_ms: 0.0,
        eta_ms: 10.0,
    };
    let variant = &mut service.variants[0];
    (variant.least, variant.greatest) = (1, 8);
    variant.profile.parallelism = one;
    variant.profile.batch = 8;
    variant.profile.fit = None;
    variant.profile.latency.tail = 1.0;
    variant.profile.latency.law = law;
    let server = &mut scenario.variants[0];
    (server.law, server.parallelism, server.batch_max) = (law, one, 8);
    scenario.length = Duration::from_secs(SENT);
    scenario
}

/// 4 requests/s, evenly: what one core can do.
fn sent_through_a_fade() -> Vec<Request> {
    let times: Vec<_> = (0..SENT * 4).map(|index| (index * 250, 1000)).collect();
    let mut all = requests(&times);
    for request in &mut all {
        let fades = FADES.contains(&request.sent.as_secs());
        request.arrives = request.sent + ms(if fades { FADED_MS } else { WAY_MS });
        request.head = request.arrives;
    }
    all
}

/// The cores in force at each second's end, and how many of those sent while the fade was known were
/// answered in time.
fn played_through_a_fade(plane: Plane) -> (Vec<f64>, usize) {
    let contender = Contender {
        plane,
        control: Control::Planner,
    };
    let all = sent_through_a_fade();
    let play = play(&sponge(), &all, contender, 1).unwrap();
    let cores = play.seconds.iter().map(|second| second.cores_actuated[0]);
    let known = FADES.start + SEEN..FADES.end;
    let in_time = all.iter().zip(&play.outcomes).filter(|(request, outcome)| {
        known.contains(&request.sent.as_secs())
            && matches!(outcome.fate, Fate::Answered(_))
            && outcome.ended <= request.deadline()
    });
    (cores.collect(), in_time.count())
}

fn during(cores: &[f64], seconds: std::ops::Range<u64>) -> &[f64] {
    &cores[seconds.start as usize..seconds.end as usize]
}

#[test]
fn sponge_takes_cores_while_the_network_fades_and_gives_them_back() {
    let (cores, in_time) = played_through_a_fade(Plane::Weir);
    // By then the demand's window has filled, and the cores at the start are too many.
    let before = during(&cores, FADES.start - SEEN..FADES.start);
    let known = during(&cores, FADES.start + SEEN..FADES.end);
    let after = during(&cores, FADES.end + FORGOTTEN..SENT);
    assert!(before.iter().all(|cores| *cores == 1.0), "{cores:?}");
    assert!(known.iter().all(|cores| *cores == 3.0), "{cores:?}");
    assert!(after.iter().all(|cores| *cores == 1.0), "{cores:?}");
    assert_eq!(in_time as u64, 4 * (FADES.end - FADES.start - SEEN));
}

#[test]
fn where_nobody_says_when_it_was_sent_no_fade_is_seen() {
    let (cores, in_time) = played_through_a_fade(Plane::GatewayReceipt);
    // When it ends, late and early requests come together: twice as many, for a moment.
    let fading = during(&cores, FADES.start - SEEN..FADES.end);
    assert!(fading.iter().all(|cores| *cores == 1.0), "{cores:?}");
    assert_eq!(in_time, 0);
}
