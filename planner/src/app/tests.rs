//! Control loops of two services in one budget, in paused time, with seeded faults.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use weir_api::Cores;

use super::*;
use crate::backends::{ActuateError, NotReplaced};
use crate::capacity::{Actual, Allocation, Resize};
use crate::observe::{Counts, Scrape, ScrapeError};
use crate::shared_budget::SharedBudgets;

const SCENARIO: &str = include_str!("../../scenarios/two-services.yaml");
/// Cores of the scenario's budget.
const BUDGET: Cores = Cores::whole(24);
/// Period of the scenario's loads, in s.
const PERIOD_S: f64 = 200.0;

/// Services of the scenario, sharing the budget `pool`.
fn services() -> Vec<Service> {
    let scenario: serde_json::Value = crate::spec::from_yaml(SCENARIO, "scenario").unwrap();
    let each = scenario["services"].as_array().unwrap().iter();
    let service = |one: &serde_json::Value| {
        let mut service = one["scenario"]["service"].clone();
        service["listen"] = "127.0.0.1:0".into();
        service["keyEnv"] = "WEIR_KEY".into();
        service["proxies"] = serde_json::json!({"stats": ["http://127.0.0.1:1/stats"]});
        service["budget"] = serde_json::json!({"cores": 24, "shared": "pool"});
        for variant in service["variants"].as_array_mut().unwrap() {
            variant["resize"] = "http://127.0.0.1:1/cores".into();
        }
        // JSON is YAML.
        Service::from_yaml(&service.to_string()).unwrap()
    };
    each.map(service).collect()
}

/// Rate of the scenario's load of a service: from one extreme to the other and back in a period.
fn rate(service: &str, at: Duration) -> f64 {
    let (begin, middle) = match service {
        "vision" => (40.0, 300.0),
        _ => (150.0, 20.0),
    };
    let phase = at.as_secs_f64() / PERIOD_S * std::f64::consts::TAU;
    begin + (middle - begin) * (1.0 - libm::cos(phase)) / 2.0
}

/// Small generator of random numbers.
#[derive(Debug)]
struct Random(Mutex<u64>);

impl Random {
    fn below(&self, limit: u64) -> u64 {
        let mut state = self.0.lock().unwrap();
        *state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (*state >> 33) % limit
    }

    fn ms(&self, range: std::ops::Range<u64>) -> Duration {
        Duration::from_millis(range.start + self.below(range.end - range.start))
    }
}

/// Cores of a variant's server, and the changes under way, each with the time of its effect.
#[derive(Debug, Default)]
struct Server {
    cores: Cores,
    pending: Vec<(Instant, Cores)>,
}

/// Servers of all services.
#[derive(Debug, Default)]
struct Machines {
    servers: Mutex<BTreeMap<(String, usize), Server>>,
    held_max: Mutex<Cores>,
    faults: Mutex<u32>,
}

impl Machines {
    /// Lets due changes take effect, changes a server, and checks the budget.
    fn change<T>(&self, key: &(String, usize), change: impl FnOnce(&mut Server) -> T) -> T {
        let mut servers = self.servers.lock().unwrap();
        let now = Instant::now();
        for server in servers.values_mut() {
            server.pending.sort_by_key(|(at, _)| *at);
            let due = server.pending.iter().take_while(|(at, _)| *at <= now);
            let due: Vec<Cores> = due.map(|(_, cores)| *cores).collect();
            server.cores = due.last().copied().unwrap_or(server.cores);
            server.pending.drain(..due.len());
        }
        let result = change(servers.get_mut(key).unwrap());
        let held = servers.values().map(reserved).sum::<Cores>();
        assert!(held <= BUDGET, "{held} cores: {servers:?}");
        let mut max = self.held_max.lock().unwrap();
        *max = held.max(*max);
        result
    }

    fn cores(&self, service: &str) -> Cores {
        let servers = self.servers.lock().unwrap();
        let own = servers.iter().filter(|((name, _), _)| name == service);
        own.map(|(_, server)| server.cores).sum()
    }
}

fn reserved(server: &Server) -> Cores {
    let pending = server.pending.iter().map(|(_, cores)| *cores);
    pending.fold(server.cores, Cores::max)
}

