//! Network whose latency rises, as the planner sees it through the filter's network latency histogram.

use super::planner_cycle::closed_loop;
use super::*;
use weir_planner::policy::Sponge;
use weir_planner::service::SharedPolicy;

/// Normal uplink latency.
const WAY_MS: u64 = 50;
/// Uplink latency during the fade. By the histogram's resolution 99 to 119 of 1000 ms are left. A request
/// takes 210 ms on one core, 110 on two, 77 on three.
const FADED_MS: u64 = 900;
/// Start and end of the fade, s.
const FADES: std::ops::Range<u64> = 20..40;
/// Time after which the planner surely has detected it, s; `FORGOTTEN`: has forgotten it.
const SEEN: u64 = 3;
const FORGOTTEN: u64 = 14;
/// Length of the load, s.
const SENT: u64 = 80;

/// One variant of 200·b/c + 10 ms, one batch at a time, on 1 to 8 cores, with policy Sponge.
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
    let latency = LatencyModel {
        gamma_ms: 200.0,
        epsilon_ms: 0.0,
        delta_ms: 0.0,
        eta_ms: 10.0,
    };
    let variant = &mut service.variants[0];
    (variant.min, variant.max) = (1, 8);
    variant.profile.parallelism = one;
    variant.profile.batch = 8;
    variant.profile.fit = None;
    variant.profile.utilisation = 1.0;
    variant.profile.latency.tail = 1.0;
    variant.profile.latency.model = latency;
    let server = &mut scenario.variants[0];
    (server.latency, server.parallelism, server.batch_max) = (latency.into(), one, 8);
    scenario.length = Duration::from_secs(SENT);
    scenario
}

/// 4 requests/s, evenly: the capacity of one core.
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

/// Actual cores at each second's end, and the number of on-time answers to requests sent while the fade
/// was known.
fn played_through_a_fade(plane: Plane) -> (Vec<f64>, usize) {
    let contender = Contender {
        plane,
        control: Control::Planner,
        breaker: None,
    };
    let all = sent_through_a_fade();
    let play = play(&sponge(), &all, contender, 1).unwrap();
    let cores = play.seconds.iter().map(|second| second.cores_actual[0]);
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
fn sponge_adds_cores_during_network_fade_and_releases_them() {
    let (cores, in_time) = played_through_a_fade(Plane::Weir);
    // By then the demand's window has filled, and the initial cores are too many.
    let before = during(&cores, FADES.start - SEEN..FADES.start);
    let known = during(&cores, FADES.start + SEEN..FADES.end);
    let after = during(&cores, FADES.end + FORGOTTEN..SENT);
    assert!(before.iter().all(|cores| *cores == 1.0), "{cores:?}");
    assert!(known.iter().all(|cores| *cores == 3.0), "{cores:?}");
    assert!(after.iter().all(|cores| *cores == 1.0), "{cores:?}");
    assert_eq!(in_time as u64, 4 * (FADES.end - FADES.start - SEEN));
}

#[test]
fn without_client_timestamps_fade_is_not_detected() {
    let (cores, in_time) = played_through_a_fade(Plane::GatewayReceipt);
    // At its end late and early requests arrive together: twice the rate, for a moment.
    let fading = during(&cores, FADES.start - SEEN..FADES.end);
    assert!(fading.iter().all(|cores| *cores == 1.0), "{cores:?}");
    assert_eq!(in_time, 0);
}
