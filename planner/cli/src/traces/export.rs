//! Cycles' traces as spans of OpenTelemetry: a bounded queue, and a thread that sends batches of it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use opentelemetry::trace::{
    Span as _, SpanBuilder, Status, TraceContextExt as _, Tracer as _, TracerProvider as _,
};
use opentelemetry::{Context, InstrumentationScope, KeyValue};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, SdkTracer, SdkTracerProvider,
};
use weir_planner::http::{ApiClient, Trust};
use weir_planner::telemetry::cycle_trace::{CycleTrace, TraceSink, TraceValue};

use super::collector::Collector;
use super::settings::Settings;

/// Maximum number of spans that wait to be sent.
pub(super) const QUEUE_SPANS_MAX: usize = 8192;
/// Maximum number of spans in a request to the collector.
const BATCH_SPANS_MAX: usize = 512;
/// Maximum time for which the program waits at its end for the remaining spans to be sent.
const FLUSH_MAX: Duration = Duration::from_secs(1);

const _: () = assert!(BATCH_SPANS_MAX < QUEUE_SPANS_MAX);

/// Running export.
#[derive(Debug)]
pub(super) struct Export {
    provider: SdkTracerProvider,
}

impl Export {
    /// Begins to export.
    ///
    /// # Errors
    /// Certificates that cannot be read.
    pub(super) fn start(settings: Settings) -> anyhow::Result<Export> {
        let url = settings.endpoint.as_str();
        let trust = settings.ca.map(|(variable, ca)| {
            let name = settings.endpoint.host_str().unwrap_or_default();
            // An IPv6 address has brackets in a URL alone.
            let name = name.trim_matches(['[', ']']).to_owned();
            (variable, Trust { ca, name })
        });
        let client = ApiClient::new(trust.as_ref().map(|(_, trust)| trust));
        let client = client.map_err(|why| {
            let variable = trust.map_or("", |(variable, _)| variable);
            anyhow::anyhow!("{variable}: {why}")
        })?;
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(url)
            .with_http_client(Collector::new(client, url))
            .build()
            .context("export of traces")?;
        let limits = BatchConfigBuilder::default()
            .with_max_queue_size(QUEUE_SPANS_MAX)
            .with_max_export_batch_size(BATCH_SPANS_MAX);
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(limits.build());
        let mut resource = Resource::builder();
        if !settings.is_named {
            resource = resource.with_service_name("weir-planner");
        }
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor.build())
            .with_resource(resource.with_attribute(version).build());
        tracing::info!("traces of the cycles go to {url}");
        Ok(Export {
            provider: provider.build(),
        })
    }

    /// Returns the receiver of traces.
    pub(super) fn sink(&self) -> Arc<dyn TraceSink> {
        let scope = InstrumentationScope::builder("weir.planner");
        let scope = scope.with_version(env!("CARGO_PKG_VERSION")).build();
        Arc::new(Sink(self.provider.tracer_with_scope(scope)))
    }

    /// Sends the remaining spans, within the limit.
    pub(super) async fn end(self) {
        // It blocks, and what it waits for runs on this runtime.
        let flushed =
            tokio::task::spawn_blocking(move || self.provider.shutdown_with_timeout(FLUSH_MAX));
        match flushed.await {
            Ok(Ok(())) => {}
            Ok(Err(why)) => tracing::warn!("the last traces were not sent: {why}"),
            Err(why) => tracing::warn!("the last traces were not sent: {why}"),
        }
    }
}

/// Receiver that makes spans of traces.
#[derive(Debug)]
struct Sink(SdkTracer);

impl TraceSink for Sink {
    fn record(&self, trace: CycleTrace) {
        let at = |time: Duration| UNIX_EPOCH + trace.begin + time;
        let mut started: Vec<(Context, Duration)> = Vec::with_capacity(trace.spans.len());
        for span in trace.spans {
            let parent = span.parent.and_then(|parent| started.get(parent));
            let parent = parent.map_or_else(Context::new, |(context, _)| context.clone());
            let attributes = span.attributes.into_iter();
            let builder = SpanBuilder::from_name(span.name)
                .with_start_time(at(span.begin))
                .with_attributes(attributes.map(|(name, value)| key_value(name, value)));
            let mut new = self.0.build_with_context(builder, &parent);
            if let Some(failure) = span.failure {
                new.set_status(Status::error(failure));
            }
            started.push((parent.with_span(new), span.end));
        }
        // Parts end before the whole.
        for (context, end) in started.iter().rev() {
            context.span().end_with_timestamp(at(*end));
        }
    }
}

fn key_value(name: &'static str, value: TraceValue) -> KeyValue {
    match value {
        TraceValue::Text(text) => KeyValue::new(name, text),
        TraceValue::Count(count) => KeyValue::new(name, i64::try_from(count).unwrap_or(i64::MAX)),
        TraceValue::Number(number) => KeyValue::new(name, number),
        TraceValue::Flag(flag) => KeyValue::new(name, flag),
    }
}
