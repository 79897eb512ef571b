//! Servers that take requests and answer nothing.

use super::*;

/// Two variants of 4 slots and 20 ms, with half of the load each.
fn two() -> Engine {
    engine(
        &[variant("a", 0.5, 4, 20.0), variant("b", 0.5, 4, 20.0)],
        PLAN_HOLDS,
    )
}

/// A run in which requests come every 5 ms and are answered after 20, except where their variant hangs.
struct Run {
    engine: Engine,
    now: u64,
    running: std::collections::BTreeMap<StreamId, (u64, String)>,
    sent: [usize; 2],
    lost: usize,
}

impl Run {
    fn new() -> Run {
        let mut engine = two();
        engine.serve(at(0).mono);
        Run {
            engine,
            now: 0,
            running: std::collections::BTreeMap::new(),
            sent: [0; 2],
            lost: 0,
        }
    }

    fn take(&mut self, verdicts: Vec<(StreamId, Verdict)>) {
        for (stream, verdict) in verdicts {
            match verdict {
                Verdict::Forward(dispatch) => {
                    self.sent[usize::from(&*dispatch.name == "b")] += 1;
                    let name = dispatch.name.to_string();
                    self.running.insert(stream, (self.now, name));
                }
                Verdict::Reject(_) => {
                    self.lost += 1;
                    self.running.remove(&stream);
                }
                _ => {}
            }
        }
    }

    /// Plays until then; `hangs`: the variant whose requests are never answered.
    fn until(&mut self, ms: u64, hangs: &str) {
        while self.now < ms {
            self.now += 5;
            let now = at(self.now);
            let answers = |(since, name): &(u64, String)| *since + 20 <= self.now && name != hangs;
            let ended: Vec<_> = (self.running.iter())
                .filter(|(_, of)| answers(of))
                .map(|(stream, _)| *stream)
                .collect();
            for stream in ended {
                self.running.remove(&stream);
                self.engine.on_answer(stream, served(), now);
                let next = end(&mut self.engine, stream, End::Answered, now);
                self.take(next);
            }
            let verdicts = release(&mut self.engine, now);
            self.take(verdicts);
            self.engine.renew(true, now.mono);
            let stream = self.now as StreamId;
            let verdict = submit(&mut self.engine, stream, 100, now);
            self.take(vec![(stream, verdict)]);
        }
    }

    fn fails(&self, name: &str) -> bool {
        let mut health = self.engine.health();
        health.any(|(of, fails)| **of == *name && fails)
    }
}

#[test]
fn variant_that_hangs_is_avoided_after_two_silences() {
    let mut run = Run::new();
    run.until(1000, "");
    assert_eq!((run.lost, run.fails("a")), (0, false));
    run.until(1400, "a");
    assert!(run.fails("a"));
    assert!((4..=16).contains(&run.lost), "{} lost", run.lost);
    (run.lost, run.sent) = (0, [0; 2]);
    run.until(21_400, "a");
    let [a, b] = run.sent;
    assert_eq!(a + b, 4000);
    assert!((3..=4000 / 512 + 2).contains(&a), "{a} trials");
    assert_eq!(run.lost, a);
    // It answers again.
    run.lost = 0;
    run.until(32_000, "");
    assert!(!run.fails("a"));
    run.sent = [0; 2];
    run.until(34_000, "");
    assert_eq!((run.lost, run.sent), (0, [200, 200]));
}

#[test]
fn what_ends_at_one_moment_is_one_silence() {
    let mut engine = two();
    for stream in 0..8 {
        submit(&mut engine, stream, 100, at(0));
    }
    // A hiccup of both servers.
    assert_eq!(release(&mut engine, at(101)).len(), 8);
    assert!(engine.health().all(|(_, fails)| !fails));
}

