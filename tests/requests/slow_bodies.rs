//! Slow clients among quick ones, through a real Envoy: clients that drip, stall, upload slowly or read
//! slowly take no slot, over HTTP/1.1, HTTP/2 and gRPC.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde_json::json;
use weir_api::metrics::Metric;
use weir_bed::emulator::ANSWER_BYTES;
use weir_bed::fate::Summary;
use weir_bed::load::{Protocol, Rates, Schedule, Sender, Target, start};
use weir_bed::network::Network;
use weir_bed::oip::{self, ModelInferRequest};
use weir_bed::scene::{PATIENCE, Scene, Variant};
use weir_bed::slow::{Crowd, Habit, SlowEnd};
use weir_bed::wait;

const SLOTS: u32 = 4;
const SERVICE_MS: f64 = 50.0;
const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: SLOTS,
    service_ms: SERVICE_MS,
};
/// Capacity of the slots, in requests/s.
const CAPACITY_RPS: f64 = 1000.0 / SERVICE_MS * SLOTS as f64;
/// Fraction of the capacity.
const LOAD: f64 = 0.7;
/// SLO of quick clients.
const SLO: Duration = Duration::from_secs(1);
/// Duration of the quick load, in s.
const SECONDS: usize = 8;
/// Maximum budget of the scenes, in ms: the longest time that a slow client may stay.
const MAX_MS: u64 = 10_000;
/// A slow upload, and its rate in bytes/s.
const UPLOAD_BYTES: usize = 200_000;
const UPLOAD_BYTES_PER_S: f64 = 100_000.0;
/// Fraction of the load that uploads slowly.
const UPLOADING: f64 = 0.05;

/// A scene and the clients' protocol.
struct ProtocolScene {
    scene: Scene,
    protocol: Protocol,
}

impl ProtocolScene {
    async fn new(protocol: Protocol) -> ProtocolScene {
        let scene = Scene::start(&[ONE], 1, |bootstrap, plugin| {
            plugin["deadline"] = json!({ "max_ms": MAX_MS });
            plugin["queue"] = json!({ "overlap": true });
            match protocol {
                Protocol::Grpc => bootstrap.http2_backends(),
                Protocol::Http1 | Protocol::Http2 => bootstrap,
            }
        });
        ProtocolScene {
            scene: scene.await.unwrap(),
            protocol,
        }
    }

    fn url(&self) -> String {
        let address = self.scene.envoy.listener("weir").unwrap();
        match self.protocol {
            Protocol::Grpc => format!("http://{address}/{}/ModelInfer", oip::SERVICE),
            Protocol::Http1 | Protocol::Http2 => format!("http://{address}/v2/models/model/infer"),
        }
    }

    /// Returns a body of about `bytes` bytes.
    fn body(&self, bytes: usize) -> Bytes {
        match self.protocol {
            Protocol::Grpc => oip::frame(&ModelInferRequest::of("model", &vec![7; bytes])).into(),
            Protocol::Http1 | Protocol::Http2 => vec![b' '; bytes].into(),
        }
    }

    /// Sends `rps` requests/s over that network, and summarizes the outcomes.
    async fn load(&self, rps: f64, seed: u64, slo: Duration, network: Network) -> Summary {
        let payload = if network == Network::none() {
            2
        } else {
            UPLOAD_BYTES
        };
        let rates = Rates::constant(rps, SECONDS).unwrap();
        let schedule = Schedule::new(&rates, &network, payload as u64, seed).unwrap();
        let sender = Sender {
            slo,
            timeout: slo * 3,
            body: self.body(payload),
            answer_bytes: 0,
            read_bytes_per_s: None,
            protocol: self.protocol,
        };
        let target = Target {
            name: "weir".to_owned(),
            url: self.url(),
            then: Vec::new(),
            headers: Vec::new(),
        };
        let run = start(Arc::new(schedule), Arc::new(network), sender, vec![target]).unwrap();
        let record = run.finish().await.unwrap();
        println!("{:?}: {:?}", self.protocol, record.lag);
        Summary::of(&record.outcomes[0], slo, |_| None).unwrap()
    }

