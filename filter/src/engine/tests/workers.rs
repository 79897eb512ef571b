//! Conservation of requests over three workers of one proxy, under any events.

use super::*;
use crate::coordination::SlotTable;
use proptest::prelude::*;

#[derive(Debug, Clone)]
enum Event {
    AcquireRequest { worker: usize, budget_ms: u64 },
    End { nth: usize, end: End },
    Pass { ms: u64 },
    Plan { slots: [u32; 2], share: f64 },
    LoseSwaps { count: u32 },
    Trap { worker: usize },
    Spoil { at: usize, with: u8 },
}

fn event() -> impl Strategy<Value = Event> {
    let end = prop::sample::select(vec![
        End::Answered,
        End::Failed,
        End::TimedOut,
        End::Disconnected,
    ]);
    prop_oneof![
        12 => (0..WORKERS, 10..500_u64).prop_map(|(worker, budget_ms)| Event::AcquireRequest { worker, budget_ms }),
        10 => (0..64_usize, end).prop_map(|(nth, end)| Event::End { nth, end }),
        4 => (1..100_u64).prop_map(|ms| Event::Pass { ms }),
        2 => ([1..6_u32, 1..6_u32], 0.0..1.0_f64).prop_map(|(slots, share)| Event::Plan { slots, share }),
        1 => (1..20_u32).prop_map(|count| Event::LoseSwaps { count }),
        1 => (0..WORKERS).prop_map(|worker| Event::Trap { worker }),
        1 => (0..600_usize, 1..=255_u8).prop_map(|(at, with)| Event::Spoil { at, with }),
    ]
}

const WORKERS: usize = 3;

/// Three workers of one proxy, and their open streams.
struct Proxy {
    store: Memory,
    workers: Vec<Engine>,
    started: u64,
    now_ms: u64,
    open: Vec<(usize, StreamId)>,
    sent: Vec<(usize, StreamId)>,
    refused: u32,
}

