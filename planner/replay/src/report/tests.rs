//! Tests of the report, with plays made by hand and by formula.

use std::fs;
use std::path::Path;
use std::time::Duration;

use weir_sim::server::{BatchWindow, LatencyModel, Parallelism};

use super::*;
use crate::bound::{Kind, MinKind};
use crate::request::{Fate, Outcome, Second};
use crate::scenario::{LoadBalancing, Proxies, Server};
use crate::simulation::tests::two_variants;

mod cost;

/// Two variants, a (70 %) and b (80 %), with 4 and 2 initial cores.
pub(crate) fn scenario(length_s: u64) -> Scenario {
    let server = |name: &str, gamma_ms, cores| Server {
        name: name.to_owned(),
        latency: LatencyModel {
            gamma_ms,
            ..LatencyModel::default()
        }
        .into(),
        parallelism: Parallelism::PerCore,
        batch_max: 1,
        batch_delay: Duration::ZERO,
        batch_window: BatchWindow::default(),
        noise_sigma: 0.0,
        readiness: Duration::ZERO,
        resize_delay: Duration::from_millis(200),
        round_trip: Duration::ZERO,
        cores,
        replicas: None,
    };
    Scenario {
        name: "a <day> & a night".to_owned(),
        seed: 7,
        length: Duration::from_secs(length_s),
        service: two_variants(),
        variants: vec![server("a", 40.0, 4.0), server("b", 80.0, 2.0)],
        classes: vec!["default".to_owned()],
        proxies: Proxies {
            count: 1,
            workers: 2,
            plugin: serde_json::Value::Null,
            later_plugins: Vec::new(),
            plan_delay: Duration::ZERO,
            notify_delay: Duration::ZERO,
            load_balancing: LoadBalancing::default(),
        },
        contenders: Vec::new(),
        faults: Vec::new(),
    }
}

fn request(id: u32, sent: Duration, min_accuracy: f64) -> Request {
    Request {
        head: sent + Duration::from_millis(100),
        arrives: sent + Duration::from_millis(100),
        way_back: Duration::from_millis(50),
        min_accuracy,
        ..Request::new(id, sent, Duration::from_secs(1))
    }
}

pub(crate) fn play(contender: &str, outcomes: Vec<Outcome>, seconds: Vec<Second>) -> Play {
    Play {
        contender: contender.to_owned(),
        outcomes,
        passages: Vec::new(),
        seconds,
        initial: Vec::new(),
        resizes: Vec::new(),
        core_seconds: 12.345_678,
        variant_core_seconds: Vec::new(),
        plans: vec![Duration::ZERO; 3],
        events: 0,
    }
}

/// Seven requests, a second apart, with every kind of outcome.
fn by_hand() -> (Scenario, Vec<Request>, Play) {
    let fates = [
        (Fate::Answered(0), 400, 0.0),
        (Fate::Answered(1), 1000, 80.0),
        (Fate::Answered(0), 500, 80.0),
        (Fate::Answered(1), 1001, 0.0),
        (Fate::Refused("infeasible"), 100, 0.0),
        (Fate::Disconnected, 5000, 0.0),
        (Fate::Lost, 300, 0.0),
    ];
    let sent = |id: usize| Duration::from_secs(id as u64);
    let requests = fates.iter().enumerate();
    let requests = requests
        .map(|(id, (.., min_accuracy))| request(id as u32, sent(id), *min_accuracy))
        .collect();
    let outcomes = fates
        .iter()
        .enumerate()
        .map(|(id, (fate, took_ms, _))| Outcome {
            request: id as u32,
            fate: *fate,
            ended: sent(id) + Duration::from_millis(*took_ms),
            dispatched: Some(sent(id) + Duration::from_millis(120)),
        });
    (
        scenario(7),
        requests,
        play("weir", outcomes.collect(), Vec::new()),
    )
}

