//! Tests of valid scenario files and their values. Tests of invalid ones are in the files below.

mod bad;
mod contenders;
mod fractions;
mod measured;
mod records;
mod replicas;
mod shared;
mod surroundings;

use std::path::PathBuf;
use std::time::Duration;

use super::*;
use crate::file_error::FileError;
use crate::input::{Sending, requests};

const SMALL: &str = "\
name: small
seed: 7
length_s: 20
service:
  service: demo
  slo: 800ms
  budget: {cores: 8}
  variants:
  - name: fast
    cluster: fast
    accuracy: 70
    cores: {initial: 2}
    capacity: {slopeRps: 20, interceptRps: -2}
    latency: {gammaMs: 40, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: per-core}
  - name: good
    cluster: good
    accuracy: 80
    cores: {initial: 2}
    capacity: {slopeRps: 10, interceptRps: -2}
    latency: {gammaMs: 100, epsilonMs: 0, deltaMs: 0, etaMs: 0, parallelism: 2, tail: 1.26}
load: {generator: poisson, rps: 50}
";

/// Folder with a scenario and the files it names.
struct Fixture(tempfile::TempDir);

impl Fixture {
    fn new() -> Fixture {
        let fixture = Fixture(tempfile::tempdir().unwrap());
        fixture.file("rates.txt", "5\n6\n0\n7\n");
        fixture.file(
            "link.log",
            "1 1000 51 3 500000 1000\n2 2000 51 3 9000 1000\n",
        );
        fixture.file(
            "ok.csv",
            "arrival_s,class,budget_ms\n0.5,default,\n1.25,,300\n",
        );
        fixture
    }

    fn file(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).unwrap();
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("scenario.yaml")
    }

    fn read(&self, text: &str) -> Result<(Scenario, Sending), FileError> {
        self.file("scenario.yaml", text);
        read(&self.path(), Overrides::default())
    }

    fn good(&self, text: &str) -> (Scenario, Sending) {
        self.read(text)
            .unwrap_or_else(|refused| panic!("{refused}\n{text}"))
    }

    /// Reads `SMALL` with `what` replaced by `by`, which must fail with an error that contains all `parts`.
    fn bad(&self, what: &str, by: &str, parts: &[&str]) {
        self.bad_in(SMALL, what, by, parts);
    }

    /// The same of another scenario.
    fn bad_in(&self, whole: &str, what: &str, by: &str, parts: &[&str]) {
        assert!(whole.contains(what), "{what}");
        let text = whole.replacen(what, by, 1);
        let Err(refused) = self.read(&text) else {
            panic!("taken: {by}");
        };
        let message = refused.to_string();
        let file = self.0.path().display().to_string();
        assert!(message.starts_with(&file), "names no file: {message}");
        for part in parts {
            assert!(message.contains(part), "'{message}' does not say '{part}'");
        }
    }
}

#[test]
fn shipped_scenarios_are_valid() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let (name, sendings) = match read_any(&path, Overrides::default()).unwrap() {
            ScenarioFile::Single(single) => (single.0.name, vec![single.1]),
            ScenarioFile::Shared(shared, sendings) => (shared.name, sendings),
        };
        assert_eq!(path.file_stem().unwrap(), name.as_str());
        assert!(sendings.iter().all(|one| one.arrivals.len() > 1000));
        names.push(name);
    }
    names.sort();
    assert_eq!(
        names,
        [
            "burst",
            "capacity",
            "measured",
            "overload",
            "pipeline",
            "pipeline-themis",
            "reach-batches",
            "reach-one",
            "reach-one-classes",
            "reach-three",
            "reach-three-classes",
            "replicas",
            "speed",
            "sponge",
            "sponge-demo",
            "swell",
            "two-services",
            "validate",
            "validate-pipeline",
            "validate-replicas"
        ]
    );
}

#[test]
fn commented_out_template_keys_are_valid() {
    let template = include_str!("../../../scenarios/capacity.yaml");
    let mut within = false;
    let mut spelled = String::new();
    let mut taken_in: Vec<&str> = Vec::new();
    for line in template.lines() {
        let bare = line.strip_prefix("# ");
        let key = bare
            .and_then(|bare| bare.split_once(':'))
            .map(|(key, _)| key);
        let begins = ["servers", "classes", "contenders", "faults"]
            .iter()
            .find(|name| key == Some(**name));
        within = begins.is_some() || within && bare.is_some_and(|bare| bare.starts_with(' '));
        taken_in.extend(begins);
        let inner = line.strip_prefix("  # ").map(|inner| format!("  {inner}"));
        spelled += &match (within, bare, inner) {
            (true, Some(bare), _) => bare.to_owned(),
            (_, _, Some(inner)) => inner,
            _ => line.to_owned(),
        };
        spelled.push('\n');
    }
    let (scenario, sending) = Fixture::new().good(&spelled);
    assert_eq!(taken_in, ["servers", "classes", "contenders", "faults"]);
    assert_eq!(scenario.faults.len(), 12);
    assert_eq!(scenario.contenders.len(), 5);
    assert_eq!(scenario.variants[2].latency.ms(1, 1.0), 302.0);
    assert_eq!(sending.clients.clocks.far_off_ms, 600_000.0);
}

