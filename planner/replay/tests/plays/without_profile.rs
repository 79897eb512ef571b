//! Variants without a profile: their servers' times are found in production, and shares go by them. In simulated time; no
//! test depends on wall-clock time.

use std::time::Duration;

use weir_replay::request::{Fate, Play, Request};

use super::scenarios::{played, scenario};

/// Time after which the times are measured.
const MEASURED_AFTER: Duration = Duration::from_secs(30);
/// Largest difference of the on-time parts after that, in percent of the requests.
const WORSE_MAX: f64 = 3.0;

/// Load and servers: mean ms of each, and the number of requests that each executes at once.
struct Case {
    slo: &'static str,
    ms: [f64; 2],
    lanes: u32,
    rps: f64,
}

/// Two servers with these times, with or without profiles that say so.
fn case_played(case: &Case, has_profiles: bool, seed: u64) -> (Vec<Request>, Play) {
    let Case {
        slo,
        ms,
        lanes,
        rps,
    } = case;
    let variant = |name: &str, ms: f64| {
        let profile = match has_profiles {
            true => format!(
                ", accuracy: 0, cores: {{ initial: 1, min: 1, max: 1 }}, \
                 latency: {{ meanMs: {ms}, parallelism: {lanes} }}"
            ),
            false => String::new(),
        };
        format!("{{ name: {name}, cluster: {name}{profile} }}")
    };
    let server = |name: &str, ms: f64| {
        let latency = format!("latency: {{ model: linear, item_ms: {ms}, fixed_ms: 0 }}");
        format!(
            "  {name}: {{ {latency}, parallelism: {lanes}, noise_sigma: 0.2, round_trip_ms: 1 }}\n"
        )
    };
    let [fast, slow] = *ms;
    let text = format!(
        "name: without-profile
seed: {seed}
length_s: 90
service:
  service: demo
  slo: {slo}
  variants: [{}, {}]
servers:
{}{}load: {{ generator: poisson, rps: {rps} }}
contenders: [{{ plane: weir, control: planner }}]
",
        variant("fast", fast),
        variant("slow", slow),
        server("fast", fast),
        server("slow", slow)
    );
    let (scenario, requests) = scenario(&text);
    let (play, _) = played(&scenario, &requests);
    (requests, play)
}

/// Percent of the requests sent after [`MEASURED_AFTER`] that were answered in time.
fn on_time_percent(requests: &[Request], play: &Play) -> f64 {
    let later = requests.iter().zip(&play.outcomes);
    let later = later.filter(|(request, _)| request.sent >= MEASURED_AFTER);
    let (all, on_time) = later.fold((0.0, 0.0), |(all, on_time), (request, outcome)| {
        let answered = matches!(outcome.fate, Fate::Answered(_));
        let in_time = answered && outcome.ended <= request.deadline();
        (all + 1.0, on_time + f64::from(u8::from(in_time)))
    });
    100.0 * on_time / all
}

#[test]
fn variants_without_a_profile_serve_as_with_the_right_ones() {
    for case in [
        // One request at a time, 25 and 6.25 requests/s.
        Case {
            slo: "500ms",
            ms: [40.0, 160.0],
            lanes: 1,
            rps: 0.7 * 31.25,
        },
        // Four at a time: the filters find that more in flight do more.
        Case {
            slo: "500ms",
            ms: [40.0, 160.0],
            lanes: 4,
            rps: 0.7 * 125.0,
        },
        // The start value is 30 s / 1000, thirty times less and as much more.
        Case {
            slo: "30s",
            ms: [1.0, 900.0],
            lanes: 1,
            rps: 0.7 * 1001.0,
        },
    ] {
        for seed in 1..=2 {
            let [known, without] = [true, false].map(|has_profiles| {
                let (requests, play) = case_played(&case, has_profiles, seed);
                let last = play.seconds.last().unwrap();
                println!(
                    "{:?}, {} at once, seed {seed}, profiles {has_profiles}: shares {:?}, {:?}",
                    case.ms, case.lanes, last.shares, last.service_times
                );
                on_time_percent(&requests, &play)
            });
            println!("{known:.2} % on time with profiles, {without:.2} % without");
            assert!(without >= known - WORSE_MAX, "{without} % of {known} %");
        }
    }
}

#[test]
fn shares_are_equal_at_first_and_follow_the_measured_rates() {
    let case = Case {
        slo: "500ms",
        ms: [40.0, 160.0],
        lanes: 1,
        rps: 20.0,
    };
    let (_, play) = case_played(&case, false, 1);
    let first = play.seconds.first().unwrap();
    assert_eq!(first.shares, [0.5, 0.5]);
    for second in &play.seconds {
        assert!(second.shares.iter().all(|share| *share > 0.0), "{second:?}");
    }
    let last = play.seconds.last().unwrap();
    assert!((0.7..0.9).contains(&last.shares[0]), "{:?}", last.shares);
    for (times, ms) in last.service_times.iter().zip(case.ms) {
        let measured = times.correction * times.profile_ms.unwrap();
        assert!(!times.has_profile && !times.replaces_profile);
        assert!((0.85..1.25).contains(&(measured / ms)), "{times:?}");
    }
}
