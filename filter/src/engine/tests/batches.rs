//! Batches: they fill, but no request is late because of them.

use super::*;

/// A window that only the requests' slack ends.
const WINDOW: &str = r#","queue":{"batch_wait_ms":60000}"#;

fn batcher(rest: &str) -> Engine {
    let batched = variant("a", 1.0, 8, 100.0).replace("\"slots\"", "\"batch\":4,\"slots\"");
    engine(&[batched], rest)
}

/// The server makes the batches: a request that waits for company leaves it idle.
#[test]
fn without_a_window_a_free_slot_takes_what_waits() {
    let mut engine = batcher("");
    // While the planned batches execute, as many again wait at the server.
    for stream in 1..=16 {
        let verdict = submit(&mut engine, stream, 1000, at(0));
        assert!(matches!(verdict, Verdict::Forward(_)), "{stream}");
    }
    assert_eq!(submit(&mut engine, 17, 1000, at(0)), Verdict::Park);
    assert_eq!(
        forwarded(&end(&mut engine, 1, End::Answered, at(100))),
        [17]
    );
}

#[test]
fn full_batch_leaves_together() {
    let mut engine = batcher(WINDOW);
    for stream in 1..=3 {
        assert_eq!(submit(&mut engine, stream, 1000, at(0)), Verdict::Park);
    }
    let fourth = submit(&mut engine, 4, 1000, at(5));
    let mut left = forwarded(&release(&mut engine, at(5)));
    if matches!(fourth, Verdict::Forward(_)) {
        left.push(4);
    }
    left.sort_unstable();
    assert_eq!(left, [1, 2, 3, 4]);
}

#[test]
fn expired_batch_window_releases_the_incomplete_batch() {
    let mut engine = batcher(WINDOW);
    submit(&mut engine, 1, 500, at(0));
    submit(&mut engine, 2, 900, at(0));
    assert_eq!(release(&mut engine, at(390)), []);
    let wake = engine.next_wake(at(390).mono).unwrap();
    assert!(wake <= at(400).mono, "{wake:?}");
    let mut left = forwarded(&release(&mut engine, at(396)));
    left.sort_unstable();
    assert_eq!(left, [1, 2]);
}

/// A timer that is late by less than the accuracy of the prediction makes no request late.
#[test]
fn longer_service_closes_the_batch_earlier() {
    for (service_ms, due_ms) in [(16.0, 1979), (160.0, 1830), (800.0, 1150)] {
        let batched =
            variant("a", 1.0, 8, service_ms).replace("\"slots\"", "\"batch\":4,\"slots\"");
        let mut engine = engine(&[batched], WINDOW);
        submit(&mut engine, 1, 2000, at(0));
        assert_eq!(release(&mut engine, at(due_ms - 1)), [], "{service_ms}");
        assert_eq!(forwarded(&release(&mut engine, at(due_ms))), [1]);
    }
}

