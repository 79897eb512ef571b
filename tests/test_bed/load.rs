//! The load generator against emulators, without a proxy: the load is open-loop, and every outcome is
//! recorded.

mod uploads;

use std::sync::Arc;
use std::time::Duration;

use weir_bed::emulator::{Emulator, LatencyModel, ServerConfig};
use weir_bed::fate::{Fate, Outcome, Summary};
use weir_bed::load::{Protocol, Rates, Record, Run, STAGES, Schedule, Sender, Target, start};
use weir_bed::network::Network;
use weir_bed::wait;

const LIMIT: Duration = Duration::from_secs(20);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

async fn emulator(model: &str, latency: LatencyModel, cores: f64) -> anyhow::Result<Emulator> {
    let config = ServerConfig {
        aliases: vec!["m".into()],
        cores,
        ..ServerConfig::new(model, latency)
    };
    Emulator::start(config).await
}

fn sender() -> Sender {
    Sender {
        slo: ms(1000),
        timeout: ms(5000),
        body: "{}".into(),
        answer_bytes: 0,
        read_bytes_per_s: None,
        protocol: Protocol::Http1,
    }
}

fn target(emulator: &Emulator) -> Target {
    let url = format!("{}/v2/models/m/infer", emulator.url());
    Target {
        name: emulator.model().into(),
        url,
        then: Vec::new(),
        headers: Vec::new(),
    }
}

fn run(
    schedule: &Schedule,
    network: Network,
    sender: Sender,
    targets: &[&Emulator],
) -> anyhow::Result<Run> {
    let targets = targets.iter().map(|emulator| target(emulator)).collect();
    start(
        Arc::new(schedule.clone()),
        Arc::new(network),
        sender,
        targets,
    )
}

#[tokio::test]
async fn stalled_server_does_not_slow_the_load() {
    let stalled = emulator("stalled", LatencyModel::constant(1.0), 0.0)
        .await
        .unwrap();
    let rates = Rates::constant(200.0, 1).unwrap();
    let schedule = Schedule::new(&rates, &Network::none(), 0, 1).unwrap();
    let sent = schedule.requests.len();
    let run = run(&schedule, Network::none(), sender(), &[&stalled]).unwrap();
    // All requests are at the server at once, although it has answered none.
    wait::until("all to be sent", LIMIT, || stalled.load() == (sent, 0))
        .await
        .unwrap();
    let progress = run.progress();
    assert_eq!((progress[0].sent, progress[0].ended), (sent as u64, 0));
    stalled.set_cores(1000.0).unwrap();
    let record = run.finish().await.unwrap();
    assert!(record.outcomes[0].iter().all(|outcome| outcome.answered()));
}

#[tokio::test]
async fn every_target_gets_the_same_schedule_with_true_stamps() {
    let (small, large) = tokio::try_join!(
        emulator("small", LatencyModel::constant(1.0), 8.0),
        emulator("large", LatencyModel::constant(1.0), 8.0)
    )
    .unwrap();
    let rates = Rates::constant(100.0, 1).unwrap();
    let network = Network::constant(1e6, ms(40));
    let schedule = Schedule::new(&rates, &network, 80_000, 9).unwrap();
    assert!(
        schedule
            .requests
            .iter()
            .all(|request| request.upload == ms(100))
    );
    let run = run(&schedule, network, sender(), &[&small, &large]).unwrap();
    let record = run.finish().await.unwrap();
    for (outcomes, emulator) in record.outcomes.iter().zip([&small, &large]) {
        let of = |id: &str| outcomes.iter().find(|outcome| outcome.id == id).unwrap();
        let mut executed = emulator.executions();
        executed.sort_by_key(|done| of(&done.request_id).sent_at);
        assert_eq!(executed.len(), schedule.requests.len());
        let first = &executed[0].headers["x-slo-start"].parse::<u128>().unwrap();
        let first_at = schedule.requests[0].send_at.as_micros();
        for (done, planned) in executed.iter().zip(&schedule.requests) {
            assert_eq!(done.request_id, planned.id);
            assert_eq!(done.headers["x-slo-ms"], "1000");
            // Stamped with the send time, before the upload.
            let start: u128 = done.headers["x-slo-start"].parse().unwrap();
            assert_eq!(start - first, planned.send_at.as_micros() - first_at);
            let outcome = of(&planned.id);
            let variant = Some(emulator.model().to_owned());
            let remaining_ms = None;
            assert_eq!(
                outcome.fate,
                Fate::Answered {
                    variant,
                    remaining_ms
                }
            );
            // 100 ms up, at least 1 ms of service, 20 ms down.
            assert!(outcome.latency() >= ms(121), "{:?}", outcome.latency());
        }
    }
}

