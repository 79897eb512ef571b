//! A server with one lane and the network to it, in virtual time: idle time while requests wait, cost of
//! the order, and time of refusals.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::*;

const SERVICE_NS: f64 = 25e6;
/// Network latency to the server, one way, ns.
const HOP: u64 = 1_500_000;
const NOTIFICATION_LATENCY: u64 = 100_000;
const LENGTH: u64 = 40_000 * MS;
/// Warm-up without measurements.
const WARM: u64 = 2_000 * MS;

#[derive(Debug, Clone, Copy)]
struct Case {
    workers: usize,
    /// Service times are uniform between 1 − spread and 1 + spread of the mean.
    spread: f64,
    load: f64,
    budgets_ms: (u64, u64),
    overlap: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Arrive(u32),
    Reach(u32),
    Done(u32),
    Answer(u32),
    Tick(usize),
    Notification(usize),
}

#[derive(Debug, Clone, Copy, Default)]
struct LaneReport {
    worker: usize,
    arrived: u64,
    due: u64,
    begun: u64,
    answered: u64,
    refused: Option<u64>,
    failed: bool,
}

struct Sim {
    case: Case,
    engines: Vec<Engine>,
    entries: Vec<Option<usize>>,
    tick_at: Vec<u64>,
    renew_at: Vec<u64>,
    owed: Vec<Vec<StreamId>>,
    store: Memory,
    agenda: BinaryHeap<Reverse<(u64, u64, What)>>,
    entered: u64,
    now: u64,
    random: u64,
    queue: VecDeque<u32>,
    busy: bool,
    busy_ns: u64,
    requests: Vec<LaneReport>,
    order: Vec<u32>,
}

impl Sim {
    fn new(case: Case) -> Sim {
        let store = Memory::default();
        let json = format!(
            r#"{{"service":"demo","plan":{{"variants":[{}]}},"queue":{{"overlap":{},"concurrency_max":0}}}}"#,
            variant("a", 1.0, 1, SERVICE_NS / 1e6),
            case.overlap
        );
        let engines = (0..case.workers).map(|w| worker(&json, &store, w as u64 + 1));
        let mut sim = Sim {
            engines: engines.collect(),
            entries: vec![None; case.workers],
            tick_at: vec![0; case.workers],
            renew_at: vec![0; case.workers],
            owed: vec![Vec::new(); case.workers],
            case,
            store,
            agenda: BinaryHeap::new(),
            entered: 0,
            now: 1000 * MS,
            random: 42,
            queue: VecDeque::new(),
            busy: false,
            busy_ns: 0,
            requests: Vec::new(),
            order: Vec::new(),
        };
        for worker in 0..case.workers {
            sim.engines[worker].serve(Mono(sim.now));
            sim.after(worker, Vec::new());
        }
        sim
    }

    fn chance(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn add(&mut self, at: u64, what: What) {
        self.entered += 1;
        self.agenda.push(Reverse((at, self.entered, what)));
    }

    fn clocks(&self) -> Now {
        Now {
            mono: Mono(self.now),
            wall: Wall(1_790_000_000_000 * MS + self.now),
        }
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "its last bits decide nothing here"
    )]
    fn run(&mut self) {
        let begin = self.now;
        let mut at = self.now as f64;
        while at < (begin + LENGTH) as f64 {
            at -= (1.0 - self.chance()).ln() * SERVICE_NS / self.case.load;
            let (min, most) = self.case.budgets_ms;
            let budget = min + (self.chance() * (most - min + 1) as f64) as u64;
            let (worker, at) = (
                (self.chance() * self.case.workers as f64) as usize,
                at as u64,
            );
            self.add(at, What::Arrive(self.requests.len() as u32));
            self.requests.push(LaneReport {
                worker,
                arrived: at,
                due: at + budget * MS,
                ..LaneReport::default()
            });
        }
        while let Some(Reverse((at, _, what))) = self.agenda.pop() {
            if at > begin + LENGTH {
                return;
            }
            self.now = at;
            self.happen(what);
        }
    }

    fn happen(&mut self, what: What) {
        let (now, mut verdicts) = (self.clocks(), Vec::new());
        match what {
            What::Arrive(id) => {
                let LaneReport { worker, due, .. } = self.requests[id as usize];
                let budget = ((due - self.now) / MS).to_string();
                let headers = [("x-slo-ms", budget.as_bytes())];
                let incoming = Wire::pick(headers).into();
                let verdict = self.engines[worker].on_request(id, &incoming, now, &mut verdicts);
                verdicts.push((id, verdict));
                self.after(worker, verdicts);
            }
            What::Reach(id) => {
                self.queue.push_back(id);
                self.serve();
            }
            What::Done(id) => {
                self.busy = false;
                self.add(self.now + HOP, What::Answer(id));
                self.serve();
            }
            What::Answer(id) => {
                let request = &mut self.requests[id as usize];
                let worker = request.worker;
                if request.failed {
                    return;
                }
                request.answered = self.now;
                self.engines[worker].on_answer(id, Answer::default(), now);
                self.engines[worker].on_end(id, End::Answered, now, &mut verdicts);
                // As in the shell, refusals are deferred to the next tick.
                let refused = verdicts.extract_if(.., |(_, v)| matches!(v, Verdict::Reject(_)));
                let refused: Vec<_> = refused.map(|(stream, _)| stream).collect();
                self.owed[worker].extend(refused);
                self.after(worker, verdicts);
            }
            What::Tick(worker) => {
                if self.tick_at[worker] != self.now {
                    return;
                }
                self.tick_at[worker] = 0;
                if self.renew_at[worker] <= self.now {
                    self.renew_at[worker] = self.now + 50 * MS;
                    self.engines[worker].renew(true, now.mono);
                }
                for stream in std::mem::take(&mut self.owed[worker]) {
                    self.requests[stream as usize].refused = Some(self.now);
                }
                self.engines[worker].release(now, &mut verdicts);
                self.after(worker, verdicts);
            }
            What::Notification(worker) => {
                self.engines[worker].release(now, &mut verdicts);
                self.after(worker, verdicts);
            }
        }
    }