    /// Sends quick requests at that fraction of the capacity.
    async fn quick(&self, of_capacity: f64) -> Summary {
        self.load(of_capacity * CAPACITY_RPS, 1, SLO, Network::none())
            .await
    }

    fn crowd(&self, count: u32, habit: Habit, bytes: usize, budget_ms: u64) -> Crowd {
        Crowd {
            url: self.url(),
            protocol: self.protocol,
            count,
            habit,
            body: self.body(bytes),
            headers: vec![("x-slo-ms", budget_ms.to_string())],
            stay: PATIENCE,
        }
    }

    /// Runs one slow client to its end.
    async fn alone(&self, habit: Habit, bytes: usize, budget_ms: u64) -> SlowEnd {
        let clients = self.crowd(1, habit, bytes, budget_ms).start().unwrap();
        clients.finish().await.unwrap().remove(0)
    }

    /// Asserts that at most one request of a run was late; one may be noise of the machine.
    fn assert_all_on_time(&self, what: &str, sum: &Summary) {
        println!("{:?}: {what}: {sum:?}", self.protocol);
        assert!(sum.sent > 100, "{sum:?}");
        assert!(
            sum.on_time + 1 >= sum.sent,
            "{:?}: {what}: {sum:?}",
            self.protocol
        );
    }

    /// Asserts that no slow request reached a server and that every slot is free.
    async fn assert_nothing_left(&self) {
        let scene = &self.scene;
        scene.until(Metric::HeldRequests, "", 0).await.unwrap();
        scene.until(Metric::SlotsInUse, "small", 0).await.unwrap();
        let backend = &scene.backends[0];
        backend.slow_by(20.0).unwrap();
        let running: Vec<_> = (0..SLOTS)
            .map(|_| Scene::spawn(scene.infer_within(MAX_MS)))
            .collect();
        wait::until("all slots at once", PATIENCE, || {
            backend.load().1 == SLOTS as usize
        })
        .await
        .unwrap();
        for answer in running {
            assert_eq!(answer.await.unwrap().unwrap().status, 200);
        }
    }
}

/// Status 504 in the protocol's terms.
fn deadline_exceeded(protocol: Protocol) -> Option<u16> {
    match protocol {
        Protocol::Http1 | Protocol::Http2 => Some(504),
        Protocol::Grpc => Some(4),
    }
}

async fn dripping_clients_change_nothing(protocol: Protocol) {
    const PER_SLOT: u32 = 20;
    let run = ProtocolScene::new(protocol).await;
    // 0.3 bytes/s.
    let habit = Habit::Drip(Duration::from_millis(3333));
    let crowd = run.crowd(PER_SLOT * SLOTS, habit, 1000, MAX_MS);
    let dripping = crowd.start().unwrap();
    dripping.until_begun(PATIENCE).await.unwrap();
    let sum = run.quick(LOAD).await;
    run.assert_all_on_time("beside dripping clients", &sum);
    for end in dripping.finish().await.unwrap() {
        assert_eq!(end.status, deadline_exceeded(protocol), "{end:?}");
        assert_eq!(end.reason, "expired", "{end:?}");
        assert!(end.cut_after.is_some(), "{end:?}");
    }
    // Ids of quick requests come from their schedule.
    let executed = run.scene.backends[0].executions();
    let mut dripping = executed
        .iter()
        .filter(|one| !one.request_id.starts_with("1-"));
    assert_eq!(dripping.next(), None, "a dripping request reached a server");
    run.assert_nothing_left().await;
}

async fn slow_uploads_cost_the_quick_nothing(protocol: Protocol) {
    let slo = Duration::from_secs(5);
    let quick = LOAD * (1.0 - UPLOADING);
    let alone = ProtocolScene::new(protocol).await.quick(quick).await;
    let run = ProtocolScene::new(protocol).await;
    let link = Network::constant(UPLOAD_BYTES_PER_S, Duration::ZERO);
    let slow = run.load(LOAD * UPLOADING * CAPACITY_RPS, 2, slo, link);
    let (beside, slow) = tokio::join!(run.quick(quick), slow);
    println!("{protocol:?}: alone {alone:?}\nbeside {beside:?}\nslow {slow:?}");
    assert_eq!(alone.sent, beside.sent);
    // 0.2 percentage points, or one request, for noise of the machine.
    let lost = alone.on_time.saturating_sub(beside.on_time);
    let allowed = (0.002 * alone.sent as f64).max(1.0);
    assert!(lost as f64 <= allowed, "{lost} of {} fewer", alone.sent);
    assert!(slow.sent > 10, "{slow:?}");
    assert!(slow.on_time + 1 >= slow.sent, "{slow:?}");
}

