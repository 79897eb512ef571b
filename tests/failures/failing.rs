//! Variants whose servers fail while others could answer: killed, without their model, resetting, loading.
//! Each is ejected, fails few requests, and gets its share back when it recovers. The tests count requests
//! and do not measure times.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weir_api::metrics::Metric;
use weir_bed::emulator::{LatencyModel, ServerConfig};
use weir_bed::scene::{PATIENCE, Scene, planned, see};
use weir_bed::wait;

use crate::{BAD, GOOD};

/// Requests sent at once, so that both workers get some.
const AT_ONCE: usize = 4;
/// Consecutive errors after which a variant fails.
const ERRORS: usize = 5;

async fn scene() -> Scene {
    Scene::start(&[GOOD, BAD], 2, |bootstrap, plugin| {
        plugin["queue"] = json!({ "overlap": true });
        bootstrap
    })
    .await
    .unwrap()
}

/// Sends `count` requests, a few at once; returns the number of answers by status and variant.
async fn send(scene: &Scene, count: usize) -> BTreeMap<(u16, String), usize> {
    let mut answers = BTreeMap::new();
    for _ in 0..count / AT_ONCE {
        let some: Vec<_> = (0..AT_ONCE).map(|_| Scene::spawn(scene.infer())).collect();
        for one in some {
            let seen = one.await.unwrap().unwrap();
            let by = seen.header("x-slo-variant").to_owned();
            *answers.entry((seen.status, by)).or_default() += 1;
        }
    }
    answers
}

fn of(answers: &BTreeMap<(u16, String), usize>, status: u16) -> usize {
    let of_it = answers.iter().filter(|((known, _), _)| *known == status);
    of_it.map(|(_, count)| *count).sum()
}

/// Asserts that the variant has its half again, within the rounding of two workers.
async fn assert_share_restored(scene: &Scene) {
    scene.until(Metric::Failing, "bad", 0).await.unwrap();
    let answers = send(scene, 80).await;
    assert_eq!(of(&answers, 200), 80, "{answers:?}");
    let share = answers[&(200, "bad".to_owned())];
    assert!((30..=50).contains(&share), "{answers:?}");
}

#[tokio::test]
async fn a_killed_server_costs_what_it_had_and_comes_back() {
    let scene = scene().await;
    send(&scene, 40).await;
    scene.backends[1].crash();
    let answers = send(&scene, 200).await;
    // Requests in flight at the crash, and one per worker until it notices.
    let refused = of(&answers, 503);
    assert!((1..=AT_ONCE).contains(&refused), "{answers:?}");
    assert_eq!(answers.get(&(200, "bad".to_owned())), None);
    assert_eq!(of(&answers, 200), 200 - refused);
    scene.until(Metric::Failing, "bad", 1).await.unwrap();
    assert_eq!(scene.metric(Metric::Failing, "good").await.unwrap(), 0);
    scene.backends[1].come_back().await.unwrap();
    assert_share_restored(&scene).await;
}

#[tokio::test]
async fn a_server_that_answers_404_gets_trials_alone_until_it_has_its_model_again() {
    let scene = scene().await;
    send(&scene, 40).await;
    scene.backends[1].unload(true);
    let answers = send(&scene, 400).await;
    let unknown = of(&answers, 404);
    // A few requests may be in flight at the last of the consecutive errors; trials come on top.
    assert!(
        (ERRORS..ERRORS + 2 * AT_ONCE).contains(&unknown),
        "{answers:?}"
    );
    assert_eq!(of(&answers, 200), 400 - unknown);
    assert_eq!(
        scene.metric(Metric::Failures, "bad").await.unwrap(),
        unknown as u64
    );
    scene.backends[1].unload(false);
    // It has failed for this client alone, perhaps, which the gauge does not count.
    let back = async || {
        let answers = send(&scene, AT_ONCE).await;
        answers.contains_key(&(200, "bad".to_owned()))
    };
    wait::until_async("a trial that is answered", PATIENCE, back)
        .await
        .unwrap();
    assert_share_restored(&scene).await;
}

/// An unknown path gets 404 from all servers; other clients are not affected.
#[tokio::test]
async fn a_client_that_provokes_404_everywhere_does_not_stop_the_service() {
    let scene = scene().await;
    let wrong = format!(
        "http://{}/v2/models/nobodys/infer",
        scene.envoy.listener("weir").unwrap()
    );
    for round in 0..3 {
        for _ in 0..10 * ERRORS {
            let request = scene.client.post(&wrong).body("{}");
            assert_eq!(see(request).await.unwrap().status, 404, "{round}");
        }
        let answers = send(&scene, 40).await;
        assert_eq!(of(&answers, 200), 40, "{answers:?}");
    }
}

/// A server that answers each request by its first bytes with this status, and resets it if there is none.
async fn server_by(
    status: impl Fn(&[u8]) -> Option<u16> + Clone + Send + 'static,
) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let status = status.clone();
            tokio::spawn(async move {
                let mut head = vec![0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut head).await {
                    let Some(status) = status(&head[..read]) else {
                        return;
                    };
                    let answer = format!("HTTP/1.1 {status} -\r\ncontent-length: 0\r\n\r\n");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
            });
        }
    });
    address
}