/// A replay with oscillating load and `contenders` contenders of different quality.
fn made_up(length_s: u64, contenders: usize) -> (Scenario, Vec<Request>, Vec<Play>) {
    let rate = |second: u64| 40 + (second * 37 / length_s.max(1)) * 3 % 60;
    let mut requests: Vec<Request> = Vec::new();
    for second in 0..length_s {
        for part in 0..rate(second) {
            let sent = Duration::from_secs(second)
                + Duration::from_secs(1) * part as u32 / rate(second) as u32;
            requests.push(request(requests.len() as u32, sent, 0.0));
        }
    }
    let names = [
        "weir + planner",
        "weir-global + planner",
        "edf-without-feasibility + planner",
        "gateway-receipt + planner",
        "fifo-round-robin + static",
        "fifo-weights + hpa",
        "fifo-timeout + vpa",
        "weir + static",
        "weir + hpa",
    ];
    let one = |index: usize| {
        let outcome = |request: &Request| {
            let chance = (u64::from(request.id) * 7919 + index as u64 * 31) % 100;
            let took = 180 + chance * 4 + 60 * index as u64 + rate(request.sent.as_secs()) * 2;
            let fate = match chance {
                0..2 => Fate::Disconnected,
                x if x < 3 + 3 * index as u64 => {
                    Fate::Refused(["expired", "infeasible", "queue-full"][x as usize % 3])
                }
                _ => Fate::Answered(u16::from(chance > 60)),
            };
            Outcome {
                request: request.id,
                fate,
                ended: request.sent + Duration::from_millis(took),
                dispatched: (chance > 10)
                    .then(|| request.arrives + Duration::from_millis(took / 2)),
            }
        };
        let second = |second: u64| {
            let cores = if index < 4 {
                (rate(second) / 15) as f64
            } else {
                4.0
            };
            let target = if index < 4 {
                (rate(second + 2) / 15) as f64
            } else {
                4.0
            };
            Second {
                demand_rps: (index < 4).then(|| rate(second) as f64 * (1.1 + 0.02 * index as f64)),
                cores_target: vec![target, 2.0],
                cores_actual: vec![cores, 2.0],
                shares: vec![cores / (cores + 2.0), 2.0 / (cores + 2.0)],
                service_times: Vec::new(),
            }
        };
        let outcomes = requests.iter().map(outcome).collect();
        let name = names.get(index).copied().unwrap_or("another");
        play(name, outcomes, (0..length_s).map(second).collect())
    };
    let plays = (0..contenders).map(one).collect();
    (scenario(length_s), requests, plays)
}

fn reported(length_s: u64, contenders: usize) -> Report {
    let (scenario, requests, plays) = made_up(length_s, contenders);
    let yardsticks = yardsticks(&scenario, &requests, &plays);
    Report::new(&scenario, &requests, &plays, &yardsticks).unwrap()
}

#[test]
fn each_outcome_is_counted_once() {
    let (scenario, requests, play) = by_hand();
    let yardsticks = yardsticks(&scenario, &requests, std::slice::from_ref(&play));
    let report = Report::new(&scenario, &requests, &[play], &yardsticks).unwrap();
    let [sum] = report.contenders() else {
        panic!("one contender");
    };
    let counts = (
        sum.sent,
        sum.on_time,
        sum.too_inaccurate,
        sum.late,
        sum.disconnected,
        sum.lost,
    );
    assert_eq!(counts, (7, 2, 1, 1, 1, 1));
    assert_eq!(sum.refused, [("infeasible", 1)].into());
    assert_eq!(sum.on_time_percent, 28.571);
    let latencies = [sum.p50_ms, sum.p95_ms, sum.p99_ms, sum.max_ms];
    assert_eq!(
        latencies,
        [Some(500.0), Some(1001.0), Some(1001.0), Some(1001.0)]
    );
    assert_eq!((sum.mean_accuracy, sum.core_seconds), (Some(75.0), 12.346));
    let bound = sum.bound.as_ref().unwrap();
    assert_eq!((bound.bound.on_time, bound.bound.kind), (7, Kind::Upper));
    assert_eq!(bound.reached_percent, Some(28.571));
    // Six cores for the first 0.2 s; one of the two requests is not in that time.
    let min = sum.min_core_seconds.as_ref().unwrap();
    assert_eq!(
        (min.core_seconds, min.kind, min.on_time),
        (1.24, MinKind::Lower, 2)
    );
}

#[test]
fn each_class_is_counted_separately() {
    let (mut scenario, mut requests, play) = by_hand();
    let plays = [play];
    let one = Report::new(&scenario, &requests, &plays, &[]).unwrap();
    assert_eq!(one.contenders()[0].classes, []);
    scenario.classes = ["live", "free", "nobody"].map(str::to_owned).to_vec();
    requests[1].class = 1;
    requests[2].class = 1;
    let report = Report::new(&scenario, &requests, &plays, &[]).unwrap();
    let classes = report.contenders()[0].classes.iter();
    let counts: Vec<_> = classes
        .map(|class| {
            (
                &*class.name,
                class.sent,
                class.on_time,
                class.on_time_percent,
            )
        })
        .collect();
    assert_eq!(
        counts,
        [
            ("live", 5, 1, 20.0),
            ("free", 2, 1, 50.0),
            ("nobody", 0, 0, 0.0)
        ]
    );
    assert!(report.table().contains("   free"), "{}", report.table());
}