/// Proxy and backends of one service.
struct Plant {
    service: String,
    variants: usize,
    clock: Clock,
    machines: Arc<Machines>,
    random: Arc<Random>,
    arrived: Mutex<(Duration, f64)>,
    /// Percent of the changes of cores and of the scrapes that fail.
    faults_percent: u64,
}

impl Plant {
    fn key(&self, variant: usize) -> (String, usize) {
        (self.service.clone(), variant)
    }

    fn fails(&self) -> bool {
        let fails = self.random.below(100) < self.faults_percent;
        *self.machines.faults.lock().unwrap() += u32::from(fails);
        fails
    }
}

impl Observe for Plant {
    async fn scrape(&self) -> Vec<Scrape> {
        let at = self.clock.now().at;
        let mut arrived = self.arrived.lock().unwrap();
        let span = (at - arrived.0).as_secs_f64();
        *arrived = (at, arrived.1 + span * rate(&self.service, at));
        let counts = Counts {
            arrivals: arrived.1.round(),
            ..Counts::default()
        };
        vec![Scrape {
            from: "proxy".into(),
            at,
            counts: match self.fails() {
                true => Err(ScrapeError::Status(503)),
                false => Ok(counts),
            },
        }]
    }
}

impl Actuate for Plant {
    async fn actual(&self) -> Vec<Option<Result<Actual, ActuateError>>> {
        let answer = |variant: usize| {
            if self.fails() {
                return Some(Err(ActuateError::NoAddress));
            }
            let actual = self.machines.change(&self.key(variant), |server| {
                let pending = server.pending.iter().map(|(_, cores)| *cores);
                let ready = Allocation::one(pending.fold(server.cores, Cores::min));
                Actual {
                    reserved: reserved(server),
                    ..Actual::certain(ready)
                }
            });
            Some(Ok(actual))
        };
        (0..self.variants).map(answer).collect()
    }

    async fn resize(&self, changes: &[Resize]) -> Vec<Result<Actual, ActuateError>> {
        let mut answers = Vec::new();
        for change in changes {
            let (key, cores) = (self.key(change.variant), change.cores());
            let refused = self.fails();
            if refused && self.random.below(2) == 0 {
                let why = ActuateError::Status(409, "Deferred".to_owned());
                answers.push(Err(why));
                continue;
            }
            // It has been sent: also if the loop ends now, it takes effect.
            let effect = Instant::now() + self.random.ms(100..2_000);
            self.machines
                .change(&key, |server| server.pending.push((effect, cores)));
            sleep(self.random.ms(5..150)).await;
            if refused {
                answers.push(Err(ActuateError::Timeout(Duration::from_millis(150))));
                continue;
            }
            let actual = self.machines.change(&key, |server| {
                server.pending.retain(|(at, _)| *at != effect);
                server.cores = cores;
                Actual {
                    reserved: reserved(server),
                    ..Actual::certain(Allocation::one(cores))
                }
            });
            answers.push(Ok(actual));
        }
        answers
    }

    fn retire(&self, _: usize, _: Cores) -> Option<Result<Actual, NotReplaced>> {
        None
    }

    async fn replace(&self, _: usize) -> Result<Actual, ActuateError> {
        Err(ActuateError::NoAddress)
    }
}

struct Bed {
    clock: Clock,
    machines: Arc<Machines>,
    random: Arc<Random>,
    faults_percent: u64,
}

impl Bed {
    /// Creates servers with four cores each, as in the scenario.
    fn new(seed: u64, faults_percent: u64) -> Bed {
        let machines = Machines::default();
        for service in services() {
            for variant in 0..service.variants.len() {
                let server = Server {
                    cores: Cores::whole(4),
                    pending: Vec::new(),
                };
                let key = (service.name.clone(), variant);
                machines.servers.lock().unwrap().insert(key, server);
            }
        }
        Bed {
            clock: Clock::start(),
            machines: Arc::new(machines),
            random: Arc::new(Random(Mutex::new(seed))),
            faults_percent,
        }
    }

