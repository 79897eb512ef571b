//! Failing variants: avoided, tried, and used again, by all workers.

use super::*;
use crate::health::{HealthSignal, ProbeResult};

fn two(rest: &str) -> Engine {
    engine(
        &[variant("a", 0.5, 4, 10.0), variant("b", 0.5, 4, 10.0)],
        rest,
    )
}

/// Variant that a new request goes to.
fn goes(engine: &mut Engine, stream: StreamId, now: Now) -> String {
    match submit(engine, stream, 1000, now) {
        Verdict::Forward(dispatch) => dispatch.name.to_string(),
        other => panic!("{other:?}"),
    }
}

pub(super) fn answer(engine: &mut Engine, stream: StreamId, sign: HealthSignal, now: Now) {
    let answer = Answer {
        failed: sign != HealthSignal::Served,
        sign: Some(sign),
        ..Answer::default()
    };
    engine.on_answer(stream, answer, now);
    end(engine, stream, End::Answered, now);
}

/// Sends requests one after the other, each answered as its variant is told to; returns the number sent to
/// each.
fn play(
    engine: &mut Engine,
    ms: std::ops::Range<u64>,
    signs: impl Fn(&str) -> Option<HealthSignal>,
) -> [usize; 2] {
    let mut went = [0; 2];
    for ms in ms.step_by(10) {
        let stream = 1_000_000 + ms as StreamId;
        let to = goes(engine, stream, at(ms));
        went[usize::from(to == "b")] += 1;
        match signs(&to) {
            Some(sign) => answer(engine, stream, sign, at(ms)),
            None => _ = end(engine, stream, End::Unreachable, at(ms)),
        }
        engine.renew(true, at(ms).mono);
    }
    went
}

fn is(name: &'static str, sign: Option<HealthSignal>) -> impl Fn(&str) -> Option<HealthSignal> {
    move |to| {
        if to == name {
            sign
        } else {
            Some(HealthSignal::Served)
        }
    }
}

#[test]
fn refused_connection_fails_a_variant_until_a_probe_succeeds() {
    let mut engine = two("");
    engine.serve(at(0).mono);
    let went = play(&mut engine, 0..2000, is("a", None));
    assert_eq!(went, [1, 199]);
    let probes = engine.probes(at(2000).mono);
    assert_eq!(probes.len(), 1);
    assert_eq!(&*probes[0].cluster, "c-a");
    assert_eq!(engine.probes(at(2499).mono), [], "one at a time");
    let probed = |engine: &mut Engine, probed, ms| {
        let of = (probes[0].variant, probes[0].grpc);
        engine.on_probe(of, probed, at(ms), &mut Vec::new());
    };
    probed(&mut engine, ProbeResult::Nobody, 2100);
    assert_eq!(play(&mut engine, 2100..2500, is("", None)), [0, 40]);
    assert_eq!(engine.probes(at(2500).mono).len(), 1);
    probed(&mut engine, ProbeResult::Status(404), 2600);
    let [a, b] = play(&mut engine, 2600..3600, is("", None));
    assert!(a.abs_diff(b) <= 2, "its share at once: {a}, {b}");
    assert_eq!(engine.probes(at(3600).mono), []);
}

#[test]
fn errors_in_a_row_fail_a_variant_until_a_trial_succeeds() {
    let mut engine = two("");
    let went = play(&mut engine, 0..400, is("a", Some(HealthSignal::Erred)));
    assert_eq!(went[0], 5);
    // Trials 0.5 s, 1 s, 2 s … apart.
    let went = play(&mut engine, 400..4000, is("a", Some(HealthSignal::Erred)));
    assert_eq!(went[0], 3);
    let [a, b] = play(&mut engine, 4000..9000, is("", None));
    assert!(a > 40 && b > a, "from the next trial on: {a}, {b}");
    let [a, b] = play(&mut engine, 9000..10_000, is("", None));
    assert_eq!(a, b);
}