#[test]
fn configured_batch_window_limits_the_wait() {
    let mut engine = batcher(r#","queue":{"batch_wait_ms":20}"#);
    submit(&mut engine, 1, 5000, at(0));
    assert_eq!(release(&mut engine, at(19)), []);
    assert_eq!(forwarded(&release(&mut engine, at(20))), [1]);
}

#[test]
fn overdue_request_of_a_batch_is_refused_alone() {
    let mut engine = batcher(WINDOW);
    submit(&mut engine, 1, 120, at(0));
    submit(&mut engine, 2, 900, at(0));
    // No tick came while the first could still have left.
    let verdicts = release(&mut engine, at(60));
    assert_eq!(verdicts.len(), 1);
    assert_eq!(
        (verdicts[0].0, reason(&verdicts[0].1)),
        (1, Some(Reason::Infeasible))
    );
    submit(&mut engine, 3, 900, at(60));
    submit(&mut engine, 4, 900, at(60));
    let fifth = submit(&mut engine, 5, 900, at(60));
    let left = forwarded(&release(&mut engine, at(60))).len();
    assert_eq!(left + usize::from(matches!(fifth, Verdict::Forward(_))), 4);
}

/// The engine's behaviour and the rule in its pure form: a batch closes when it is full or its window is
/// over, and only requests of a closed batch leave.
struct Watched {
    engine: Engine,
    batch: usize,
    slots: usize,
    /// Waiting requests, with their deadlines in ms.
    waiting: Vec<(StreamId, u64)>,
    running: Vec<StreamId>,
    /// Requests that may still leave with closed batches.
    open: usize,
    now_ms: u64,
}

impl Watched {
    const SERVICE_MS: u64 = 48;
    /// The greater of 5 ms and a sixteenth of the service time.
    const MARGIN_MS: u64 = 5;

    fn new(batch: usize, slots: usize) -> Watched {
        let planned = variant("a", 1.0, slots as u32, Self::SERVICE_MS as f64);
        let planned = planned.replace("\"slots\"", &format!("\"batch\":{batch},\"slots\""));
        Watched {
            engine: engine(
                &[planned],
                r#","queue":{"correct":false,"batch_wait_ms":60000}"#,
            ),
            batch,
            slots,
            waiting: Vec::new(),
            running: Vec::new(),
            open: 0,
            now_ms: 0,
        }
    }

    fn closes(&self) -> bool {
        let last = |deadline: u64| deadline.saturating_sub(Self::SERVICE_MS + Self::MARGIN_MS);
        let due = self.waiting.iter().any(|(_, at)| last(*at) <= self.now_ms);
        self.waiting.len() >= self.batch || due
    }

    fn obey(&mut self, verdicts: &[(StreamId, Verdict)]) {
        // A refused request leaves first, and its place in a closed batch lapses.
        for (stream, verdict) in verdicts {
            if matches!(verdict, Verdict::Reject(_)) {
                self.waiting.retain(|(id, _)| id != stream);
                // A request without an answer in time ends too; its server was done before.
                self.running.retain(|id| id != stream);
            }
        }
        self.open = self.open.min(self.waiting.len());
        for stream in forwarded(verdicts) {
            if self.open == 0 {
                assert!(
                    self.closes(),
                    "{stream} left an incomplete batch at {}",
                    self.now_ms
                );
                self.open = self.batch.min(self.waiting.len());
            }
            self.open -= 1;
            let earliest = self.waiting.iter().map(|(_, at)| *at).min();
            let left = self.waiting.iter().position(|(id, _)| *id == stream);
            let (_, deadline) = self.waiting.remove(left.unwrap());
            assert_eq!(Some(deadline), earliest, "not the earliest first");
            self.running.push(stream);
            // As many again may wait at the servers behind those that execute.
            assert!(self.running.len() <= 2 * self.slots);
        }
    }

    fn arrive(&mut self, stream: StreamId, budget_ms: u64) {
        let now = at(self.now_ms);
        let deadline = self.now_ms + budget_ms;
        self.waiting.push((stream, deadline));
        match submit(&mut self.engine, stream, budget_ms, now) {
            Verdict::Park => {}
            verdict => self.obey(&[(stream, verdict)]),
        }
    }

    fn leave(&mut self, stream: StreamId, how: End) {
        self.waiting.retain(|(id, _)| *id != stream);
        self.running.retain(|id| *id != stream);
        self.open = self.open.min(self.waiting.len());
        let verdicts = end(&mut self.engine, stream, how, at(self.now_ms));
        self.obey(&verdicts);
    }

    fn check_at(&mut self) {
        // Work left by a newcomer or an end is done on the next checks, at once.
        for _ in 0..3 {
            let verdicts = release(&mut self.engine, at(self.now_ms));
            self.obey(&verdicts);
        }
        let may = self.open > 0 || self.closes();
        let free = self.running.len() < self.slots;
        let blocked = free && may && !self.waiting.is_empty();
        assert!(
            !blocked,
            "{:?} could leave at {}",
            self.waiting, self.now_ms
        );
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(400))]
    #[test]
    fn only_closed_batches_leave_and_they_leave_whole(
        batch in 2..5_usize,
        slots in 1..9_usize,
        events in proptest::collection::vec((0..40_u64, 0..5_u8, 60..1200_u64), 1..80),
    ) {
        let mut watched = Watched::new(batch, slots);
        for (stream, (pause_ms, kind, chance)) in (1..).zip(events) {
            for _ in 0..pause_ms {
                watched.now_ms += 1;
                watched.check_at();
            }
            let one_of = |list: &[StreamId]| list.get(chance as usize % list.len().max(1)).copied();
            let waiting: Vec<_> = watched.waiting.iter().map(|(id, _)| *id).collect();
            match kind {
                0..=2 => watched.arrive(stream, chance),
                3 => {
                    if let Some(ended) = one_of(&watched.running) {
                        watched.leave(ended, End::Answered);
                    }
                }
                _ => {
                    if let Some(disconnected) = one_of(&waiting) {
                        watched.leave(disconnected, End::Disconnected);
                    }
                }
            }
            watched.check_at();
        }
    }
}
