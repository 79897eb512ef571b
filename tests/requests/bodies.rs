//! Bodies that are slow, incomplete or numerous, through a real Envoy: a request takes a slot only once its
//! last byte has arrived, and held bytes are bounded.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_api::metrics::Metric;
use weir_bed::envoy::Bootstrap;
use weir_bed::scene::{PATIENCE, Scene, Variant, see};
use weir_bed::wait;

const ONE: Variant = Variant {
    name: "small",
    share: 1.0,
    slots: 1,
    service_ms: 1.0,
};
/// Pointer to the shipped bootstrap's filters, of which the first is Weir's.
const FILTERS: &str =
    "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters";

async fn scene(adapt: impl FnOnce(&mut Value)) -> Scene {
    let adapt = |bootstrap, plugin: &mut Value| {
        plugin["deadline"] = json!({ "max_ms": 10_000 });
        adapt(plugin);
        bootstrap
    };
    Scene::start(&[ONE], 1, adapt).await.unwrap()
}

/// Opens a client that has sent its request's head and `bytes` of a body of `length`.
async fn begun(scene: &Scene, budget_ms: u64, length: usize, bytes: usize) -> TcpStream {
    let address = scene.envoy.listener("weir").unwrap();
    let mut client = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v2/models/model/infer HTTP/1.1\r\nhost: weir\r\nconnection: close\r\nx-slo-ms: {budget_ms}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(&vec![b' '; bytes]).await.unwrap();
    client
}

/// Reads everything until the proxy closes the connection.
async fn answer(mut client: TcpStream) -> String {
    let mut answer = Vec::new();
    let read = tokio::time::timeout(PATIENCE, client.read_to_end(&mut answer));
    read.await.expect("it neither answers nor closes").ok();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Bytes that Envoy has allocated.
async fn allocated(scene: &Scene) -> f64 {
    let url = format!("http://{}/memory", scene.envoy.admin());
    let text = reqwest::get(url).await.unwrap().text().await.unwrap();
    let answer: Value = serde_json::from_str(&text).unwrap();
    answer["allocated"].as_str().unwrap().parse().unwrap()
}

fn is_refused(answer: &str, status: u16, reason: &str) -> bool {
    answer.starts_with(&format!("HTTP/1.1 {status} "))
        && answer.contains(&format!("x-slo-dropped-reason: {reason}\r\n"))
}

#[tokio::test]
async fn unfinished_bodies_take_no_slot() {
    const MANY: u64 = 40;
    let scene = scene(|_| {}).await;
    let mut unfinished = Vec::new();
    for _ in 0..MANY {
        unfinished.push(begun(&scene, 10_000, 100_000, 11).await);
    }
    scene.until(Metric::HeldRequests, "", MANY).await.unwrap();
    for _ in 0..50 {
        assert_eq!(see(scene.infer_within(2000)).await.unwrap().status, 200);
    }
    assert_eq!(scene.metric(Metric::HeldRequests, "").await.unwrap(), MANY);
    // The bodies are completed after all: each request is served.
    for mut client in unfinished {
        client.write_all(&vec![b' '; 100_000 - 11]).await.unwrap();
        let answer = answer(client).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }
    assert_eq!(scene.backends[0].executions().len() as u64, 50 + MANY);
    scene.until(Metric::HeldRequests, "", 0).await.unwrap();
}

#[tokio::test]
async fn a_body_that_cannot_end_in_time_is_refused_then() {
    let scene = scene(|_| {}).await;
    let silent = begun(&scene, 400, 100_000, 11).await;
    let answer = answer(silent).await;
    assert!(is_refused(&answer, 504, "expired"), "{answer}");
    assert_eq!(scene.backends[0].executions(), []);
    assert_eq!(scene.metric(Metric::Arrivals, "").await.unwrap(), 0);
}

#[tokio::test]
async fn bytes_held_are_bounded_and_the_rest_is_refused() {
    const LIMIT: u64 = 1_000_000;
    const EACH: usize = 100_000;
    let limits = json!({ "request_max_bytes": 200_000, "source_max_bytes": LIMIT, "total_max_bytes": LIMIT });
    let scene = scene(|plugin| plugin["body"] = limits).await;
    // The first request makes Envoy and the VM allocate what they keep.
    assert_eq!(see(scene.infer_within(2000)).await.unwrap().status, 200);
    let before = allocated(&scene).await;
    let fits = LIMIT / EACH as u64;
    let mut clients = Vec::new();
    for _ in 0..3 * fits {
        clients.push(begun(&scene, 10_000, EACH + 1, EACH).await);
    }
    scene.until(Metric::HeldRequests, "", fits).await.unwrap();
    scene
        .until(Metric::Refused, "source-limit", 2 * fits)
        .await
        .unwrap();
    let held = allocated(&scene).await - before;
    // A buffer's last slice is not full, and each connection needs memory of its own.
    let bound = 1.5 * LIMIT as f64 + 3.0 * fits as f64 * 65_536.0;
    println!("{held:.0} bytes allocated for {LIMIT} of bodies held; at most {bound:.0}");
    assert!(held <= bound, "{held} bytes for {LIMIT} held");
    let mut answers = Vec::new();
    for client in clients {
        answers.push(tokio::spawn(answer(client)));
    }
    let mut refused = 0;
    for answer in answers {
        let answer = answer.await.unwrap();
        refused += u64::from(is_refused(&answer, 429, "source-limit"));
    }
    assert_eq!(refused, 2 * fits);
}

#[tokio::test]
async fn a_server_that_hangs_holds_nobody_beyond_the_deadline() {
    let scene = scene(|plugin| plugin["streams"] = json!({ "answers": ["/v2/*"] })).await;
    scene.backends[0].slow_by(100_000.0).unwrap();
    // Before the first byte, neither a stream's path nor the `accept` header lifts the deadline.
    let hangs = scene
        .infer_within(400)
        .header("accept", "text/event-stream");
    assert_eq!(see(hangs).await.unwrap().refusal(), (504, "expired"));
    assert_eq!(scene.metric(Metric::Refused, "expired").await.unwrap(), 1);
}

/// Puts Envoy's buffer filter before Weir's, which is then not notified of bodies.
fn buffered(bootstrap: Bootstrap, plugin: &Value) -> Bootstrap {
    let buffer = json!({ "name": "envoy.filters.http.buffer", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.buffer.v3.Buffer", "max_request_bytes": 8 << 20,
    } });
    let bootstrap = bootstrap.plugin(plugin);
    let config = bootstrap.config().unwrap();
    let filters = config.pointer(FILTERS).unwrap().as_array().unwrap();
    let mut filters: Vec<_> = std::iter::once(&buffer).chain(filters).cloned().collect();
    filters[1]["typed_config"]["config"]["allow_on_headers_stop_iteration"] = json!(false);
    bootstrap.amend(FILTERS, json!(filters))
}

