//! Bodies sent in pieces and answers read slowly, as a server sees them.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::sync::{Arc, Mutex};
use std::time::Instant;

use axum::http::HeaderMap;
use axum::response::IntoResponse;
use futures_util::StreamExt;
use weir_bed::emulator::{ANSWER_BYTES, LatencyModel};
use weir_bed::fate::Fate;
use weir_bed::load::{Protocol, Run, Schedule, Sender, Target, start};
use weir_bed::network::Network;
use weir_bed::oip;
use weir_bed::slow::{Crowd, Habit};
use weir_bed::wait;

use super::{LIMIT, emulator, ms, sender, target};

/// A request as the server receives it.
#[derive(Debug, Clone, Default)]
struct IncomingRequest {
    headers: HeaderMap,
    /// Times, and the number of bytes received by then.
    pieces: Vec<(Instant, usize)>,
    complete: bool,
}

/// A server that records incoming requests, and refuses them at once if configured so.
struct Recorder {
    url: String,
    seen: Arc<Mutex<Vec<IncomingRequest>>>,
    serving: tokio::task::JoinHandle<std::io::Result<()>>,
}

impl Recorder {
    async fn start(refuses: bool) -> Recorder {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let seen: Arc<Mutex<Vec<IncomingRequest>>> = Arc::default();
        let shared = Arc::clone(&seen);
        let routes = axum::Router::new().fallback(async move |request: axum::extract::Request| {
            let place = shared.lock().unwrap().len();
            shared.lock().unwrap().push(IncomingRequest {
                headers: request.headers().clone(),
                ..IncomingRequest::default()
            });
            if refuses {
                let why = [("x-slo-dropped-reason", "expired")];
                return (axum::http::StatusCode::GATEWAY_TIMEOUT, why, "").into_response();
            }
            let mut body = request.into_body().into_data_stream();
            let mut bytes = 0;
            while let Some(Ok(piece)) = body.next().await {
                bytes += piece.len();
                let piece = (Instant::now(), bytes);
                shared.lock().unwrap()[place].pieces.push(piece);
            }
            shared.lock().unwrap()[place].complete = true;
            "{}".into_response()
        });
        let serving = tokio::spawn(async move { axum::serve(listener, routes).await });
        Recorder { url, seen, serving }
    }

    fn seen(&self) -> Vec<IncomingRequest> {
        self.seen.lock().unwrap().clone()
    }