/// Sends one request to each variant; the other one answers, and the first ends so many ms later without a byte.
fn falls_silent(engine: &mut Engine, stream: StreamId, how: End, from: u64, ms: u64) {
    let mut silent = None;
    for stream in [stream, stream + 1] {
        match submit(engine, stream, 1000, at(from)) {
            Verdict::Forward(dispatch) if &*dispatch.name == "a" => silent = Some(stream),
            Verdict::Forward(_) => {
                engine.on_answer(stream, served(), at(from + 5));
                end(engine, stream, End::Answered, at(from + 5));
            }
            other => panic!("{other:?}"),
        }
    }
    end(engine, silent.unwrap(), how, at(from + ms));
}

fn failing(engine: &Engine) -> Vec<String> {
    let failing = engine.health().filter(|(_, fails)| *fails);
    failing.map(|(name, _)| name.to_string()).collect()
}

#[test]
fn two_silences_one_after_the_other_are_a_failure() {
    for how in [End::TimedOut, End::Disconnected] {
        let mut engine = two();
        falls_silent(&mut engine, 1, how, 10, 50);
        assert!(failing(&engine).is_empty());
        falls_silent(&mut engine, 3, how, 100, 50);
        assert_eq!(failing(&engine), ["a"], "{how:?}");
    }
}

#[test]
fn what_is_given_up_early_is_no_silence() {
    let mut engine = two();
    for (stream, from) in [(1, 10), (3, 100), (5, 200)] {
        falls_silent(&mut engine, stream, End::Disconnected, from, 15);
    }
    assert!(failing(&engine).is_empty());
}

#[test]
fn silence_of_all_variants_is_none_of_one() {
    let mut engine = two();
    for round in 1..5 {
        let stream = round * 10;
        let from = u64::from(round) * 200;
        for stream in stream..stream + 4 {
            submit(&mut engine, stream, 100, at(from));
        }
        assert_eq!(release(&mut engine, at(from + 101)).len(), 4);
    }
    assert!(failing(&engine).is_empty());
}

#[test]
fn one_silent_server_of_several_is_none_of_the_variant() {
    let mut engine = two();
    for round in 1..10 {
        let from = round * 100;
        let first = round as StreamId * 4;
        let sent: Vec<StreamId> = (first..first + 4).collect();
        let mut silent = None;
        for stream in sent {
            let Verdict::Forward(dispatch) = submit(&mut engine, stream, 50, at(from)) else {
                panic!("not sent")
            };
            if &*dispatch.name == "a" && silent.is_none() {
                silent = Some(stream);
                continue;
            }
            engine.on_answer(stream, served(), at(from + 20));
            end(&mut engine, stream, End::Answered, at(from + 20));
        }
        assert_eq!(release(&mut engine, at(from + 51)).len(), 1);
        assert!(failing(&engine).is_empty(), "round {round}");
    }
}

#[test]
fn request_that_nobody_else_can_serve_is_the_trial() {
    let mut engine = engine(
        &[variant("a", 0.5, 4, 20.0), variant("slow", 0.5, 4, 300.0)],
        PLAN_HOLDS,
    );
    falls_silent(&mut engine, 1, End::TimedOut, 10, 50);
    falls_silent(&mut engine, 3, End::TimedOut, 100, 50);
    assert_eq!(failing(&engine), ["a"]);
    let to = |verdict: &Verdict| match verdict {
        Verdict::Forward(dispatch) => dispatch.name.to_string(),
        other => format!("{other:?}"),
    };
    // Others have time for the slow one, until it has what it can take.
    let mut tried = Vec::new();
    for stream in 9..40 {
        let verdict = submit(&mut engine, stream, 400, at(300));
        if to(&verdict) == "a" {
            tried.push(stream);
        } else if stream < 13 {
            assert_eq!(to(&verdict), "slow");
        }
    }
    let [tried] = tried[..] else {
        panic!("nothing is lost by one at a time: {tried:?}")
    };
    engine.on_answer(tried, served(), at(320));
    end(&mut engine, tried, End::Answered, at(320));
    assert!(failing(&engine).is_empty());
}