/// The test has a single thread, so blocking it delays the generator too.
#[tokio::test(flavor = "current_thread")]
async fn late_generator_reports_its_lag() {
    let emulator = emulator("m", LatencyModel::constant(1.0), 8.0)
        .await
        .unwrap();
    let schedule = Schedule::at(vec![ms(0), ms(50)], &Network::none(), 0, 1).unwrap();
    let run = run(&schedule, Network::none(), sender(), &[&emulator]).unwrap();
    tokio::task::yield_now().await;
    std::thread::sleep(ms(250));
    let record = run.finish().await.unwrap();
    assert!(record.lag.max_ms >= 195.0, "{:?}", record.lag);
    // Latency counts from the planned send time, so it includes the client's lag.
    assert!(
        record.outcomes[0]
            .iter()
            .all(|outcome| outcome.latency() >= ms(195))
    );
}

#[tokio::test]
async fn every_outcome_is_recorded() {
    let emulator = emulator("m", LatencyModel::constant(1.0), 1.0)
        .await
        .unwrap();
    let one = Schedule::at(vec![ms(0)], &Network::none(), 0, 1).unwrap();
    let fate_over = async |network: Network, sender: Sender, schedule: &Schedule| {
        let run = run(schedule, network, sender, &[&emulator]).unwrap();
        let mut record = run.finish().await.unwrap();
        record.outcomes[0].pop().unwrap()
    };

    let one_fate = async |sender, schedule| fate_over(Network::none(), sender, schedule).await;

    emulator.fail_next(1);
    let refused = Fate::Refused {
        status: 500,
        reason: "status-500".into(),
    };
    assert_eq!(one_fate(sender(), &one).await.fate, refused);

    emulator.set_cores(0.0).unwrap();
    let outcome = one_fate(
        Sender {
            timeout: ms(50),
            ..sender()
        },
        &one,
    )
    .await;
    assert_eq!(
        (outcome.fate, outcome.ended_at),
        (Fate::Disconnected, ms(50))
    );
    emulator.set_cores(1.0).unwrap();
    wait::until("the abandoned work", LIMIT, || {
        emulator.executions().len() == 1
    })
    .await
    .unwrap();

    // The client gives up during the upload: the server never receives the whole request.
    let network = Network::constant(1.0, ms(0));
    let slow = Schedule::at(vec![ms(0)], &network, 1000, 1).unwrap();
    let impatient = Sender {
        timeout: ms(50),
        ..sender()
    };
    let outcome = fate_over(network, impatient, &slow).await;
    assert_eq!(outcome.fate, Fate::Disconnected);
    assert_eq!(emulator.executions().len(), 1);

    emulator.set_cores(0.0).unwrap();
    let (outcome, ()) = tokio::join!(one_fate(sender(), &one), async {
        wait::until("the request", LIMIT, || emulator.load() == (1, 0))
            .await
            .unwrap();
        emulator.hang_up();
    });
    let Fate::Lost { error } = outcome.fate else {
        panic!("{:?}", outcome.fate)
    };
    assert!(!error.is_empty());
}