/// A planner that sees the failure takes its share away.
#[test]
fn trial_ignores_a_zero_share() {
    let mut engine = two("");
    play(&mut engine, 0..400, is("a", Some(HealthSignal::Erred)));
    let without = [variant("a", 0.0, 4, 10.0), variant("b", 1.0, 4, 10.0)];
    engine.on_plan(&plan(9, &without), at(400).mono, at(400), &mut Vec::new());
    assert_eq!(play(&mut engine, 400..900, is("", None)), [1, 49]);
}

#[test]
fn only_one_request_is_the_trial() {
    let mut engine = two("");
    for stream in 0..5 {
        while goes(&mut engine, stream, at(0)) != "a" {
            answer(&mut engine, stream, HealthSignal::Served, at(0));
        }
        answer(&mut engine, stream, HealthSignal::Erred, at(0));
    }
    let trials = |engine: &mut Engine, from: StreamId, ms| {
        let went = (from..from + 4).map(|stream| goes(engine, stream, at(ms)));
        went.filter(|to| to == "a").count()
    };
    assert_eq!(trials(&mut engine, 10, 499), 0);
    for stream in 10..14 {
        answer(&mut engine, stream, HealthSignal::Served, at(500));
    }
    assert_eq!(trials(&mut engine, 20, 500), 1);
}

/// A client that provokes 404 everywhere, by its path, does not stop the service.
#[test]
fn all_variants_failing_are_used_as_healthy() {
    for sign in [Some(HealthSignal::Erred), None] {
        let mut engine = two("");
        play(&mut engine, 0..1000, |_| sign);
        let [a, b] = play(&mut engine, 1000..2000, |_| sign);
        assert!(a > 40 && b > 40, "{a} {b}");
        // A recovered variant is recognized by the first answer, or the next probe.
        play(&mut engine, 2000..2010, is("", None));
        for probe in engine.probes(at(2010).mono) {
            engine.on_probe(
                (probe.variant, probe.grpc),
                ProbeResult::Status(200),
                at(2010),
                &mut Vec::new(),
            );
        }
        let [a, b] = play(&mut engine, 2010..3010, is("", None));
        assert!(a > 40 && b > 40, "{a} {b}");
    }
}

#[test]
fn all_eligible_variants_failing_are_used_as_healthy() {
    let accurate = variant("a", 0.5, 4, 10.0).replace("70", "90");
    let mut engine = engine(&[accurate, variant("b", 0.5, 4, 10.0)], "");
    play(&mut engine, 0..100, is("a", None));
    let floor = [
        ("x-slo-ms", b"500".as_slice()),
        ("x-slo-min-accuracy", b"80"),
    ];
    let Verdict::Forward(to) = request(&mut engine, 1, &floor, at(100)) else {
        panic!("not sent")
    };
    assert_eq!(&*to.name, "a");
}

#[test]
fn client_errors_and_refusals_are_no_failure() {
    let mut engine = two("");
    let [a, b] = play(&mut engine, 0..1000, is("a", Some(HealthSignal::Answered)));
    assert_eq!(a, b);
    for stream in 0..100 {
        goes(&mut engine, stream, at(1000));
        end(&mut engine, stream, End::Failed, at(1000));
    }
    assert_eq!(play(&mut engine, 1000..2000, is("", None)), [50, 50]);
}

#[test]
fn waiting_requests_leave_a_failing_variant() {
    let mut engine = engine(
        &[variant("a", 0.34, 1, 10.0), variant("b", 0.66, 2, 10.0)],
        "",
    );
    let mut at_a = None;
    for stream in 0..3 {
        if goes(&mut engine, stream, at(0)) == "a" {
            at_a = Some(stream);
        }
    }
    for stream in 3..7 {
        assert_eq!(submit(&mut engine, stream, 1000, at(0)), Verdict::Park);
    }
    let b = |engine: &Engine| engine.gauges().map(|gauge| gauge.held).collect::<Vec<_>>();
    assert!(b(&engine)[0] > 0);
    let verdicts = end(&mut engine, at_a.unwrap(), End::Unreachable, at(1));
    assert_eq!(verdicts, [], "nobody goes to the dead, nobody is refused");
    assert_eq!(b(&engine), [0, 4]);
}

