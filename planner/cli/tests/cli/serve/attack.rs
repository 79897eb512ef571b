//! The planner under attack by clients without a key: connections that send nothing, half a request, or half a body, and
//! readers that do not read. Proxies with a key get their plans meanwhile.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::time::{Instant, sleep, timeout};

use super::bed::*;

/// Number of attackers, each with a connection.
const ATTACKERS: usize = 5000;
/// Open files of this process besides theirs.
const FILES_BESIDE: u64 = 200;
/// Duration of the attack after all have connected.
const LASTS: Duration = Duration::from_secs(6);
/// Pause of an attacker whose connection was closed.
const PAUSE: Duration = Duration::from_secs(3);
/// Limit of half of all polls.
const POLL_MAX: Duration = Duration::from_millis(100);
/// Limit of every poll, for a machine that is busy with other tests.
const POLL_SLOWEST_MAX: Duration = Duration::from_secs(10);
/// Limit of the planner's memory, in KiB.
const MEMORY_KIB_MAX: u64 = 150 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stalled_connections_without_key_stop_no_poll() {
    let files = rlimit::increase_nofile_limit(rlimit::INFINITY).unwrap();
    let attackers = ATTACKERS.min(usize::try_from(files - FILES_BESIDE).unwrap());
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder.start().await;
    let target: SocketAddr = planner.trim_start_matches("http://").parse().unwrap();
    let kept = client(true);
    until("a plan", async || poll(&kept, &planner).await.ok()).await;

    let connected = Arc::new(AtomicUsize::new(0));
    let attack: Vec<_> = (0..attackers)
        .map(|index| tokio::spawn(attack(index, target, Arc::clone(&connected))))
        .collect();
    until("all attackers", async || {
        (connected.load(Ordering::Relaxed) >= attackers).then_some(())
    })
    .await;
    let begin = Instant::now();
    let (mut on_kept, mut on_new) = (Vec::new(), Vec::new());
    while begin.elapsed() < LASTS {
        on_kept.push(poll(&kept, &planner).await.expect("a proxy keeps polling"));
        // A connection whose head comes late may be the oldest without a key, and be closed: its proxy polls again. All
        // of that counts.
        let from = Instant::now();
        until("a poll on a new connection", async || {
            poll(&client(false), &planner).await.ok()
        })
        .await;
        on_new.push(from.elapsed());
        health(&planner).await;
        sleep(Duration::from_millis(20)).await;
    }
    let peak = memory_kib(child.id().unwrap());
    for (name, times) in [("kept", &mut on_kept), ("new", &mut on_new)] {
        times.sort();
        let (half, slowest) = (times[times.len() / 2], times[times.len() - 1]);
        eprintln!(
            "{} polls on {name} connections: half in {half:?}, all in {slowest:?}",
            times.len()
        );
        assert!(half < POLL_MAX, "{half:?}");
        assert!(slowest < POLL_SLOWEST_MAX, "{slowest:?}");
    }
    eprintln!("{attackers} attackers, {peak} KiB");
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
    attack.iter().for_each(|task| task.abort());
    drop(child);
}

/// Client with connections that are kept, or of one request each.
fn client(kept: bool) -> reqwest::Client {
    let idle = if kept { usize::MAX } else { 0 };
    let client = reqwest::Client::builder()
        .no_proxy()
        .pool_max_idle_per_host(idle);
    client.timeout(PATIENCE).build().unwrap()
}

/// Time of a poll that is answered by a plan.
async fn poll(client: &reqwest::Client, planner: &str) -> Result<Duration, String> {
    let begin = Instant::now();
    let request = client
        .get(format!("{planner}/v1/plans/demo"))
        .bearer_auth(KEY);
    let answer = request.send().await.map_err(|error| format!("{error:?}"))?;
    match answer.status().as_u16() {
        200 => answer
            .bytes()
            .await
            .map(|_| begin.elapsed())
            .map_err(|error| error.to_string()),
        other => Err(other.to_string()),
    }
}

/// Checks that the kubelet would find the planner alive: it tries three times.
async fn health(planner: &str) {
    for _ in 0..3 {
        let answer = client(false).get(format!("{planner}/healthz")).send().await;
        if answer.is_ok_and(|answer| answer.status() == 200) {
            return;
        }
    }
    panic!("the planner counts as dead");
}

/// Connects again and again, and never ends a request.
async fn attack(index: usize, target: SocketAddr, connected: Arc<AtomicUsize>) {
    let begins = [
        String::new(),
        "GET /healthz HTTP/1.1\r\nhost: planner\r\nx-pad: ".to_owned() + &"x".repeat(8000),
        half_body(""),
        half_body("authorization: Bearer wrong-key\r\n"),
        "GET /v1/openapi.json HTTP/1.1\r\nhost: planner\r\n\r\n".repeat(20),
        "GET /metrics HTTP/1.1\r\nhost: planner\r\n\r\n".repeat(20),
    ];
    let begin = &begins[index % begins.len()];
    let reads = index % begins.len() < 4;
    let mut count = true;
    loop {
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        if let Ok(mut stream) = socket.connect(target).await {
            let _ = timeout(PAUSE, stream.write_all(begin.as_bytes())).await;
            if std::mem::take(&mut count) {
                connected.fetch_add(1, Ordering::Relaxed);
            }
            let mut rest = Vec::new();
            match reads {
                // Until the planner closes the connection.
                true => drop(stream.read_to_end(&mut rest).await),
                false => sleep(PATIENCE).await,
            }
        }
        sleep(PAUSE).await;
    }
}

fn half_body(key: &str) -> String {
    let head = "POST /v1/solve HTTP/1.1\r\nhost: planner\r\ncontent-length: 4194304\r\n";
    format!("{head}{key}\r\n{}", "x".repeat(200_000))
}

/// Largest memory that a process has had, in KiB.
pub(crate) fn memory_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmHWM:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