/// A client sends what makes a server fail, to the variant of its choice; the others keep that variant.
#[tokio::test]
async fn what_one_client_provokes_fails_no_variant_for_others() {
    let address = server_by(|request| {
        let poison = request.windows(6).any(|word| word == b"poison");
        Some(if poison { 500 } else { 200 })
    });
    let address = address.await;
    let scene = Scene::start(&[GOOD, BAD], 2, |bootstrap, _| {
        bootstrap.without_backend("bad").backend("bad", address)
    })
    .await
    .unwrap();
    let client = reqwest::Client::builder().local_address(Some([127, 0, 0, 2].into()));
    let client = client.build().unwrap();
    let url = format!(
        "http://{}/v2/models/model/infer",
        scene.envoy.listener("weir").unwrap()
    );
    let poison = async |count: usize| {
        for _ in 0..count {
            let request = client.post(&url).header("x-slo-variants", "bad");
            assert_eq!(see(request.body("poison")).await.unwrap().status, 500);
        }
    };
    for round in 0..20 {
        poison(2 * ERRORS).await;
        let failing = scene.metric(Metric::Failing, "bad").await.unwrap();
        assert_eq!(failing, 0, "{round}");
        let answers = send(&scene, 40).await;
        assert_eq!(of(&answers, 200), 40, "{round}: {answers:?}");
        let share = answers.get(&(200, "bad".to_owned())).copied();
        assert!(
            share.is_some_and(|share| share >= 10),
            "{round}: {answers:?}"
        );
    }
}

/// A server that answers GET, and resets all other requests until `well` is set.
async fn resetting(well: Arc<AtomicBool>) -> std::net::SocketAddr {
    let may = move |head: &[u8]| head.starts_with(b"GET") || well.load(Ordering::SeqCst);
    server_by(move |head| may(head).then_some(200)).await
}

#[tokio::test]
async fn a_server_that_resets_is_tried_ever_less_often() {
    let well = Arc::new(AtomicBool::new(false));
    let address = resetting(Arc::clone(&well)).await;
    let scene = Scene::start(&[GOOD, BAD], 2, |bootstrap, _| {
        bootstrap.without_backend("bad").backend("bad", address)
    })
    .await
    .unwrap();
    let answers = send(&scene, 400).await;
    let refused = of(&answers, 503);
    assert!((1..=3 * AT_ONCE).contains(&refused), "{answers:?}");
    assert_eq!(of(&answers, 200), 400 - refused);
    well.store(true, Ordering::SeqCst);
    assert_share_restored(&scene).await;
}

#[tokio::test]
async fn loading_server_gets_nothing_until_its_health_path_reports_ready() {
    let server = |name: &str, ready_after| {
        let mut server = ServerConfig::new(name, LatencyModel::constant(1.0));
        (server.cores, server.ready_after) = (1000.0, ready_after);
        server
    };
    // Longer than starting Envoy and sending the first requests takes.
    let servers = vec![
        server("good", Duration::ZERO),
        server("bad", Duration::from_secs(8)),
    ];
    let scene = Scene::start_with(servers, &planned(&[GOOD, BAD]), 2, |bootstrap, plugin| {
        plugin["health"] = json!({ "path": "/v2/health/ready" });
        bootstrap
    })
    .await
    .unwrap();
    let answers = send(&scene, 200).await;
    let errors = of(&answers, 503);
    assert!((ERRORS..=ERRORS + AT_ONCE).contains(&errors), "{answers:?}");
    scene.until(Metric::Failing, "bad", 1).await.unwrap();
    assert_share_restored(&scene).await;
}

#[tokio::test]
async fn dead_variant_keeps_its_share_without_ejection() {
    let scene = Scene::start(&[GOOD, BAD], 1, |bootstrap, plugin| {
        plugin["health"] = json!({ "eject": false });
        bootstrap
    })
    .await
    .unwrap();
    scene.backends[1].crash();
    let answers = send(&scene, 40).await;
    assert_eq!((of(&answers, 200), of(&answers, 503)), (20, 20));
}

/// With the failover clusters, a killed server fails no request and loses no slot.
#[tokio::test]
async fn where_requests_may_move_on_a_killed_server_costs_nobody_an_answer() {
    let scene = Scene::start(&[GOOD, BAD], 2, |bootstrap, plugin| {
        plugin["failover"] = json!("-failover");
        bootstrap.failover()
    })
    .await
    .unwrap();
    let before = send(&scene, 80).await;
    assert_eq!((of(&before, 200), before.len()), (80, 2), "{before:?}");
    scene.backends[1].crash();
    let answers = send(&scene, 200).await;
    assert_eq!(answers, BTreeMap::from([((200, "good".to_owned()), 200)]));
    let moved = scene.metric(Metric::Failovers, "bad").await.unwrap();
    assert!((1..=2 * AT_ONCE as u64).contains(&moved), "{moved}");
    for name in ["good", "bad"] {
        scene.until(Metric::SlotsInUse, name, 0).await.unwrap();
    }
    let answer = see(scene.infer()).await.unwrap();
    assert_eq!(answer.header("x-slo-served-by"), "", "not for clients");
    scene.backends[1].come_back().await.unwrap();
    assert_share_restored(&scene).await;
    // With all servers crashed, requests are refused.
    for backend in &scene.backends {
        backend.crash();
    }
    let seen = see(scene.infer()).await.unwrap();
    assert_eq!(seen.refusal(), (503, "no-backend"));
    assert_eq!(seen.header("x-slo-served-by"), "");
}