#[test]
fn workers_share_health_and_trials() {
    let json = format!(
        r#"{{"service":"demo","plan":{{"variants":[{},{}]}}}}"#,
        variant("a", 0.5, 8, 10.0),
        variant("b", 0.5, 8, 10.0)
    );
    let store = Memory::default();
    let mut workers: Vec<_> = (1..=3).map(|n| worker(&json, &store, n)).collect();
    for worker in &mut workers {
        worker.serve(at(0).mono);
    }
    let mut stream = 0;
    let mut err_at_a = |worker: &mut Engine, now| {
        loop {
            stream += 1;
            if goes(worker, stream, now) == "a" {
                return answer(worker, stream, HealthSignal::Erred, now);
            }
            answer(worker, stream, HealthSignal::Served, now);
        }
    };
    for n in [0, 1, 2, 0, 1] {
        err_at_a(&mut workers[n], at(1));
    }
    let notifications = store.take_notifications();
    let health = notifications
        .iter()
        .filter(|(_, why)| *why == crate::coordination::Notification::Health);
    assert_eq!(health.count(), 2, "{notifications:?}");
    let to_a = |workers: &mut [Engine], from: StreamId, now| {
        let mut count = 0;
        for stream in from..from + 6 {
            let worker = &mut workers[stream as usize % 3];
            worker.renew(true, now);
            count += usize::from(goes(worker, stream, Now { mono: now, ..at(0) }) == "a");
            answer(worker, stream, HealthSignal::Answered, at(2));
        }
        count
    };
    assert_eq!(to_a(&mut workers, 1000, at(2).mono), 0);
    assert_eq!(to_a(&mut workers, 2000, at(501).mono), 1);
}