    fn serve(&mut self) {
        if self.busy {
            return;
        }
        let Some(id) = self.queue.pop_front() else {
            return;
        };
        let spread = self.case.spread;
        let took = (SERVICE_NS * (1.0 - spread + 2.0 * spread * self.chance())) as u64;
        (self.busy, self.requests[id as usize].begun) = (true, self.now);
        self.order.push(id);
        self.busy_ns += took;
        self.add(self.now + took, What::Done(id));
    }

    fn after(&mut self, worker: usize, verdicts: Vec<(StreamId, Verdict)>) {
        if let Some(entry) = self.store.take_claimed_rows().last() {
            self.entries[worker] = Some(*entry);
        }
        for (entry, _) in self.store.take_notifications() {
            let notified = self.entries.iter().position(|known| *known == Some(entry));
            if let Some(notified) = notified {
                self.add(
                    self.now + NOTIFICATION_LATENCY,
                    What::Notification(notified),
                );
            }
        }
        for (stream, verdict) in verdicts {
            let request = &mut self.requests[stream as usize];
            match verdict {
                Verdict::Forward(_) => self.add(self.now + HOP, What::Reach(stream)),
                Verdict::Reject(_) => {
                    request.failed = true;
                    request.refused = Some(self.now);
                }
                Verdict::Park | Verdict::Pass | Verdict::PassTo(_) => {}
            }
        }
        let most = Mono(self.now + 50 * MS);
        let wake = self.engines[worker]
            .next_wake(Mono(self.now))
            .unwrap_or(most);
        let wake = if self.owed[worker].is_empty() {
            wake
        } else {
            Mono(self.now)
        };
        let period = (wake.0.saturating_sub(self.now) / MS).clamp(1, 50) * MS;
        let late = self.tick_at[worker] <= self.now;
        if late || self.now + period + MS < self.tick_at[worker] {
            self.tick_at[worker] = self.now + period;
            // As with Envoy, a timer fires up to a ms late.
            let lateness = self.now.wrapping_mul(0x9e37_79b9_7f4a_7c15) % MS;
            self.tick_at[worker] += lateness;
            self.add(self.now + period + lateness, What::Tick(worker));
        }
    }

    /// Fraction of pairs in which a request began before a more urgent one that was already there.
    fn out_of_order(&self) -> f64 {
        let (mut wrong, mut pairs) = (0_u32, 0_u32);
        for (place, id) in self.order.iter().enumerate() {
            let first = &self.requests[*id as usize];
            for other in self.order.iter().skip(place + 1).take(100) {
                let other = &self.requests[*other as usize];
                if other.arrived <= first.begun {
                    pairs += 1;
                    wrong += u32::from(other.due < first.due);
                }
            }
        }
        f64::from(wrong) / f64::from(pairs.max(1))
    }
}

#[derive(Debug, Clone, Copy)]
struct Figures {
    /// Fraction of time for which the server worked.
    busy: f64,
    on_time: f64,
    out_of_order: f64,
    /// Fraction of refusals within 50 ms.
    at_once: f64,
}

fn measure(case: Case) -> Figures {
    let mut sim = Sim::new(case);
    sim.run();
    let from = 1000 * MS + WARM;
    let all: Vec<&LaneReport> = sim.requests.iter().filter(|r| r.arrived >= from).collect();
    let count = |what: &dyn Fn(&LaneReport) -> bool| all.iter().filter(|r| what(r)).count() as f64;
    let refused = count(&|r| r.refused.is_some());
    let soon = count(&|r| r.refused.is_some_and(|at| at - r.arrived <= 50 * MS));
    Figures {
        busy: sim.busy_ns as f64 / LENGTH as f64,
        on_time: count(&|r| r.answered > 0 && r.answered <= r.due) / all.len() as f64,
        out_of_order: sim.out_of_order(),
        at_once: soon / refused.max(1.0),
    }
}

fn cases() -> impl Iterator<Item = Case> {
    let workers = [1, 4].into_iter();
    let with_spread = workers.flat_map(|workers| [0.0, 0.5].map(|spread| (workers, spread)));
    let with_load = with_spread.flat_map(|with| [0.95, 1.3, 2.0].map(|load| (with, load)));
    let all = with_load.flat_map(|with| [(300, 300), (100, 600)].map(|budgets| (with, budgets)));
    all.map(|(((workers, spread), load), budgets_ms)| Case {
        workers,
        spread,
        load,
        budgets_ms,
        overlap: true,
    })
}

#[test]
fn single_lane_is_kept_busy_in_order_with_early_refusals() {
    for case in cases() {
        let with = measure(case);
        let without = measure(Case {
            overlap: false,
            ..case
        });
        let equal = case.budgets_ms.0 == case.budgets_ms.1;
        println!("{case:?}\n  without {without:.3?}\n  with    {with:.3?}");
        assert!(with.on_time >= without.on_time + 0.02, "{case:?}: {with:?}");
        assert!(with.out_of_order < 0.01, "{case:?}: {with:?}");
        if case.load > 1.0 {
            // With equal service times hardly any time is lost to a request that is held in vain.
            let busy = if case.spread > 0.0 { 0.97 } else { 0.996 };
            assert!(with.busy >= busy, "{case:?}: {with:?}");
            assert!(!equal || with.at_once >= 0.85, "{case:?}: {with:?}");
        }
    }
}
