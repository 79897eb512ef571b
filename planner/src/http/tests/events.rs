//! Tests of server-sent events.

use futures_util::StreamExt;

use super::*;
use crate::telemetry::status::CycleReport;

/// An open stream, read event by event.
struct Events {
    bytes: futures_util::stream::BoxStream<'static, reqwest::Result<axum::body::Bytes>>,
    text: String,
}

/// Name, id and data of an event.
type Received = (String, String, Value);

impl Events {
    async fn open(endpoints: &Endpoints, last: Option<&str>) -> Events {
        let response = request(endpoints, last).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Events {
            bytes: response.bytes_stream().boxed(),
            text: String::new(),
        }
    }

    /// Returns the next event; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Received> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let mut lines = event.lines();
                    let value = lines.find_map(|line| line.strip_prefix(name)).unwrap();
                    value.trim_start_matches([':', ' ']).to_owned()
                };
                let data = serde_json::from_str(&field("data")).unwrap();
                let received = (field("event"), field("id"), data);
                self.text = rest.to_owned();
                return Some(received);
            }
            let bytes = self.bytes.next().await?.ok()?;
            self.text += std::str::from_utf8(&bytes).unwrap();
        }
    }
}

async fn request(endpoints: &Endpoints, last: Option<&str>) -> Response {
    let url = format!("http://{}/v1/services/demo/events", endpoints.address);
    let mut request = endpoints.client.get(url).bearer_auth(KEY);
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    request.send().await.unwrap()
}

async fn report() -> CycleReport {
    crate::control_loop::tests::reports(1).await.remove(0)
}

#[tokio::test]
async fn stream_has_each_cycle_and_plan_and_resumes_behind_its_last_id() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let report = report().await;
    let push = |at_ms: u64| {
        let report = CycleReport {
            at_ms,
            ..report.clone()
        };
        endpoints.handle.status.push(report);
    };
    (1..=5).for_each(&push);
    let first = endpoints.publish(1);
    let second = endpoints.publish(2);
    let mut events = Events::open(&endpoints, None).await;
    let (name, _, data) = events.next().await.unwrap();
    assert_eq!((&*name, &data["revision"]), ("plan", &second.0.into()));
    let (name, id, data) = events.next().await.unwrap();
    assert_eq!((&*name, &data["at_ms"]), ("cycle", &5.into()));
    assert_eq!(id, format!("5-{second}"));
    push(6);
    assert_eq!(events.next().await.unwrap().2["at_ms"], 6);
    let third = endpoints.publish(1);
    let (_, id, data) = events.next().await.unwrap();
    assert_eq!(data["revision"], third.0);
    assert_eq!(id, format!("6-{third}"));
    drop(events);
    push(7);
    push(8);
    let mut events = Events::open(&endpoints, Some(&id)).await;
    for at_ms in [7, 8] {
        assert_eq!(events.next().await.unwrap().2["at_ms"], at_ms);
    }
    // An earlier position has the plans between, too.
    let mut events = Events::open(&endpoints, Some(&format!("7-{first}"))).await;
    for revision in [second, third] {
        assert_eq!(events.next().await.unwrap().2["revision"], revision.0);
    }
    assert_eq!(events.next().await.unwrap().2["at_ms"], 8);
}

#[tokio::test]
async fn stream_of_a_pipeline_has_the_plans_of_every_stage() {
    let mut pipeline = service(8);
    let stage = |name: &str, variant| crate::service::Stage {
        name: name.to_owned(),
        variants: variant..variant + 1,
    };
    pipeline.stages = vec![stage("detect", 0), stage("classify", 1)];
    let endpoints = Endpoints::open(LONG, 64).await;
    let publishers = Arc::new(Publishers::new(&pipeline));
    let handle = ServiceHandle::with_publishers(pipeline.clone(), Arc::clone(&publishers));
    endpoints.app.services.insert(Arc::new(handle.unwrap()));
    // The plan of one stage alone: that stage is named.
    let publish = |cores: u32, stage: &str| {
        let allocations = [cores; 2].map(|n| Allocation::one(weir_api::Cores::whole(n)));
        let drafts = crate::plan::drafts(&pipeline, &allocations, None).unwrap();
        let stages = publishers.all().zip(drafts);
        for (publisher, draft) in stages.filter(|(one, _)| one.stage() == stage) {
            publisher.publish(draft, endpoints.app.clock.now()).unwrap();
        }
    };
    publish(1, "detect");
    publish(1, "classify");
    let mut events = Events::open(&endpoints, None).await;
    let mut stages = Vec::new();
    let mut last = String::new();
    for _ in 0..2 {
        let (name, id, data) = events.next().await.unwrap();
        assert_eq!(name, "plan");
        stages.push(data["service"].as_str().unwrap().to_owned());
        last = id;
    }
    assert_eq!(stages, ["detect", "classify"]);
    // A plan of the second stage alone, and the stream that continues behind it.
    publish(2, "classify");
    let (_, id, data) = events.next().await.unwrap();
    assert_eq!(data["service"], "classify");
    let mut again = Events::open(&endpoints, Some(&last)).await;
    assert_eq!(again.next().await.unwrap().2["service"], "classify");
    publish(2, "detect");
    let mut behind = Events::open(&endpoints, Some(&id)).await;
    assert_eq!(behind.next().await.unwrap().2["service"], "detect");
}

#[tokio::test]
async fn streams_are_limited_and_end_at_shutdown() {
    let endpoints = Endpoints::open(LONG, 64).await;
    let refused = request(&endpoints, Some("yesterday")).await;
    assert_eq!(
        problem(refused).await["errors"][0]["parameter"],
        "last-event-id"
    );
    endpoints.publish(1);
    let mut open = Events::open(&endpoints, None).await;
    assert_eq!(open.next().await.unwrap().0, "plan");
    let rest = endpoints.app.events.available_permits() as u32;
    assert_eq!(rest as usize, EVENTS_MAX - 1);
    let taken = Arc::clone(&endpoints.app.events)
        .acquire_many_owned(rest)
        .await
        .unwrap();
    let full = request(&endpoints, None).await;
    assert_eq!(full.headers()["retry-after"], "1");
    error(full, 429).await;
    drop(taken);
    endpoints.stop.send_replace(true);
    assert_eq!(open.next().await, None);
}