#[test]
fn disabled_ejection_avoids_no_variant() {
    let mut engine = two(r#","health":{"eject":false}"#);
    assert_eq!(play(&mut engine, 0..1000, is("a", None)), [50, 50]);
    assert_eq!(engine.probes(at(1000).mono), []);
}

#[test]
fn failed_over_request_takes_its_slot_along() {
    let mut engine = two(r#","failover":"-failover""#);
    let Verdict::Forward(dispatch) = submit(&mut engine, 1, 1000, at(0)) else {
        panic!("not sent")
    };
    let (from, by) = match &*dispatch.name {
        "a" => ("a", "b"),
        _ => ("b", "a"),
    };
    let cluster = format!("c-{from}-failover");
    assert_eq!(dispatch.cluster.as_deref(), Some(&*cluster));
    let answer = Answer {
        sign: Some(HealthSignal::Served),
        served_by: engine.variant(by),
        ..Answer::default()
    };
    let tags = engine.on_answer(1, answer, at(5)).unwrap();
    assert_eq!(&*tags.variant, by);
    let taken = |engine: &Engine| engine.gauges().map(|gauge| gauge.taken).collect::<Vec<_>>();
    let expected = if by == "a" { [1, 0] } else { [0, 1] };
    assert_eq!(taken(&engine), expected);
    end(&mut engine, 1, End::Answered, at(10));
    assert_eq!(taken(&engine), [0, 0]);
    // And is avoided.
    assert_eq!(goes(&mut engine, 2, at(10)), by);
    assert_eq!(goes(&mut engine, 3, at(10)), by);
}

#[test]
fn accuracy_minimum_prevents_failover() {
    let accurate = variant("a", 0.5, 4, 10.0).replace("70", "90");
    let variants = [accurate, variant("b", 0.5, 4, 10.0)];
    let mut engine = engine(&variants, r#","failover":"-else""#);
    for (floor, cluster) in [("70", "-else"), ("80", "c-a")] {
        let headers = [
            ("x-slo-ms", b"500".as_slice()),
            ("x-slo-min-accuracy", floor.as_bytes()),
        ];
        let Verdict::Forward(to) = request(&mut engine, floor.len() as u32, &headers, at(0)) else {
            panic!("not sent")
        };
        assert!(to.cluster.unwrap().ends_with(cluster), "{floor}");
        end(&mut engine, floor.len() as u32, End::Answered, at(0));
    }
}

/// Sends a request of one protocol, which its variant answers as `sign` says; returns whether variant a got it.
fn goes_to_a(
    engine: &mut Engine,
    stream: StreamId,
    grpc: bool,
    sign: &dyn Fn(&str) -> HealthSignal,
) -> bool {
    let kind: &[u8] = match grpc {
        true => b"application/grpc",
        false => b"application/json",
    };
    let headers = [("content-type", kind), ("x-slo-ms", b"1000")];
    let now = at(u64::from(stream));
    let Verdict::Forward(to) = request(engine, stream, &headers, now) else {
        panic!("not sent")
    };
    answer(engine, stream, sign(&to.name), now);
    engine.renew(true, now.mono);
    &*to.name == "a"
}

/// gRPC clients that use a name which the servers do not know take a variant from themselves alone.
#[test]
fn errors_of_one_protocol_do_not_count_for_the_other() {
    for failing in [true, false] {
        let mut engine = two("");
        engine.serve(at(0).mono);
        let sign = |to: &str| match to {
            "a" => HealthSignal::Erred,
            _ => HealthSignal::Served,
        };
        let served = |_: &str| HealthSignal::Served;
        assert!((0..4).any(|stream| goes_to_a(&mut engine, stream, !failing, &served)));
        let erred = (4..104).filter(|stream| goes_to_a(&mut engine, *stream, failing, &sign));
        assert_eq!(erred.count(), 5, "then it is avoided");
        let others = (104..204).filter(|stream| goes_to_a(&mut engine, *stream, !failing, &served));
        // Its share, and what the requests of the other protocol leave of it.
        assert!((50..60).contains(&others.count()));
        // The planner takes no share from a variant that serves one of them.
        assert!(engine.health().all(|(_, fails)| !fails));
        let again = (204..304).filter(|stream| goes_to_a(&mut engine, *stream, failing, &sign));
        assert_eq!(again.count(), 0);
    }
}

#[test]
fn variant_fails_whose_only_protocol_does() {
    let mut engine = two("");
    for stream in 0..20 {
        goes_to_a(&mut engine, stream, true, &|to| match to {
            "a" => HealthSignal::Erred,
            _ => HealthSignal::Served,
        });
    }
    let failing: Vec<_> = engine
        .health()
        .map(|(name, fails)| (name.to_string(), fails))
        .collect();
    assert_eq!(failing, [("a".to_owned(), true), ("b".to_owned(), false)]);
}

/// A gRPC port that is closed takes the variant from gRPC alone, and is probed itself.
#[test]
fn each_port_is_probed_for_its_own_protocol() {
    let a =
        variant("a", 0.5, 4, 10.0).replace(r#""share""#, r#""grpc_cluster":"c-a-grpc","share""#);
    let mut engine = engine(&[a, variant("b", 0.5, 4, 10.0)], "");
    engine.serve(at(0).mono);
    let grpc = [
        ("content-type", b"application/grpc".as_slice()),
        ("x-slo-ms", b"1000"),
    ];
    for stream in 0..2 {
        request(&mut engine, stream, &grpc, at(0));
        end(&mut engine, stream, End::Unreachable, at(0));
    }
    let mut clusters: Vec<_> = engine
        .probes(at(1).mono)
        .into_iter()
        .map(|probe| (probe.cluster.to_string(), probe.grpc))
        .collect();
    clusters.sort();
    assert_eq!(
        clusters,
        [("c-a-grpc".to_owned(), true), ("c-b".to_owned(), true)]
    );
    assert_eq!(play(&mut engine, 10..410, is("", None)), [20, 20]);
}