/// The order of filters in Istio and Envoy Gateway.
#[tokio::test]
async fn envoys_buffer_filter_before_weir_works_too() {
    let adapt = |bootstrap, plugin: &mut Value| buffered(bootstrap, plugin);
    let scene = Scene::start(&[ONE], 1, adapt).await.unwrap();
    let _unfinished = [
        begun(&scene, 10_000, 100_000, 11).await,
        begun(&scene, 10_000, 100_000, 11).await,
    ];
    for size in [0, 1, 100_000].into_iter().cycle().take(100) {
        let request = scene.infer_within(2000).body(vec![b' '; size]);
        assert_eq!(see(request).await.unwrap().status, 200, "{size}");
    }
    assert!(
        !scene
            .envoy
            .log()
            .contains("allow_on_headers_stop_iteration")
    );
}

#[tokio::test]
async fn where_envoy_does_not_tell_of_bodies_headers_decide() {
    let deaf = |bootstrap: Bootstrap, _: &mut Value| {
        let deaf = format!("{FILTERS}/0/typed_config/config/allow_on_headers_stop_iteration");
        bootstrap.amend(&deaf, json!(false))
    };
    let scene = Scene::start(&[ONE], 1, deaf).await.unwrap();
    for _ in 0..5 {
        assert_eq!(see(scene.infer_within(2000)).await.unwrap().status, 200);
    }
    let warned = || {
        scene
            .envoy
            .log()
            .contains("allow_on_headers_stop_iteration")
    };
    wait::until("the log to name the missing setting", PATIENCE, warned)
        .await
        .unwrap();
    let slow = begun(&scene, 400, 100_000, 11).await;
    let answer = answer(slow).await;
    assert!(is_refused(&answer, 504, "expired"), "{answer}");
}
