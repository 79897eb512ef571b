//! Answers to the filter's own calls that Envoy drops, because they are larger than it holds: a hostcall that reads one
//! fails, and the VM goes on.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;
use weir_api::metrics::Metric;
use weir_bed::scene::{KEY, PATIENCE, Scene, Variant, see};
use weir_bed::wait;

use crate::{BAD, GOOD, assert_no_reload};

/// Answers that the filter has to survive.
const ANSWERS: usize = 4;
/// Consecutive errors after which a variant fails, and requests under way with them.
const ERRORS_MAX: usize = 20;

/// What of an answer is too large.
#[derive(Debug, Clone, Copy)]
enum Oversized {
    /// 50 MiB; Envoy holds 1 MiB.
    Body,
    /// The same, in chunks.
    ChunkedBody,
    /// A header of 100 KiB; Envoy takes 60 KiB in all.
    Header,
    /// 500 headers; Envoy takes 100.
    Headers,
}

const ALL: [Oversized; 4] = [
    Oversized::Body,
    Oversized::ChunkedBody,
    Oversized::Header,
    Oversized::Headers,
];

impl Oversized {
    /// The head of the answer, and how many MiB follow.
    fn answer(self) -> (String, usize) {
        const MIB: usize = 50;
        let head = |headers: &str| format!("HTTP/1.1 200 OK\r\n{headers}\r\n");
        match self {
            Oversized::Body => (head(&format!("content-length: {}\r\n", MIB << 20)), MIB),
            Oversized::ChunkedBody => {
                let chunk = format!("{:x}\r\n", MIB << 20);
                (head("transfer-encoding: chunked\r\n") + &chunk, MIB)
            }
            Oversized::Header => {
                let value = "x".repeat(100 << 10);
                (
                    head(&format!("x-large: {value}\r\ncontent-length: 0\r\n")),
                    0,
                )
            }
            Oversized::Headers => {
                let many: String = (0..500).map(|i| format!("x-{i}: 1\r\n")).collect();
                (head(&(many + "content-length: 0\r\n")), 0)
            }
        }
    }
}

/// A server that answers each GET with this, and all else with 500.
struct Server {
    address: SocketAddr,
    answered: Arc<AtomicUsize>,
    serving: AbortHandle,
}

impl Server {
    async fn start(oversized: Oversized) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let answered = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&answered);
        let serving = tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let count = Arc::clone(&count);
                tokio::spawn(async move {
                    // Envoy closes the connection in the middle of the answer.
                    let _ = answer(connection, oversized, &count).await;
                });
            }
        });
        Server {
            address,
            answered,
            serving: serving.abort_handle(),
        }
    }

    async fn until_answered(&self) {
        let enough = || self.answered.load(Ordering::SeqCst) >= ANSWERS;
        wait::until("oversized answers", PATIENCE, enough)
            .await
            .unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(
    mut connection: TcpStream,
    oversized: Oversized,
    count: &AtomicUsize,
) -> std::io::Result<()> {
    let mut head = [0; 8192];
    let read = connection.read(&mut head).await?;
    if !head[..read].starts_with(b"GET") {
        let error = b"HTTP/1.1 500 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        return connection.write_all(error).await;
    }
    let (head, mebibytes) = oversized.answer();
    let mut result = connection.write_all(head.as_bytes()).await;
    let piece = vec![b' '; 1 << 20];
    for _ in 0..mebibytes {
        if result.is_ok() {
            result = connection.write_all(&piece).await;
        }
    }
    count.fetch_add(1, Ordering::SeqCst);
    result
}

/// Sends requests until the server has given enough oversized answers; returns the numbers of those sent and of those
/// that were not served.
async fn serve_meanwhile(scene: &Scene, server: &Server) -> (usize, usize) {
    let (mut sent, mut lost) = (0, 0);
    let serving = async {
        loop {
            let seen = see(scene.infer_within(5000)).await.unwrap();
            sent += 1;
            lost += usize::from(seen.status != 200);
        }
    };
    tokio::select! {
        () = serving => {}
        () = server.until_answered() => {}
    }
    (sent, lost)
}

async fn assert_no_trap(scene: &Scene) {
    assert_no_reload(&scene.envoy).await;
    let log = scene.envoy.log();
    assert_eq!(log.matches("panicked").count(), 0, "{log}");
}

#[tokio::test]
async fn oversized_answer_to_a_probe_ends_no_vm() {
    for oversized in ALL {
        let server = Server::start(oversized).await;
        let scene = Scene::start(&[GOOD, BAD], 2, |bootstrap, plugin| {
            plugin["health"] = json!({ "path": "/ready" });
            bootstrap
                .without_backend("bad")
                .backend("bad", server.address)
        })
        .await
        .unwrap();
        for _ in 0..ERRORS_MAX {
            see(scene.infer_within(5000)).await.unwrap();
        }
        scene.until(Metric::Failing, "bad", 1).await.unwrap();
        let (sent, lost) = serve_meanwhile(&scene, &server).await;
        assert_no_trap(&scene).await;
        assert!(sent > ANSWERS, "{oversized:?}: {sent} sent");
        assert_eq!(lost, 0, "{oversized:?}: of {sent}");
        assert_eq!(scene.metric(Metric::Failing, "bad").await.unwrap(), 1);
    }
}

#[tokio::test]
async fn oversized_answer_of_the_planner_ends_no_vm_and_is_logged_once() {
    for oversized in ALL {
        let server = Server::start(oversized).await;
        let alone = Variant { share: 1.0, ..GOOD };
        let scene = Scene::start(&[alone], 2, |bootstrap, plugin| {
            plugin["planner"] = json!({ "cluster": "planner", "authority": "p", "key": KEY });
            bootstrap.planner(server.address)
        })
        .await
        .unwrap();
        let (sent, lost) = serve_meanwhile(&scene, &server).await;
        let counted = async || scene.metric(Metric::PlanPollsFailed, "").await.unwrap() >= 3;
        wait::until_async("failed polls", PATIENCE, counted)
            .await
            .unwrap();
        assert_no_trap(&scene).await;
        assert!(sent > ANSWERS, "{oversized:?}: {sent} sent");
        assert_eq!(lost, 0, "{oversized:?}: of {sent}");
        let logged = scene.envoy.log().matches("does not answer:").count();
        assert_eq!(logged, 1, "{oversized:?}");
    }
}
