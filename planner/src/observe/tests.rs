//! One router and two gates, all scraped: no request is counted twice.

use std::time::Duration;

use weir_api::metrics::{Kind, Metric, encode};
use weir_api::{Rps, Share};

use super::counts::counts;
use super::*;

/// Writes counters as Envoy does, with other metrics among them.
fn written(counters: &[(Metric, &str, u32)]) -> String {
    let mut text = String::from("# TYPE envoy_server_live gauge\nenvoy_server_live{} 1\n");
    for (metric, value, count) in counters {
        assert_eq!(metric.kind(), Kind::Counter);
        let name = encode(*metric, "demo", value).replace('-', "_");
        text += &format!("# TYPE {name} counter\n{name}{{}} {count}\n");
    }
    text
}

/// Statistics after this many cycles, in each of which the router saw 100 requests, refused 10, and sent 54 to small
/// and 36 to large-2. Of those for small, 18 were due to large-2 and could not wait. The gates count what they
/// dispatched and answered. Five requests per cycle came to the second gate past the router.
fn path(cycles: u32) -> [String; 3] {
    use Metric::{
        Admitted, Arrivals, Dispatched, DowngradedFrom, DowngradedTo, Late, OnTime, Refused,
        Requests, Served,
    };
    let times = |counters: &[(Metric, &'static str, u32)]| {
        let of = |(metric, value, count): &(Metric, &'static str, u32)| {
            (*metric, *value, count * cycles)
        };
        written(&counters.iter().map(of).collect::<Vec<_>>())
    };
    let router = times(&[
        (Arrivals, "", 100),
        (Admitted, "", 90),
        (Refused, "infeasible", 10),
        (Requests, "small", 54),
        (Requests, "large-2", 36),
        (DowngradedFrom, "large-2", 18),
        (DowngradedTo, "small", 18),
    ]);
    let gate = |arrivals, variant, sent| {
        times(&[
            (Arrivals, "", arrivals),
            (Admitted, "", sent),
            (Refused, "expired", 1),
            (Dispatched, variant, sent - 1),
            (Served, variant, sent - 1),
            (OnTime, variant, sent - 2),
            (Late, variant, 1),
        ])
    };
    [router, gate(0, "small", 54), gate(5, "large-2", 41)]
}

/// Names of the router and the two gates.
const NAMES: [&str; 3] = ["router", "small", "large"];

#[test]
fn router_and_two_gates_count_each_request_once() {
    let quotas = [Share(0.4), Share(0.6)];
    let mut arrivals = Arrivals::new();
    let mut routes = Routes::new(["small", "large-2"].map(String::from).into_iter());
    let mut seen = Observation::default();
    for cycle in 0..10_u32 {
        let at = Duration::from_secs(cycle.into());
        let scrape = |(name, text): (&str, String)| Scrape {
            from: name.into(),
            at,
            counts: Ok(counts(&text, &["demo"])),
        };
        let named = NAMES.into_iter().zip(path(cycle));
        let mut scrapes: Vec<Scrape> = named.map(scrape).collect();
        // In any order of answers.
        scrapes.rotate_left(cycle as usize % NAMES.len());
        seen = arrivals.observe(at, &scrapes, Span::Sample);
        routes.observe(at, &scrapes, &quotas);
    }
    assert_eq!(
        seen.measured,
        Some(Rps(105.0)),
        "100 routed, 5 past the router"
    );
    let routed = routes.routed().unwrap();
    let of =
        |routed: &RoutedShare| [routed.share, routed.quota, routed.downgraded].map(|share| share.0);
    assert_eq!(of(&routed[0]), [0.6, 0.4, 0.0]);
    assert_eq!(of(&routed[1]), [0.4, 0.6, 0.2]);
    assert_eq!(
        routed[1].shortfall("large-2").unwrap(),
        "large-2 got 40 % of 60 %: requests could not wait for it"
    );
}

/// A gate that restarts or is lost does not affect the routed requests.
#[test]
fn restarted_and_lost_gates_do_not_affect_routed_shares() {
    let mut routes = Routes::new(["small", "large-2"].map(String::from).into_iter());
    for cycle in 0..10 {
        let [router, small, _] = path(cycle);
        let at = Duration::from_secs(cycle.into());
        let of = |name: &str, text: &str| Scrape {
            from: name.into(),
            at,
            counts: Ok(counts(text, &["demo"])),
        };
        let lost = Scrape {
            counts: Err(ScrapeError::TooLarge),
            ..of("large", "")
        };
        let gate = of("small", if cycle == 5 { "" } else { &small });
        // One gate is a pod with another name in each cycle.
        let pod = of(&format!("pod-{cycle}"), &small);
        let scrapes = [pod, of("router", &router), gate, lost];
        routes.observe(at, &scrapes, &[Share(0.6), Share(0.4)]);
    }
    let routed = routes.routed().unwrap();
    assert_eq!((routed[0].share, routed[1].share), (Share(0.6), Share(0.4)));
}
