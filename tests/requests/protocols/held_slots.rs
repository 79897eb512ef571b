//! Clients that hold what others wait for: readers that hardly read a stream, and streams that drip.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;
use weir_bed::emulator::ANSWER_BYTES;
use weir_bed::fate::Summary;
use weir_bed::load::{Protocol, Rates, Schedule, Sender, Target, start};
use weir_bed::network::Network;
use weir_bed::oip;

use super::*;

/// Three variants with 14 slots.
const THREE: [Variant; 3] = [
    Variant {
        name: "small",
        share: 0.5,
        slots: 8,
        service_ms: 60.0,
    },
    Variant {
        name: "middle",
        share: 0.3,
        slots: 4,
        service_ms: 130.0,
    },
    Variant {
        name: "large",
        share: 0.2,
        slots: 2,
        service_ms: 300.0,
    },
];
const SLO: Duration = Duration::from_secs(1);
/// Honest requests/s, and for how many seconds.
const HONEST_RPS: f64 = 40.0;
const SECONDS: usize = 15;
/// Slow readers, the answer that each asks for, what each reads at a time, and how often.
const READERS: usize = 30;
const ANSWER: usize = 4_000_000;
const WINDOW: u32 = 4096;
const READ: usize = 20_000;
const EVERY: Duration = Duration::from_secs(4);
/// Streams that drip.
const DRIPPING: usize = 80;

async fn three(workers: u32, streams: Value) -> Scene {
    let configured = |bootstrap, plugin: &mut Value| {
        plugin["streams"] = streams;
        bootstrap
    };
    Scene::start(&THREE, workers, configured).await.unwrap()
}

/// Sends honest requests, on a path that does not stream.
async fn honest(scene: &Scene) -> Summary {
    let rates = Rates::constant(HONEST_RPS, SECONDS).unwrap();
    let network = Network::none();
    let schedule = Schedule::new(&rates, &network, 2, 7).unwrap();
    let sender = Sender {
        slo: SLO,
        timeout: SLO * 3,
        body: "{}".into(),
        answer_bytes: 0,
        read_bytes_per_s: None,
        protocol: Protocol::Http1,
    };
    let target = Target {
        name: "weir".to_owned(),
        url: url(scene, "/predict"),
        then: Vec::new(),
        headers: Vec::new(),
    };
    let run = start(Arc::new(schedule), Arc::new(network), sender, vec![target]).unwrap();
    let record = run.finish().await.unwrap();
    Summary::of(&record.outcomes[0], SLO, |_| None).unwrap()
}

/// Asserts that honest requests are on time but for one in a hundred.
fn assert_on_time(what: &str, sum: &Summary) {
    println!("{what}: {sum:?}");
    assert!(sum.sent > 500, "{sum:?}");
    assert!(sum.on_time * 100 >= sum.sent * 99, "{what}: {sum:?}");
}

/// Asks for a large answer, and hardly reads it.
async fn read_slowly(scene: &Scene) -> impl Future<Output = ()> + Send + 'static {
    let address = scene.envoy.listener("weir").unwrap();
    async move {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(WINDOW).unwrap();
        let mut stream = socket.connect(address).await.unwrap();
        let head = format!(
            "POST /v2/models/model/infer HTTP/1.1\r\nhost: a\r\nx-slo-ms: 10000\r\n\
             {ANSWER_BYTES}: {ANSWER}\r\ncontent-length: 1\r\n\r\n1"
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut part = vec![0; READ];
        while stream.read_exact(&mut part).await.is_ok() {
            tokio::time::sleep(EVERY).await;
        }
    }
}

async fn slow_readers_leave_honest_clients_their_slots(workers: u32) {
    let scene = three(workers, json!({ "answers": ["/v2/models/*"] })).await;
    let mut readers = JoinSet::new();
    for _ in 0..READERS {
        readers.spawn(read_slowly(&scene).await);
    }
    let sum = honest(&scene).await;
    assert_on_time("slow readers", &sum);
    for variant in THREE {
        scene
            .until(Metric::SlotsInUse, variant.name, 0)
            .await
            .unwrap();
    }
    let begun = scene.backends.iter().map(|it| it.executions());
    let begun = begun
        .flatten()
        .filter(|it| it.door == Door::OipHttp)
        .count();
    assert_eq!(begun, READERS, "they were served");
    readers.shutdown().await;
}

#[tokio::test]
async fn slow_readers_of_streams_leave_honest_clients_their_slots() {
    slow_readers_leave_honest_clients_their_slots(1).await;
}

#[tokio::test]
async fn slow_readers_of_streams_leave_honest_clients_of_all_workers_their_slots() {
    slow_readers_leave_honest_clients_their_slots(4).await;
}

/// Begins a stream, and sends a byte of it each three seconds.
async fn drip(scene: &Scene) -> impl Future<Output = ()> + Send + 'static {
    let address = scene.envoy.listener("weir").unwrap();
    async move {
        let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let head = format!(
            "POST /{}/ModelStreamInfer HTTP/1.1\r\nhost: a\r\nx-slo-ms: 10000\r\n\
             content-length: 200\r\n\r\n",
            oip::SERVICE
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        while stream.write_all(b"1").await.is_ok() {
            tokio::time::sleep(Duration::from_secs(3)).await;
        }
    }
}

/// Starts 80 streams that drip.
async fn dripping(streams: Value) -> (Scene, JoinSet<()>) {
    let scene = three(8, streams).await;
    let mut crowd = JoinSet::new();
    for _ in 0..DRIPPING {
        crowd.spawn(drip(&scene).await);
    }
    (scene, crowd)
}

/// Whatever paths clients choose: by default no request is sent before its body is complete.
#[tokio::test]
async fn dripping_streams_take_no_slot_by_default() {
    let (scene, mut crowd) = dripping(json!({})).await;
    scene
        .until(Metric::HeldRequests, "", DRIPPING as u64)
        .await
        .unwrap();
    for variant in THREE {
        let used = scene
            .metric(Metric::SlotsInUse, variant.name)
            .await
            .unwrap();
        assert_eq!(used, 0, "{}", variant.name);
    }
    assert_on_time("dripping", &honest(&scene).await);
    crowd.shutdown().await;
}

#[tokio::test]
async fn dripping_streams_of_a_service_that_streams_take_half_of_the_slots() {
    let path = format!("/{}/ModelStreamInfer", oip::SERVICE);
    let (scene, mut crowd) = dripping(json!({ "requests": [path] })).await;
    for variant in THREE {
        let half = u64::from(variant.slots / 2);
        scene
            .until(Metric::SlotsInUse, variant.name, half)
            .await
            .unwrap();
    }
    assert_on_time("dripping", &honest(&scene).await);
    crowd.shutdown().await;
}