impl Proxy {
    const CONFIG: &str = r#"{"service":"demo","queue":{"max_requests":8},"plan":{"variants":[
        {"name":"a","cluster":"a","share":0.5,"slots":2,"service_ms":20,"accuracy":70},
        {"name":"b","cluster":"b","share":0.5,"slots":1,"service_ms":60,"accuracy":70}]}}"#;

    fn new() -> Proxy {
        let store = Memory::default();
        let workers =
            (1..=WORKERS as u64).map(|incarnation| worker(Proxy::CONFIG, &store, incarnation));
        Proxy {
            workers: workers.collect(),
            started: WORKERS as u64,
            store,
            now_ms: 0,
            open: Vec::new(),
            sent: Vec::new(),
            refused: 0,
        }
    }

    fn tell(
        &mut self,
        worker: usize,
        tell: impl FnOnce(&mut Engine, Now, &mut Vec<(StreamId, Verdict)>),
    ) {
        let mut verdicts = Vec::new();
        tell(&mut self.workers[worker], at(self.now_ms), &mut verdicts);
        for (stream, verdict) in verdicts {
            self.take(worker, stream, &verdict);
        }
    }

    fn take(&mut self, worker: usize, stream: StreamId, verdict: &Verdict) {
        let place = self.open.iter().position(|open| *open == (worker, stream));
        let place = place.expect("a verdict for a stream that has ended");
        match verdict {
            Verdict::Forward(_) => self.sent.push((worker, stream)),
            Verdict::Reject(_) => {
                self.open.remove(place);
                self.refused += 1;
            }
            Verdict::Park | Verdict::Pass | Verdict::PassTo(_) => {
                panic!("{verdict:?} for a held request")
            }
        }
    }

    /// Advances time, with every requested tick and without notifications.
    fn pass(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            for worker in 0..WORKERS {
                let wake = self.workers[worker].next_wake(at(self.now_ms - 1).mono);
                if self.now_ms.is_multiple_of(250) {
                    self.workers[worker].renew(true, at(self.now_ms).mono);
                }
                if self.now_ms.is_multiple_of(10)
                    || wake.is_some_and(|wake| wake <= at(self.now_ms).mono)
                {
                    self.tell(worker, |engine, now, verdicts| {
                        engine.release(now, verdicts)
                    });
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every request of every worker ends exactly once, through lost swaps, lost notifications, traps and a
    /// corrupted slot table. The limit of held requests is never exceeded. Afterwards no slot is taken and no
    /// request is held.
    #[test]
    fn every_request_ends_exactly_once(events in prop::collection::vec(event(), 1..300)) {
        let mut proxy = Proxy::new();
        let (mut incoming, mut ended, mut revision) = (0_u32, 0_u32, 1);
        for event in events {
            match event {
                Event::AcquireRequest { worker, budget_ms } => {
                    incoming += 1;
                    let now = at(proxy.now_ms);
                    let budget = budget_ms.to_string();
                    let wire = Wire::pick([("x-slo-ms", budget.as_bytes())]);
                    let mut others = Vec::new();
                    let verdict = proxy.workers[worker].on_request(incoming, &wire.into(), now, &mut others);
                    proxy.open.push((worker, incoming));
                    if verdict != Verdict::Park {
                        proxy.take(worker, incoming, &verdict);
                    }
                    for (stream, verdict) in others {
                        proxy.take(worker, stream, &verdict);
                    }
                }
                Event::End { nth, end } if !proxy.open.is_empty() => {
                    let (worker, stream) = proxy.open.remove(nth % proxy.open.len());
                    ended += 1;
                    proxy.tell(worker, |engine, now, verdicts| engine.on_end(stream, end, now, verdicts));
                }
                Event::End { .. } => {}
                Event::Pass { ms } => proxy.pass(ms),
                Event::Plan { slots: [a, b], share } => {
                    revision += 1;
                    let variants = [variant("a", share, a, 20.0), variant("b", 1.0 - share, b, 60.0)];
                    let next = plan(revision, &variants);
                    for worker in 0..WORKERS {
                        proxy.tell(worker, |engine, now, verdicts| engine.on_plan(&next, now.mono, now, verdicts));
                    }
                }
                Event::LoseSwaps { count } => proxy.store.fail_swaps(count),
                Event::Trap { worker: index } => {
                    // Everything it had is gone with it.
                    let before = proxy.open.len();
                    proxy.open.retain(|(worker, _)| *worker != index);
                    ended += (before - proxy.open.len()) as u32;
                    proxy.started += 1;
                    proxy.workers[index] = worker(Proxy::CONFIG, &proxy.store, proxy.started);
                }
                Event::Spoil { at, with } => {
                    if let Some(mut bytes) = proxy.store.bytes() {
                        let at = at % bytes.len();
                        bytes[at] ^= with;
                        proxy.store.overwrite(bytes);
                    }
                }
            }
            for engine in &proxy.workers {
                prop_assert!(engine.held.all <= 8);
                prop_assert_eq!(engine.held.all, engine.variants.iter().map(|v| v.slots.queue.len()).sum::<usize>());
            }
            let known: usize = proxy.workers.iter().map(|engine| engine.requests.len()).sum();
            prop_assert_eq!(known, proxy.open.len());
        }
        for (worker, stream) in std::mem::take(&mut proxy.open) {
            // The request that a freed slot would go to ends as well.
            ended += 1;
            let engine = &mut proxy.workers[worker];
            engine.on_end(stream, End::Answered, at(proxy.now_ms), &mut Vec::new());
        }
        prop_assert_eq!(incoming, proxy.refused + ended);
        proxy.pass(2000);
        let mut table = SlotTable::default();
        if let Some(bytes) = proxy.store.bytes() {
            prop_assert!(table.read(&bytes).is_ok());
            let now = at(proxy.now_ms).mono;
            for column in 0..table.columns.len() {
                prop_assert_eq!(table.taken(column, now), 0);
            }
            prop_assert!(table.rows.len() <= WORKERS + 1 + proxy.started as usize);
        }
        for engine in &mut proxy.workers {
            prop_assert_eq!((engine.requests.len(), engine.held.all), (0, 0));
        }
    }
}