#[tokio::test]
async fn outcomes_of_a_run_match_its_backends_executions() {
    let emulator = emulator("m", LatencyModel::constant(20.0), 1.0)
        .await
        .unwrap();
    // Twice the capacity of one core: some are late, some abandoned, none lost, each executed once.
    let rates = Rates::constant(100.0, 1).unwrap();
    let schedule = Schedule::new(&rates, &Network::none(), 0, 5).unwrap();
    let sender = Sender {
        slo: ms(100),
        timeout: ms(400),
        ..sender()
    };
    let run = run(&schedule, Network::none(), sender, &[&emulator]).unwrap();
    let record = run.finish().await.unwrap();
    wait::until("all to be executed", LIMIT, || emulator.load() == (0, 0))
        .await
        .unwrap();
    let executed = emulator.executions();
    let ids = executed.iter().map(|done| done.request_id.as_str());
    let sum = Summary::of(&record.outcomes[0], ms(100), |_| Some(70.0)).unwrap();
    let sum = sum.with_backends(ids, emulator.core_seconds());
    assert_eq!(sum.check(), Ok(()));
    assert_eq!(sum.sent, schedule.requests.len() as u64);
    assert_eq!(executed.len() as u64, sum.sent);
    assert!(
        sum.late > 0 && sum.disconnected > 0 && sum.on_time > 0,
        "{sum:?}"
    );
    assert_eq!(sum.mean_accuracy, Some(70.0));
}

#[tokio::test]
async fn invalid_target_is_refused_before_the_run() {
    let schedule = Arc::new(Schedule::at(vec![], &Network::none(), 0, 1).unwrap());
    for (url, header) in [("not a url", "x-a"), ("http://127.0.0.1:1/", "bad header")] {
        let headers = vec![(header.to_owned(), "1".to_owned())];
        let bad = Target {
            name: "plain".into(),
            url: url.into(),
            then: Vec::new(),
            headers,
        };
        let error = start(
            Arc::clone(&schedule),
            Arc::new(Network::none()),
            sender(),
            vec![bad],
        );
        assert!(error.unwrap_err().to_string().contains("plain"));
    }
}

/// Sends four requests to a pipeline of two servers; the second server fails the first `failing` requests
/// that reach it.
async fn pipeline(failing: u32) -> anyhow::Result<(Record, [Emulator; 2])> {
    let (detect, classify) = tokio::try_join!(
        emulator("detect", LatencyModel::constant(60.0), 100.0),
        emulator("classify", LatencyModel::constant(40.0), 100.0)
    )?;
    classify.fail_next(failing);
    let network = Network::constant(1e6, ms(40));
    let moments = (0..4).map(|nth| ms(20 * nth)).collect();
    let schedule = Arc::new(Schedule::at(moments, &network, 0, 1)?);
    let stages = Target {
        then: vec![target(&classify).url],
        ..target(&detect)
    };
    let run = start(schedule, Arc::new(network), sender(), vec![stages])?;
    Ok((run.finish().await?, [detect, classify]))
}

#[tokio::test]
async fn pipeline_is_called_stage_by_stage_with_one_outcome() {
    let (record, [detect, classify]) = pipeline(0).await.unwrap();
    let outcomes = &record.outcomes[0];
    assert_eq!(outcomes.len(), 4);
    for outcome in outcomes {
        let Fate::Answered { variant, .. } = &outcome.fate else {
            panic!("{outcome:?}");
        };
        assert_eq!(variant.as_deref(), Some("detect+classify"));
        // Up, both stages, down; no latency between the stages.
        let took = outcome.latency();
        assert!(took >= ms(140), "{took:?}");
    }
    let of = |server: &Emulator, id: &str| {
        let all = server.executions();
        all.into_iter().find(|done| done.request_id == id).unwrap()
    };
    for Outcome { id, .. } in outcomes {
        let (first, second) = (of(&detect, id), of(&classify, id));
        for header in ["x-slo-ms", "x-slo-start"] {
            assert_eq!(first.headers[header], second.headers[header], "{header}");
        }
    }
    let product = |pair: &str| {
        let parts = pair.split(STAGES);
        Some(
            100.0
                * parts
                    .map(|part| if part == "detect" { 0.5 } else { 0.8 })
                    .product::<f64>(),
        )
    };
    let sum = Summary::of(outcomes, ms(1000), product).unwrap();
    assert_eq!(sum.mean_accuracy, Some(40.0));
}

#[tokio::test]
async fn pipeline_refused_by_one_stage_is_refused() {
    let (record, [detect, classify]) = pipeline(3).await.unwrap();
    let sum = Summary::of(&record.outcomes[0], ms(1000), |_| None).unwrap();
    assert_eq!((sum.on_time, sum.refused_total(), sum.lost), (1, 3, 0));
    assert_eq!(
        (detect.executions().len(), classify.executions().len()),
        (4, 1)
    );
}