async fn slow_readers_take_nobodys_slot(protocol: Protocol) {
    const PER_SLOT: u32 = 5;
    /// More than the kernel and Envoy buffer.
    const ANSWER: &str = "16000000";
    let run = ProtocolScene::new(protocol).await;
    let mut reader = run.crowd(1, Habit::Read(100_000), 2, MAX_MS);
    reader.headers.push((ANSWER_BYTES, ANSWER.to_owned()));
    let backend = &run.scene.backends[0];
    let mut reading = Vec::new();
    // One after another: all at once would slow down the emulated server itself.
    for nth in 1..=(PER_SLOT * SLOTS) as usize {
        reading.push(reader.clone().start().unwrap());
        let answered = || backend.executions().len() == nth && backend.load() == (0, 0);
        wait::until("an answer that is hardly read", PATIENCE, answered)
            .await
            .unwrap();
    }
    let sum = run.quick(LOAD).await;
    run.assert_all_on_time("beside slow readers", &sum);
    drop(reading);
    run.assert_nothing_left().await;
}

async fn a_hopeless_upload_is_refused_when_that_is_known(protocol: Protocol) {
    let run = ProtocolScene::new(protocol).await;
    // It would take 20 s.
    let end = run.alone(Habit::Upload(10_000), UPLOAD_BYTES, 1000).await;
    refused_at_the_deadline(&run, &end).await;
}

async fn a_silent_client_is_refused_at_its_deadline(protocol: Protocol) {
    let run = ProtocolScene::new(protocol).await;
    let end = run.alone(Habit::Silent, UPLOAD_BYTES, 1000).await;
    refused_at_the_deadline(&run, &end).await;
}

async fn refused_at_the_deadline(run: &ProtocolScene, end: &SlowEnd) {
    println!("{:?}: {end:?}", run.protocol);
    assert_eq!(end.status, deadline_exceeded(run.protocol), "{end:?}");
    assert_eq!(end.reason, "expired", "{end:?}");
    let after = end.answered_after.unwrap();
    // The refusal comes no earlier than the execution time before the deadline, and long before any other
    // limit.
    assert!(after >= Duration::from_millis(900), "{end:?}");
    assert!(after < Duration::from_secs(4), "{end:?}");
    assert!(end.cut_after.unwrap() < Duration::from_secs(8), "{end:?}");
    assert_eq!(run.scene.backends[0].executions(), []);
    run.assert_nothing_left().await;
}

/// Runs tests over several protocols.
macro_rules! over {
    ($($module:ident $protocol:ident { $($test:ident),* $(,)? })*) => {$(
        mod $module {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $test() {
                super::$test(super::Protocol::$protocol).await;
            })*
        }
    )*};
}

over!(
    http1 Http1 {
        dripping_clients_change_nothing,
        slow_uploads_cost_the_quick_nothing,
        slow_readers_take_nobodys_slot,
        a_hopeless_upload_is_refused_when_that_is_known,
        a_silent_client_is_refused_at_its_deadline,
    }
    http2 Http2 {
        dripping_clients_change_nothing,
        slow_uploads_cost_the_quick_nothing,
        slow_readers_take_nobodys_slot,
        a_hopeless_upload_is_refused_when_that_is_known,
        a_silent_client_is_refused_at_its_deadline,
    }
    grpc Grpc {
        dripping_clients_change_nothing,
        slow_uploads_cost_the_quick_nothing,
        slow_readers_take_nobodys_slot,
        a_hopeless_upload_is_refused_when_that_is_known,
        a_silent_client_is_refused_at_its_deadline,
    }
);
