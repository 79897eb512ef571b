//! Valid and invalid answers of HTTP backends, and the pending writes that are counted.

use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get;

use super::*;
use crate::capacity::Target;

const TIMEOUT: Duration = Duration::from_millis(200);

/// Valid answer of that size.
fn of_bytes(bytes: usize) -> String {
    let answer = r#"{"cores":2.5}"#;
    answer.to_owned() + &" ".repeat(bytes - answer.len())
}

/// Backends of which all but two give an invalid answer; counts the changes sent.
async fn backends() -> (String, Arc<AtomicU32>) {
    let changes = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&changes);
    let changed = move |body: String| async move {
        counted.fetch_add(1, Ordering::SeqCst);
        body
    };
    let router = Router::new()
        .route(
            "/good",
            get(|| async { r#"{"cores":2.5,"parallelism":null}"# }).put(changed),
        )
        .route(
            "/replicas",
            get(|| async { r#"{"cores":5,"parallelism":2}"# }).put(|body: String| async { body }),
        )
        .route(
            "/refusing",
            get(|| async { (StatusCode::CONFLICT, "Deferred") }),
        )
        .route("/garbage", get(|| async { "ready" }))
        .route("/negative", get(|| async { r#"{"cores":-1}"# }))
        .route("/vast", get(|| async { of_bytes(ANSWER_BYTES_MAX + 1) }))
        .route("/full", get(|| async { of_bytes(ANSWER_BYTES_MAX) }))
        .route("/silent", get(std::future::pending::<&str>));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (format!("http://{address}"), changes)
}

fn local(addresses: &[&str]) -> HttpBackends {
    remembering(addresses, &Arc::default())
}

fn remembering(addresses: &[&str], memory: &Arc<HttpMemory>) -> HttpBackends {
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let backend = |text: &&str| Backend {
        address: (!text.is_empty()).then(|| text.parse().unwrap()),
        replicated: text.ends_with("/replicas"),
        tell_batch: text.ends_with("/batches"),
        ..Backend::default()
    };
    let backends = addresses.iter().map(backend).collect();
    HttpBackends::new(http, backends, TIMEOUT, Arc::clone(memory))
}

#[tokio::test]
async fn invalid_answer_is_an_error_that_reports_whether_change_may_apply() {
    let (base, _) = backends().await;
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let nobody = format!("http://{port}/");
    let table: &[(&str, &str, bool)] = &[
        ("/refusing", "status 409, not 200: Deferred", false),
        ("/garbage", "does not give the actual cores", true),
        ("/negative", "cores must be a number from 0", true),
        ("/vast", "more than 65536 bytes", true),
        ("/silent", "no answer within 200ms", true),
    ];
    for (path, expected, indeterminate) in table {
        let answers = local(&[&format!("{base}{path}")]).actual().await;
        let error = answers[0].clone().unwrap().unwrap_err();
        assert!(error.to_string().contains(expected), "{path}: {error}");
        assert_eq!(error.may_have_applied(), *indeterminate, "{path}");
    }
    let answers = local(&[
        &nobody,
        &format!("{base}/good"),
        "",
        &format!("{base}/full"),
    ])
    .actual()
    .await;
    assert!(
        matches!(answers[0], Some(Err(ActuateError::Unreachable(_)))),
        "{answers:?}"
    );
    assert_eq!(answers[1], Some(Ok(one(2500))));
    assert_eq!(answers[2], None);
    assert_eq!(answers[3], Some(Ok(one(2500))));
}

fn one(millis: u32) -> Actual {
    Actual::certain(Allocation::one(Cores::from_millis(millis)))
}

#[tokio::test]
async fn replicas_are_read_and_sent_as_total_cores_and_count() {
    let (base, _) = backends().await;
    let local = local(&[&format!("{base}/replicas")]);
    let each = Cores::from_millis(2500);
    let actual = Actual::certain(Allocation::new(2, each));
    assert_eq!(local.actual().await, [Some(Ok(actual))]);
    let target = Target {
        replicas: 4,
        each,
        start: Cores::whole(1),
    };
    let change = Resize {
        variant: 0,
        target,
        ready: actual.ready,
        limited: false,
    };
    // Two keep 2.5 cores, two start with one: 1.75 each on average.
    let spread = Allocation::new(4, Cores::from_millis(1750));
    assert_eq!(local.resize(&[change]).await, [Ok(Actual::certain(spread))]);
    assert_eq!(serving_cores(&change), Some(each));
    let shrinks = Resize {
        target: Target::of(Allocation::new(1, each)),
        ..change
    };
    assert_eq!(serving_cores(&shrinks), None);
}

#[tokio::test]
async fn changes_are_confirmed_in_order_and_advisory_sends_none() {
    let (base, changes) = backends().await;
    let local = local(&["", &format!("{base}/good")]);
    let change = |variant, cores| Resize {
        variant,
        target: Target::one(Cores::whole(cores)),
        ready: Allocation::NONE,
        limited: false,
    };
    let resizes = [change(1, 4), change(0, 1), change(7, 1)];
    let none = Err(ActuateError::NoAddress);
    assert_eq!(
        local.resize(&resizes).await,
        [Ok(one(4000)), none.clone(), none]
    );
    assert_eq!(changes.load(Ordering::SeqCst), 1);
    let advisory = local.advisory();
    assert_eq!(advisory.actual().await[1], Some(Ok(one(2500))));
    assert_eq!(
        advisory.resize(&resizes).await,
        vec![Err(ActuateError::Advisory); 3]
    );
    assert_eq!(changes.load(Ordering::SeqCst), 1, "nothing was asked for");
}

/// Backend that reports these cores and does not answer changes.
async fn late() -> (String, Arc<AtomicU32>) {
    let cores = Arc::new(AtomicU32::new(2));
    let current = Arc::clone(&cores);
    let report = move || async move { format!("{{\"cores\":{}}}", current.load(Ordering::SeqCst)) };
    let late = get(report).put(std::future::pending::<&str>);
    let router = Router::new().route("/late", late);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (format!("http://{address}/late"), cores)
}

fn resize_to(variant: usize, cores: u32, ready: u32) -> Resize {
    Resize {
        variant,
        target: Target::one(Cores::whole(cores)),
        ready: Allocation::one(Cores::whole(ready)),
        limited: false,
    }
}

/// Whoever sent the change is gone, before or after it stopped waiting for the answer; in the new service the backend
/// is that of another variant.
#[tokio::test]
async fn pending_write_outlives_the_service_that_sent_it() {
    for waits in [true, false] {
        let (url, cores) = late().await;
        let memory = Arc::default();
        let before = remembering(&[&url], &memory);
        let change = [resize_to(0, 4, 2)];
        let resize = before.resize(&change);
        match waits {
            true => assert_eq!(resize.await, [Err(ActuateError::Timeout(TIMEOUT))]),
            false => drop(tokio::time::timeout(TIMEOUT / 4, resize).await.unwrap_err()),
        }
        drop(before);
        let after = remembering(&["", &url], &memory);
        let now = async || after.actual().await.remove(1).unwrap().unwrap();
        assert_eq!(
            (now().await.ready, now().await.reserved),
            (one(2000).ready, Cores::whole(4))
        );
        memory.prune();
        assert_eq!(now().await.reserved, Cores::whole(4), "pruned too early");
        let other = remembering(&[&format!("{url}?of=another")], &memory);
        assert_eq!(other.actual().await, [Some(Ok(one(2000)))]);
        cores.store(4, Ordering::SeqCst);
        assert_eq!(now().await, one(4000));
    }
}

#[tokio::test(start_paused = true)]
async fn memory_of_an_address_lasts_until_its_writes_expire() {
    let (memory, url) = (HttpMemory::default(), "http://backend/".parse().unwrap());
    let reserved = |memory: &HttpMemory| memory.with_pending_writes(&url, one(2000)).reserved;
    let send = |cores| {
        let until = Instant::now() + PENDING_WRITE_TTL;
        memory.record(&url, &resize_to(0, cores, 2), until)
    };
    let (late, refused) = (
        ActuateError::Timeout(TIMEOUT),
        ActuateError::Status(409, String::new()),
    );
    let first = send(4);
    memory.record_answer(&url, Some(&late), first);
    // A refused change is not counted, and an earlier one still is.
    let second = send(6);
    assert_eq!(reserved(&memory), Cores::whole(6));
    memory.record_answer(&url, Some(&refused), second);
    assert_eq!(reserved(&memory), Cores::whole(4));
    tokio::time::advance(PENDING_WRITE_TTL - Duration::from_millis(1)).await;
    memory.prune();
    assert_eq!(reserved(&memory), Cores::whole(4));
    tokio::time::advance(Duration::from_millis(1)).await;
    memory.prune();
    assert_eq!(reserved(&memory), Cores::whole(2));
    assert!(memory.lock().is_empty());
}

#[tokio::test]
async fn pending_write_is_counted_until_it_takes_effect() {
    let (url, cores) = late().await;
    let local = local(&[&url]);
    let one = |cores| Allocation::one(Cores::whole(cores));
    let now = async || local.actual().await.remove(0).unwrap().unwrap();
    assert_eq!(now().await, Actual::certain(one(2)));
    for (requested, fewest, most) in [(4, 2, 4), (1, 1, 4)] {
        let change = resize_to(0, requested, 2);
        let answer = local.resize(&[change]).await.remove(0);
        assert_eq!(answer, Err(ActuateError::Timeout(TIMEOUT)));
        let actual = now().await;
        let expected = (one(fewest), Cores::whole(most));
        assert_eq!(
            (actual.ready, actual.reserved),
            expected,
            "asked for {requested}"
        );
    }
    // It takes effect; the earlier write is superseded.
    cores.store(1, Ordering::SeqCst);
    assert_eq!(now().await, Actual::certain(one(1)));
    cores.store(2, Ordering::SeqCst);
    assert_eq!(now().await, Actual::certain(one(2)));
}

/// A server that keeps the batch size it was sent last, and the bodies it received.
async fn telling() -> (String, Arc<AtomicU32>, Arc<Mutex<Vec<String>>>) {
    let (batch, sent) = (Arc::new(AtomicU32::new(8)), Arc::new(Mutex::default()));
    let report =
        |batch: &AtomicU32| format!("{{\"cores\":4,\"batch\":{}}}", batch.load(Ordering::SeqCst));
    let (now, current, bodies) = (Arc::clone(&batch), Arc::clone(&batch), Arc::clone(&sent));
    let shown = get(move || async move { report(&now) });
    let route = shown.put(move |body: String| async move {
        let change: serde_json::Value = serde_json::from_str(&body).unwrap();
        if let Some(batch) = change["batch"].as_u64() {
            current.store(batch as u32, Ordering::SeqCst);
        }
        let bodies: &Mutex<Vec<String>> = &bodies;
        bodies.lock().unwrap().push(body);
        report(&current)
    });
    let router = Router::new().route("/batches", route);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    (format!("http://{address}/batches"), batch, sent)
}

#[tokio::test]
async fn server_is_sent_its_batch_once_and_again_after_restart() {
    let (url, batch, sent) = telling().await;
    let local = local(&[&url]);
    let sent = || std::mem::take(&mut *sent.lock().unwrap());
    assert_eq!(local.tell(&[None]).await, [None]);
    assert_eq!(local.tell(&[Some(2)]).await, [Some(Ok(2))]);
    assert_eq!(local.tell(&[Some(2)]).await, [Some(Ok(2))]);
    assert_eq!(sent(), [r#"{"batch":2}"#]);
    // It has restarted.
    batch.store(8, Ordering::SeqCst);
    local.actual().await;
    assert_eq!(local.tell(&[None]).await, [Some(Ok(8))]);
    assert_eq!(local.tell(&[Some(2)]).await, [Some(Ok(2))]);
    assert_eq!(sent(), [r#"{"batch":2}"#]);
    let change = Resize {
        variant: 0,
        target: Target::one(Cores::whole(4)),
        ready: Allocation::NONE,
        limited: false,
    };
    local.resize(&[change]).await;
    assert_eq!(sent(), [r#"{"cores":4.0,"batch":2}"#]);
}

#[tokio::test]
async fn unreachable_server_is_an_error_and_untold_server_is_none() {
    let (base, changes) = backends().await;
    let silent = format!("{base}/silent/batches");
    let good = format!("{base}/good");
    let answers = local(&[&silent, &good, ""]).tell(&[Some(2); 3]).await;
    assert!(matches!(answers[0], Some(Err(_))), "{answers:?}");
    assert_eq!(answers[1..], [None, None]);
    assert_eq!(changes.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn quota_of_a_control_group_is_read_set_and_kept_after_a_failure() {
    let groups = tempfile::tempdir().unwrap();
    let file = groups.path().join("small/cpu.max");
    std::fs::create_dir(groups.path().join("small")).unwrap();
    std::fs::write(&file, "200000 100000").unwrap();
    let server = |name: &str| Backend {
        cgroup: Some(CgroupServer {
            root: groups.path().to_owned(),
            name: name.to_owned(),
            max: Cores::whole(4),
        }),
        ..Backend::default()
    };
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let backends = vec![server("small"), server("none")];
    let backends = HttpBackends::new(http, backends, TIMEOUT, Arc::default());
    let found = backends.actual().await;
    assert_eq!(found[0], Some(Ok(one(2000))));
    assert!(matches!(found[1], Some(Err(_))), "{found:?}");
    let change = |variant, millis| Resize {
        variant,
        target: Target::one(Cores::from_millis(millis)),
        ready: Allocation::NONE,
        limited: false,
    };
    let changes = [change(0, 1500), change(1, 1500)];
    let changed = backends.resize(&changes).await;
    assert_eq!(changed[0], Ok(one(1500)));
    let error = changed[1].clone().unwrap_err();
    assert!(!error.may_have_applied(), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "150000 100000");
    let refused = backends.resize(&[change(0, 5)]).await;
    assert!(refused[0].is_err(), "{refused:?}");
    assert_eq!(backends.actual().await[0], Some(Ok(one(1500))));
}