#[test]
fn missing_keys_default_to_the_service() {
    let (scenario, sending) = Fixture::new().good(SMALL);
    assert_eq!(
        (scenario.seed, scenario.length),
        (7, Duration::from_secs(20))
    );
    assert_eq!(sending.clients.budget, Duration::from_millis(800));
    assert_eq!(scenario.classes, ["default"]);
    assert_eq!(scenario.contenders.len(), 11);
    let [fast, good] = scenario.variants.as_slice() else {
        panic!("{:?}", scenario.variants);
    };
    assert_eq!(
        (fast.noise_sigma, fast.cores, fast.batch_max),
        (0.0, 2.0, 1)
    );
    assert!(
        (good.noise_sigma - 0.1).abs() < 0.005,
        "{}",
        good.noise_sigma
    );
    // Two at 40 ms, and two at 100 ms.
    assert_eq!((fast.capacity_rps(), good.capacity_rps()), (50.0, 20.0));
    let config = weir_filter::config::Config::parse(scenario.proxies.plugin.to_string().as_bytes());
    let plan = config.unwrap().static_plan.unwrap();
    let slots: Vec<u32> = plan.variants.iter().map(|variant| variant.slots).collect();
    assert_eq!((plan.service.as_str(), slots), ("demo", vec![2, 2]));
}

#[test]
fn loads_of_every_kind_are_parsed() {
    let fixture = Fixture::new();
    let count = |load: &str, length: &str| {
        let text = SMALL
            .replace(
                "load: {generator: poisson, rps: 50}",
                &format!("load: {load}"),
            )
            .replace("length_s: 20\n", length);
        let (scenario, sending) = fixture.good(&text);
        assert!(sending.arrivals.is_sorted_by_key(|arrival| arrival.sent));
        (scenario.length.as_secs(), sending.arrivals.len())
    };
    assert_eq!(count("{records: ok.csv}", ""), (2, 2));
    assert_eq!(count("{records: ok.csv}", "length_s: 1\n"), (1, 1));
    assert_eq!(count("{file: rates.txt}", "").0, 4);
    assert_eq!(
        count("{file: rates.txt, from_s: 1, loop: true}", "length_s: 9\n").0,
        9
    );
    assert_eq!(count("{rates: [0, 3.5, 9]}", "").0, 3);
    for load in [
        "{generator: diurnal, low_rps: 1, high_rps: 9, period_s: 10}",
        "{generator: burst, low_rps: 1, high_rps: 90, low_s: 5, high_s: 2}",
        "{generator: on-off, low_rps: 0, high_rps: 90, low_s: 5, high_s: 2}",
        "{generator: ramp, low_rps: 1, high_rps: 9, scale: 2}",
        "{generator: step, low_rps: 1, high_rps: 9, at_s: 4}",
        "{generator: swell, low_rps: 1, high_rps: 9}",
    ] {
        let (length, requests) = count(load, "length_s: 20\n");
        assert!(length == 20 && requests > 10, "{load}: {requests}");
    }
    // 70 requests/s of capacity: 50 and 20.
    let (_, requests) = count(
        "{generator: ramp, low_rps: 1, high_rps: 3, of_capacity: 1.5}",
        "length_s: 100\n",
    );
    assert!((10_000..11_000).contains(&requests), "{requests}");
}

#[test]
fn seed_is_reproducible_and_command_line_overrides_file() {
    let fixture = Fixture::new();
    let text = SMALL.to_owned()
        + "network: 4g\npayload_bytes: 200000\n\
           clients: {skew_ms: {normal: 20, far_off: 60000, far_off_share: 0.2}}\n\
           classes: [{name: gold, share: 1, min_accuracy: 75}, {name: bulk, share: 3, slo_ms: 2000}]\n\
           faults: [{random: 5}, {at_s: 3, what: server-crash, variant: good, lasts_s: 2}]\n";
    fixture.file("scenario.yaml", &text);
    let with = |seed| {
        let overrides = Overrides {
            seed,
            ..Overrides::default()
        };
        let (scenario, sending) = read(&fixture.path(), overrides).unwrap();
        (requests(scenario.seed, &sending), scenario.faults)
    };
    let (requests, faults) = with(None);
    assert_eq!((&requests, &faults), (&with(Some(7)).0, &with(None).1));
    assert_ne!(requests, with(Some(8)).0);
    assert_ne!(faults, with(Some(8)).1);
    assert_eq!(faults.len(), 6);
    assert!(faults.is_sorted_by_key(|fault| fault.at));
    let bulk = requests.iter().filter(|request| request.class == 1);
    for request in bulk.clone() {
        assert_eq!(
            (request.budget.as_secs(), request.timeout.as_secs()),
            (2, 10)
        );
    }
    let share = bulk.count() as f64 / requests.len() as f64;
    assert!((0.68..0.82).contains(&share), "{share}");
    let far = requests
        .iter()
        .filter(|request| request.skew_ms.abs() == 60_000)
        .count();
    let far = far as f64 / requests.len() as f64;
    assert!((0.15..0.25).contains(&far), "{far}");
    assert!(
        requests
            .iter()
            .all(|request| request.arrives > request.sent)
    );
    let overrides = Overrides {
        of_capacity: Some(3.0),
        ..Overrides::default()
    };
    fixture.file("scenario.yaml", SMALL);
    let (_, sending) = read(&fixture.path(), overrides).unwrap();
    let rate = sending.arrivals.len() as f64 / 20.0;
    assert!((200.0..220.0).contains(&rate), "three times 70: {rate}");
}