    /// Runs the loop of a service, for `time`; then it ends, wherever it is. Returns the largest part of its reports.
    async fn run(
        &self,
        budgets: &SharedBudgets,
        service: &Service,
        term: Duration,
        time: Duration,
    ) -> Cores {
        let plant = Plant {
            service: service.name.clone(),
            variants: service.variants.len(),
            clock: self.clock,
            machines: Arc::clone(&self.machines),
            random: Arc::clone(&self.random),
            arrived: Mutex::new((self.clock.now().at, 0.0)),
            faults_percent: self.faults_percent,
        };
        let handle = ServiceHandle::new(service.clone(), self.clock).unwrap();
        let (_stop, stopped) = watch::channel(false);
        let mut largest = Cores::ZERO;
        let on_report = |report: &CycleReport| {
            let shared = report.shared_budget.as_ref().unwrap();
            largest = largest.max(shared.part.unwrap_or_default());
        };
        let seat = (None, budgets.seat(service, term), None);
        let cycles = run_cycles(
            &handle,
            self.clock,
            (&plant, &plant),
            seat,
            stopped,
            on_report,
        );
        let ended = timeout(time, cycles).await;
        assert!(ended.is_err(), "the loop ended by itself");
        largest
    }

    /// Runs both loops again and again in one term of that length, with pauses, as if they failed.
    async fn run_term(&self, budgets: &SharedBudgets, term: Duration, length: Duration) {
        let end = Instant::now() + length;
        let run = async |service: &Service| {
            loop {
                let left = end.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return;
                }
                let time = self.random.ms(500..30_000).min(left);
                self.run(budgets, service, term, time).await;
                sleep(self.random.ms(0..3_000)).await;
            }
        };
        let services = services();
        let (one, other) = (services.first().unwrap(), services.last().unwrap());
        tokio::join!(run(one), run(other));
    }
}

fn pool(services: &[Service]) -> SharedBudgets {
    let budgets = SharedBudgets::new(&["pool=24".parse().unwrap()]).unwrap();
    for service in services {
        budgets.check(service).unwrap();
        budgets.insert(service);
    }
    budgets
}

#[tokio::test(start_paused = true)]
async fn budget_holds_with_faults_restarts_and_new_terms() {
    for seed in 1..=4 {
        let bed = Bed::new(seed, 15);
        for planner in 0..2 {
            // Another process knows nothing of what was before.
            let budgets = pool(&services());
            for term in 0..2 {
                let term = Duration::from_secs(planner * 10 + term);
                let length = bed.random.ms(20_000..60_000);
                bed.run_term(&budgets, term, length).await;
            }
        }
        let (held, faults) = (
            *bed.machines.held_max.lock().unwrap(),
            *bed.machines.faults.lock().unwrap(),
        );
        println!("seed {seed}: at most {held} cores held, {faults} faults");
        assert!(faults > 20, "seed {seed}: {faults}");
        assert!(held > Cores::whole(16), "seed {seed}: nothing grew, {held}");
    }
}

#[tokio::test(start_paused = true)]
async fn parts_follow_opposite_loads() {
    let bed = Bed::new(1, 0);
    let services = services();
    let budgets = pool(&services);
    let time = Duration::from_secs_f64(PERIOD_S);
    let halfway = async {
        sleep(time / 2).await;
        services
            .iter()
            .map(|one| bed.machines.cores(&one.name))
            .collect::<Vec<_>>()
    };
    let run = |service| bed.run(&budgets, service, Duration::ZERO, time);
    let (one, other) = (services.first().unwrap(), services.last().unwrap());
    let (vision, speech, halfway) = tokio::join!(run(one), run(other), halfway);
    let end: Vec<Cores> = services
        .iter()
        .map(|one| bed.machines.cores(&one.name))
        .collect();
    println!("largest parts {vision}, {speech}; halfway {halfway:?}, at the end {end:?}");
    // Each has more than its half of the budget when it is the one that is busy.
    assert!(
        vision > Cores::whole(12) && speech > Cores::whole(12),
        "{vision}, {speech}"
    );
    assert!(
        halfway[0] > halfway[1] && end[1] > end[0],
        "{halfway:?}, {end:?}"
    );
}
