//! Rate of a variant's servers while all its slots are taken: what they sustain, at any load, whether they work on the
//! requests of all slots at once or one after the other.

use std::collections::VecDeque;

use super::*;
use crate::stats::Change;

/// Time of an execution, ms.
const SERVICE: u64 = 20;
const SLOTS: u32 = 2;
/// Length of a run, ms.
const LENGTH: u64 = 200_000;

/// Servers that work on so many requests at once.
struct Servers {
    at_once: usize,
    running: Vec<(u64, StreamId)>,
    waiting: VecDeque<StreamId>,
}

impl Servers {
    fn reach(&mut self, stream: StreamId, now: u64) {
        self.waiting.push_back(stream);
        self.begin(now);
    }

    fn begin(&mut self, now: u64) {
        while self.running.len() < self.at_once
            && let Some(stream) = self.waiting.pop_front()
        {
            self.running.push((now + SERVICE, stream));
        }
    }

    fn ended(&mut self, now: u64) -> Option<StreamId> {
        let place = self.running.iter().position(|(end, _)| *end <= now)?;
        Some(self.running.remove(place).1)
    }
}

/// Measured rates, per second: executions over the time with all slots taken, and slots over the mean service time.
struct Rates {
    full: f64,
    by_mean: f64,
}

/// Plays a load, as a part of what the servers sustain.
fn play(replicas: u32, at_once: usize, load: f64) -> Rates {
    let variant = variant("a", 1.0, SLOTS, SERVICE as f64);
    let keys = format!(r#""replicas":{replicas},"share""#);
    let mut engine = engine(&[variant.replace(r#""share""#, &keys)], SLOTS_HOLD);
    let mut servers = Servers {
        at_once,
        running: Vec::new(),
        waiting: VecDeque::new(),
    };
    let chance = load * at_once as f64 / SERVICE as f64;
    let (mut random, mut next) = (42_u64, 0);
    let (mut full_us, mut full_executions, mut service_ms, mut served) = (0.0, 0.0, 0.0, 0.0);
    let mut samples = Vec::new();
    for ms in 0..LENGTH {
        let mut sent = Vec::new();
        while let Some(stream) = servers.ended(ms) {
            servers.begin(ms);
            sent.extend(forwarded(&end(&mut engine, stream, End::Answered, at(ms))));
        }
        sent.extend(forwarded(&release(&mut engine, at(ms))));
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        if (random >> 11) as f64 / ((1_u64 << 53) as f64) < chance {
            next += 1;
            if let Verdict::Forward(_) = submit(&mut engine, next, 5_000, at(ms)) {
                sent.push(next);
            }
        }
        for stream in sent {
            servers.reach(stream, ms);
        }
        engine.stats.swap(&mut samples);
        for sample in samples.drain(..) {
            match (sample.metric, sample.change) {
                (Metric::FullUs, Change::By(us)) => full_us += us as f64,
                (Metric::FullExecutions, Change::By(ended)) => full_executions += ended as f64,
                (Metric::ServiceMs, Change::Value(ms)) => {
                    service_ms += ms as f64;
                    served += 1.0;
                }
                _ => {}
            }
        }
    }
    assert!(full_us > 1e6, "all slots are taken for a while");
    Rates {
        full: full_executions / full_us * 1e6,
        by_mean: f64::from(SLOTS) * 1e3 * served / service_ms,
    }
}

#[test]
fn rate_with_all_slots_taken_is_what_servers_sustain_at_any_load() {
    // With a load that seldom waits, the other execution is under way when the time with all slots taken begins.
    for (replicas, at_once, load, within) in [
        (1, 1, 0.4, 0.05),
        (1, 1, 0.6, 0.05),
        (1, 1, 0.9, 0.05),
        (1, 1, 1.5, 0.02),
        (1, 2, 0.6, 0.1),
        (1, 2, 1.5, 0.02),
        (2, 2, 1.5, 0.02),
    ] {
        let sustained = at_once as f64 * 1e3 / SERVICE as f64;
        let full = play(replicas, at_once, load).full;
        let off = full / sustained - 1.0;
        assert!(off.abs() < within, "{at_once} at once, {load}: {full}/s");
    }
    // The mean service time of a server with a slot idle says nothing of it with both taken.
    let by_mean = play(1, 1, 0.4).by_mean;
    assert!(by_mean > 1.2 * 1e3 / SERVICE as f64, "{by_mean}/s");
}