#[test]
fn json_is_reproducible_to_the_byte() {
    let (scenario, requests, play) = by_hand();
    let plays = [play];
    let yardsticks = yardsticks(&scenario, &requests, &plays);
    let json = || {
        let report = Report::new(&scenario, &requests, &plays, &yardsticks).unwrap();
        report.json().unwrap()
    };
    assert_eq!(json(), include_str!("tests/by_hand.json"));
}

#[test]
fn inconsistent_outcomes_are_refused() {
    let (scenario, requests, mut play) = by_hand();
    play.outcomes.swap(0, 1);
    let new = |play: &Play, yardsticks: &[(Bound, Option<MinCoreSeconds>)]| {
        let report = Report::new(&scenario, &requests, std::slice::from_ref(play), yardsticks);
        report.unwrap_err().to_string()
    };
    assert!(new(&play, &[]).contains("every request ends once"));
    play.outcomes.pop();
    assert!(new(&play, &[]).contains("weir: 6 outcomes of 7 requests"));
    let (_, _, good) = by_hand();
    let bound = Bound {
        on_time: 1,
        kind: Kind::Exact,
        method: "",
        why: String::new(),
    };
    let two = [(bound.clone(), None), (bound, None)];
    assert!(new(&good, &two).contains("1 plays and 2 yardsticks"));
}

#[test]
fn page_is_self_contained_and_names_are_escaped() {
    let page = reported(60, 9).html();
    assert_eq!(page, reported(60, 9).html());
    for foreign in ["<script", "href=", "src=", "url(", "@import", "<day>"] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let elsewhere = page.matches("http").count();
    let named = page.matches("http://www.w3.org/2000/svg").count();
    assert_eq!(elsewhere, named, "addresses other than SVG's own name");
    for shown in [
        "a &lt;day&gt; &amp; a night",
        "What became of the requests",
        "Offered load and forecast",
        "On time",
        "Latency",
        "Slack at dispatch",
        "Accuracy",
        "Target and actual cores",
        "Quotas of the variants: weir + planner",
        "refused: infeasible",
        "bound: most on time",
        "forecast: weir + planner",
        "median budget",
    ] {
        assert!(page.contains(shown), "{shown}");
    }
    assert!(
        !page.contains("Quotas of the variants: weir + static"),
        "they never change"
    );
    assert!(!page.contains("#010203"), "the ink is the page's");
}

#[test]
fn long_replay_does_not_enlarge_page() {
    let hour = reported(3600, 2).html().len();
    assert!(hour < 400_000, "{hour} bytes");
}

#[test]
fn empty_replay_is_reported() {
    let report = Report::new(&scenario(0), &[], &[], &[]).unwrap();
    assert!(report.html().contains("0 requests"));
    let none = play("weir", Vec::new(), Vec::new());
    let yardsticks = yardsticks(&scenario(0), &[], std::slice::from_ref(&none));
    let report = Report::new(&scenario(0), &[], &[none], &yardsticks).unwrap();
    assert!(report.table().contains("weir"));
    assert_eq!(
        report.contenders()[0]
            .bound
            .as_ref()
            .unwrap()
            .reached_percent,
        None
    );
}

#[test]
fn report_is_written_atomically() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("deep/report");
    let report = reported(10, 1);
    check(&folder).unwrap();
    report.write(&folder).unwrap();
    for file in FILES {
        assert!(fs::metadata(folder.join(file)).unwrap().len() > 0, "{file}");
    }
    // Again, over an earlier report with a missing file and a changed one.
    fs::remove_file(folder.join("report.txt")).unwrap();
    fs::write(folder.join("report.json"), "old").unwrap();
    report.write(&folder).unwrap();
    assert_eq!(
        fs::read_to_string(folder.join("report.json")).unwrap(),
        report.json().unwrap()
    );
    let beside: Vec<_> = fs::read_dir(place.path().join("deep")).unwrap().collect();
    assert_eq!(beside.len(), 1, "{beside:?}");

    fs::write(folder.join("thesis.tex"), "years").unwrap();
    let refused = report.write(&folder).unwrap_err().to_string();
    assert!(
        refused.contains("thesis.tex is not of a report"),
        "{refused}"
    );
    assert_eq!(
        fs::read_to_string(folder.join("thesis.tex")).unwrap(),
        "years"
    );
    for nameless in ["/", "..", ""] {
        let refused = check(Path::new(nameless)).unwrap_err();
        assert!(
            matches!(refused, ReportError::Nameless { .. }),
            "{nameless}: {refused}"
        );
    }
    let file = folder.join("report.html");
    assert!(check(&file).is_err(), "a file is no folder");
}
