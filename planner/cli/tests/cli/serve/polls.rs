//! Long polls of many proxies at once, and the rate of reads: figures of the planner as a process.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::attack::memory_kib;
use super::bed::*;

/// Number of polls that are held at once.
const POLLS: usize = 2000;
/// Number of proxies that come at once: the kernel holds 128 connections until the planner accepts them, and others
/// are tried again after 1, 3, 7 … seconds.
const GROUP: usize = 100;
/// Limit of the planner's memory, in KiB.
const MEMORY_KIB_MAX: u64 = 150 * 1024;
/// Connections that read plans, and the time for which they do.
const READERS: usize = 8;
const READ_TIME: Duration = Duration::from_secs(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_long_polls_are_held_in_little_memory() {
    rlimit::increase_nofile_limit(rlimit::INFINITY).unwrap();
    let (mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder.start().await;
    let target: SocketAddr = planner.trim_start_matches("http://").parse().unwrap();
    let revision = until("a plan", async || {
        status(&planner).await["revision"].as_u64()
    })
    .await;
    let mut polls = Vec::new();
    while polls.len() < POLLS {
        polls.extend((0..GROUP).map(|_| tokio::spawn(poll_again(target, revision))));
        until("a group of polls", async || {
            (waiting(&planner).await >= polls.len()).then_some(())
        })
        .await;
    }
    // A new plan answers all of them, and they come back.
    mesh.load(60.0);
    until("a newer plan, and all polls again", async || {
        let newer = status(&planner).await["revision"].as_u64() > Some(revision);
        (newer && waiting(&planner).await >= POLLS).then_some(())
    })
    .await;
    let peak = memory_kib(child.id().unwrap());
    eprintln!("{POLLS} polls held, {peak} KiB");
    assert!(peak < MEMORY_KIB_MAX, "{peak} KiB");
    polls.iter().for_each(|task| task.abort());
    drop(child);
}

/// Measures plan reads per second. The planner has one core, this process another.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
#[ignore = "a measurement: cargo test --locked -p weir --test cli speed_of_plan_reads -- --ignored --nocapture"]
async fn speed_of_plan_reads() {
    let (_mesh, address) = FakeMesh::start().await;
    let folder = Folder::with(&service_file(address));
    let (child, planner) = folder.start().await;
    let process = child.id().unwrap().to_string();
    for (core, process) in [("0", process), ("1", std::process::id().to_string())] {
        let pinned = std::process::Command::new("taskset")
            .args(["-a", "-p", "-c", core, &process])
            .output();
        assert!(pinned.unwrap().status.success(), "taskset");
    }
    let target: SocketAddr = planner.trim_start_matches("http://").parse().unwrap();
    until("a plan", async || {
        status(&planner).await["revision"].as_u64()
    })
    .await;
    let begin = Instant::now();
    let readers: Vec<_> = (0..READERS)
        .map(|_| tokio::spawn(read_plans(target, begin + READ_TIME)))
        .collect();
    let mut reads = 0;
    for reader in readers {
        reads += reader.await.unwrap();
    }
    let rate = reads as f64 / begin.elapsed().as_secs_f64();
    eprintln!("{rate:.0} plan reads/s");
    drop(child);
}

/// Number of polls that the planner holds.
async fn waiting(planner: &str) -> usize {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let text = client.get(format!("{planner}/metrics")).send().await;
    let text = text.unwrap().text().await.unwrap();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("weir_planner_polls_waiting "));
    line.map_or(0, |number| number.parse().unwrap())
}

/// Polls for a newer plan again and again on one connection.
async fn poll_again(target: SocketAddr, mut revision: u64) {
    let mut stream = TcpStream::connect(target).await.unwrap();
    loop {
        let path = format!("/v1/plans/demo?after={revision}");
        let (status, body) = get(&mut stream, &path).await;
        if status == 200 {
            let plan: Value = serde_json::from_slice(&body).unwrap();
            revision = plan["revision"].as_u64().unwrap();
        }
    }
}

/// Reads the current plan on one connection until then; returns the number of reads.
async fn read_plans(target: SocketAddr, until: Instant) -> u64 {
    let mut stream = TcpStream::connect(target).await.unwrap();
    let mut reads = 0;
    while Instant::now() < until {
        let (status, _) = get(&mut stream, "/v1/services/demo/plans/current").await;
        assert_eq!(status, 200);
        reads += 1;
    }
    reads
}

/// Returns status and body of a request on a connection that is kept.
async fn get(stream: &mut TcpStream, path: &str) -> (u16, Vec<u8>) {
    let request =
        format!("GET {path} HTTP/1.1\r\nhost: planner\r\nauthorization: Bearer {KEY}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    loop {
        let read = stream.read_buf(&mut answer).await.unwrap();
        assert!(read > 0, "closed: {}", String::from_utf8_lossy(&answer));
        let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else {
            continue;
        };
        let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.split("content-length: ").nth(1);
        let length = length.map_or(0, |rest| rest.lines().next().unwrap().parse().unwrap());
        if answer.len() >= end + 4 + length {
            return (status, answer.split_off(end + 4));
        }
    }
}
