//! Collector of traces that decodes OTLP, and checks of what it got.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode as SpanStatus;
use prost::Message as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Stages of a cycle, in their order.
const STAGES: [&str; 6] = [
    "observe", "forecast", "solve", "actuate", "publish", "confirm",
];
/// Calls, each with the stages that they may be part of.
const CALLS: [(&str, &[&str]); 6] = [
    ("scrape", &["observe"]),
    ("read_actual", &["observe"]),
    ("decide", &["solve"]),
    ("publish_plan", &["publish", "confirm"]),
    ("resize", &["actuate", "confirm"]),
    ("wait_adopted", &["confirm"]),
];
/// Collector that keeps all spans and their resources.
#[derive(Debug, Default)]
pub(super) struct Collector {
    spans: Mutex<Vec<Span>>,
    pub(super) resources: Mutex<Vec<BTreeMap<String, Value>>>,
}

impl Collector {
    pub(super) async fn start() -> (Arc<Collector>, SocketAddr) {
        let collector = Arc::new(Collector::default());
        let router = Router::new().route("/v1/traces", post(receive));
        let router = router.with_state(Arc::clone(&collector));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (collector, address)
    }

    /// Traces that have their first span, which is sent last.
    pub(super) fn traces(&self) -> Vec<Trace> {
        let mut traces = BTreeMap::<Vec<u8>, Vec<Span>>::new();
        for span in self.spans.lock().unwrap().iter() {
            let spans = traces.entry(span.trace_id.clone()).or_default();
            spans.push(span.clone());
        }
        let each = traces.into_values().map(Trace);
        each.filter(|trace| trace.0.iter().any(|span| span.parent_span_id.is_empty()))
            .collect()
    }
}

async fn receive(
    State(collector): State<Arc<Collector>>,
    headers: HeaderMap,
    body: Bytes,
) -> (StatusCode, Vec<u8>) {
    if headers["api-key"] != "secret-1" || headers[header::CONTENT_TYPE] != "application/x-protobuf"
    {
        return (StatusCode::UNAUTHORIZED, Vec::new());
    }
    let request = ExportTraceServiceRequest::decode(body).unwrap();
    for resource_spans in request.resource_spans {
        let resource = resource_spans.resource.unwrap();
        collector
            .resources
            .lock()
            .unwrap()
            .push(values(&resource.attributes));
        for scope_spans in resource_spans.scope_spans {
            assert_eq!(scope_spans.scope.unwrap().name, "weir.planner");
            collector.spans.lock().unwrap().extend(scope_spans.spans);
        }
    }
    let answer = ExportTraceServiceResponse::default().encode_to_vec();
    (StatusCode::OK, answer)
}

pub(super) fn values(attributes: &[KeyValue]) -> BTreeMap<String, Value> {
    let value = |one: &KeyValue| match one.value.clone().unwrap().value.unwrap() {
        Any::StringValue(text) => json!(text),
        Any::BoolValue(flag) => json!(flag),
        Any::IntValue(count) => json!(count),
        Any::DoubleValue(number) => json!(number),
        other => panic!("{other:?}"),
    };
    let each = attributes.iter();
    each.map(|one| (one.key.clone(), value(one))).collect()
}

/// Spans of one cycle.
#[derive(Debug)]
pub(super) struct Trace(Vec<Span>);

impl Trace {
    pub(super) fn root(&self) -> &Span {
        let mut roots = self.0.iter().filter(|span| span.parent_span_id.is_empty());
        let root = roots.next().unwrap();
        assert_eq!((root.name.as_str(), roots.count()), ("cycle", 0));
        root
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Span> {
        self.0.iter().filter(move |span| span.name == name)
    }

    fn parent(&self, of: &Span) -> &Span {
        let mut spans = self.0.iter();
        spans
            .find(|span| span.span_id == of.parent_span_id)
            .unwrap()
    }

    /// Checks names, parents and times.
    pub(super) fn check(&self) {
        let root = self.root();
        for stage in STAGES {
            let spans: Vec<&Span> = self.all(stage).collect();
            assert_eq!(spans.len(), 1, "{stage}: {self:?}");
            assert_eq!(self.parent(spans[0]).name, "cycle");
        }
        let ends: Vec<u64> = STAGES
            .iter()
            .flat_map(|stage| self.all(stage))
            .flat_map(|span| [span.start_time_unix_nano, span.end_time_unix_nano])
            .collect();
        assert!(ends.is_sorted(), "{ends:?}");
        for span in &self.0 {
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
            assert!(span.start_time_unix_nano >= root.start_time_unix_nano);
            assert!(span.end_time_unix_nano <= root.end_time_unix_nano);
            if span.name == "cycle" || STAGES.contains(&span.name.as_str()) {
                continue;
            }
            let known = CALLS.iter().find(|(name, _)| *name == span.name);
            if let Some((name, stages)) = known {
                let parent = self.parent(span).name.as_str();
                assert!(stages.contains(&parent), "{name} in {parent}");
            }
        }
        for always in ["scrape", "read_actual", "decide"] {
            assert_eq!(self.all(always).count(), 1, "{always}");
        }
    }
}

pub(super) fn text<'a>(attributes: &'a BTreeMap<String, Value>, name: &str) -> &'a str {
    let value = attributes.get(name).and_then(Value::as_str);
    value.unwrap_or_else(|| panic!("no {name} in {attributes:?}"))
}

pub(super) fn failed(span: &Span) -> bool {
    let status = span.status.as_ref();
    status.is_some_and(|status| status.code == SpanStatus::Error as i32)
}