    fn target(&self) -> Target {
        Target {
            name: "recorder".into(),
            url: self.url.clone(),
            then: Vec::new(),
            headers: Vec::new(),
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

const UPLOAD_BYTES: usize = 50_000;

/// Sends one request of [`UPLOAD_BYTES`] over a link that takes 20 ms and then half a second for the body.
fn upload(recorder: &Recorder, protocol: Protocol) -> Run {
    let network = Network::constant(2.0 * UPLOAD_BYTES as f64, ms(40));
    let schedule = Schedule::at(vec![ms(0)], &network, UPLOAD_BYTES as u64, 1).unwrap();
    let sender = Sender {
        body: vec![7; UPLOAD_BYTES].into(),
        protocol,
        ..sender()
    };
    let targets = vec![recorder.target()];
    start(Arc::new(schedule), Arc::new(network), sender, targets).unwrap()
}

#[tokio::test]
async fn body_arrives_in_pieces_at_the_links_rate() {
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Grpc] {
        let recorder = Recorder::start(false).await;
        let begun = Instant::now();
        let run = upload(&recorder, protocol);
        wait::until("the head", LIMIT, || !recorder.seen().is_empty())
            .await
            .unwrap();
        let record = run.finish().await.unwrap();
        let latency = record.outcomes[0][0].latency();
        assert!(latency >= ms(540), "{protocol:?}: {latency:?}");
        let seen = recorder.seen().pop().unwrap();
        assert!(seen.complete, "{protocol:?}: {seen:?}");
        let (end, bytes) = *seen.pieces.last().unwrap();
        assert_eq!(bytes, UPLOAD_BYTES, "{protocol:?}");
        // Measured from before the start, so that a busy machine can only make it late.
        let end = end - begun;
        assert!(end >= ms(520), "{protocol:?}: all there after {end:?}");
        for (at, bytes) in &seen.pieces {
            let at = *at - begun;
            let carried = UPLOAD_BYTES as f64 * (at.as_secs_f64() - 0.020) / 0.5;
            assert!(*bytes as f64 <= carried, "{protocol:?}: {bytes} at {at:?}");
        }
        let length = seen.headers.get("content-length");
        let expected = (protocol != Protocol::Grpc).then(|| UPLOAD_BYTES.to_string());
        let length = length.map(|length| length.to_str().unwrap().to_owned());
        assert_eq!(length, expected, "{protocol:?}");
    }
}

#[tokio::test]
async fn upload_refused_early_is_recorded_as_refused() {
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Grpc] {
        let recorder = Recorder::start(true).await;
        let record = upload(&recorder, protocol).finish().await.unwrap();
        let outcome = &record.outcomes[0][0];
        let refused = Fate::Refused {
            status: 504,
            reason: "expired".into(),
        };
        assert_eq!(outcome.fate, refused, "{protocol:?}");
        assert_eq!(recorder.seen().len(), 1, "{protocol:?}: sent again");
    }
}

#[tokio::test]
async fn client_that_leaves_ends_its_upload() {
    let recorder = Recorder::start(false).await;
    let network = Network::constant(1000.0, ms(0));
    let schedule = Schedule::at(vec![ms(0)], &network, UPLOAD_BYTES as u64, 1).unwrap();
    let sender = Sender {
        body: vec![7; UPLOAD_BYTES].into(),
        timeout: ms(300),
        ..sender()
    };
    let targets = vec![recorder.target()];
    let run = start(Arc::new(schedule), Arc::new(network), sender, targets).unwrap();
    let record = run.finish().await.unwrap();
    assert_eq!(record.outcomes[0][0].fate, Fate::Disconnected);
    wait::until("the server to see that", LIMIT, || {
        recorder.seen().first().is_some_and(|seen| seen.complete)
    })
    .await
    .unwrap();
    let seen = recorder.seen().pop().unwrap();
    assert!(
        seen.pieces
            .last()
            .is_none_or(|(_, bytes)| *bytes < UPLOAD_BYTES)
    );
}

#[tokio::test]
async fn answer_is_read_at_the_configured_rate() {
    let emulator = emulator("m", LatencyModel::constant(1.0), 1.0)
        .await
        .unwrap();
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Grpc] {
        let grpc = protocol == Protocol::Grpc;
        let mut to = target(&emulator);
        let mut body = "{}".into();
        if grpc {
            to.url = format!("{}/{}/ModelInfer", emulator.url(), oip::SERVICE);
            body = oip::frame(&oip::ModelInferRequest::of("m", b"x")).into();
        }
        to.headers = vec![(ANSWER_BYTES.into(), "200000".into())];
        let sender = Sender {
            read_bytes_per_s: Some(500_000),
            body,
            protocol,
            ..sender()
        };
        let one = Arc::new(Schedule::at(vec![ms(0)], &Network::none(), 0, 1).unwrap());
        let run = start(one, Arc::new(Network::none()), sender, vec![to]).unwrap();
        let outcome = run.finish().await.unwrap().outcomes[0].pop().unwrap();
        let variant = Some("m".to_owned());
        let remaining_ms = None;
        let answered = Fate::Answered {
            variant,
            remaining_ms,
        };
        assert_eq!(outcome.fate, answered, "{protocol:?}");
        let latency = outcome.latency();
        assert!(latency >= ms(400), "{protocol:?}: {latency:?}");
    }
}

#[tokio::test]
async fn slow_clients_report_how_they_ended() {
    let crowd = |recorder: &Recorder, protocol, stay| Crowd {
        url: recorder.url.clone(),
        protocol,
        count: 3,
        habit: Habit::Drip(ms(100)),
        body: vec![7; UPLOAD_BYTES].into(),
        headers: Vec::new(),
        stay,
    };
    for protocol in [Protocol::Http1, Protocol::Http2, Protocol::Grpc] {
        let refusing = Recorder::start(true).await;
        let clients = crowd(&refusing, protocol, LIMIT).start().unwrap();
        let ends = clients.finish().await.unwrap();
        assert_eq!(ends.len(), 3);
        for end in ends {
            assert_eq!((end.status, &*end.reason), (Some(504), "expired"));
            assert!(end.cut_after.is_some(), "{protocol:?}: {end:?}");
        }
        let patient = Recorder::start(false).await;
        let clients = crowd(&patient, protocol, ms(400)).start().unwrap();
        clients.until_begun(LIMIT).await.unwrap();
        for end in clients.finish().await.unwrap() {
            assert_eq!((end.status, end.cut_after), (None, None), "{protocol:?}");
        }
        assert_eq!(patient.seen().len(), 3, "{protocol:?}");
    }
}
