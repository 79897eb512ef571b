//! Export of the cycles' traces by OTLP, turned on by OpenTelemetry's standard environment variables. Without them no
//! cycle is traced, and nothing is connected to.

#[cfg(feature = "traces")]
mod collector;
#[cfg(feature = "traces")]
mod export;
#[cfg(feature = "traces")]
mod settings;

use std::sync::Arc;

use weir_planner::telemetry::cycle_trace::TraceSink;

#[cfg(feature = "traces")]
use export::Export;

/// Running export of traces, or none.
#[derive(Debug)]
pub(crate) struct Traces(#[cfg(feature = "traces")] Option<Export>);

#[cfg(feature = "traces")]
impl Traces {
    /// Begins to export, if the environment says so.
    ///
    /// # Errors
    /// A variable whose value is not valid.
    pub(crate) fn start() -> anyhow::Result<Traces> {
        let settings = settings::read(|name| std::env::var(name).ok())?;
        Ok(Traces(settings.map(Export::start).transpose()?))
    }

    /// Returns the receiver of traces.
    pub(crate) fn sink(&self) -> Option<Arc<dyn TraceSink>> {
        self.0.as_ref().map(Export::sink)
    }

    /// Sends the remaining spans, within a limit.
    pub(crate) async fn end(self) {
        if let Some(export) = self.0 {
            export.end().await;
        }
    }
}

#[cfg(not(feature = "traces"))]
impl Traces {
    /// Warns if the environment asks for traces, which this program was built without.
    pub(crate) fn start() -> anyhow::Result<Traces> {
        for name in [
            "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "OTEL_EXPORTER_OTLP_ENDPOINT",
        ] {
            if std::env::var_os(name).is_some_and(|value| !value.is_empty()) {
                tracing::warn!("{name}: this program was built without its feature traces");
            }
        }
        Ok(Traces())
    }

    pub(crate) fn sink(&self) -> Option<Arc<dyn TraceSink>> {
        None
    }

    pub(crate) async fn end(self) {}
}
