//! Request headers that the filter reads, extracted in one pass without allocation.

use super::parse;

/// Maximum number of additional headers: eight that prove a class, one that names the client.
pub const CLAIMS_MAX: usize = 9;
/// Maximum number of headers with a budget that the configuration names beyond those known here.
pub const BUDGETS_MAX: usize = 8;

/// Header that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Field {
    /// `x-slo-ms`: budget in ms.
    SloMs,
    /// `x-slo-ttft-ms`: the same until the first byte of an answer that streams.
    SloTtftMs,
    /// `x-llm-d-slo-ttft-ms`: the same, by llm-d.
    TtftMs,
    /// `x-llm-d-inference-ttl`: the same, by llm-d, as a Go duration.
    InferenceTtl,
    /// `grpc-timeout`: budget with a unit.
    GrpcTimeout,
    /// `connect-timeout-ms`: the same, by clients of the Connect protocol.
    ConnectTimeoutMs,
    /// `request-timeout-ms`: the same, as proposed for OpenAI's clients.
    RequestTimeoutMs,
    /// `x-litellm-timeout`: the same in s, by LiteLLM's clients.
    LitellmTimeout,
    /// `x-stainless-read-timeout`: time in s after which OpenAI's client in Python gives up.
    ReadTimeout,
    /// `x-stainless-timeout`: the same by those in TypeScript, Go and Java.
    ClientTimeout,
    /// `x-envoy-expected-rq-timeout-ms`: timeout of an Envoy before this one.
    EnvoyTimeoutMs,
    /// `x-slo-start`: time of sending, Unix epoch.
    Start,
    /// `x-request-start`: the same, by front-end proxies.
    RequestStart,
    /// `x-slo-deadline`: an earlier hop's deadline, epoch ms.
    Deadline,
    /// `x-slo-min-accuracy`: minimum accuracy, percent.
    MinAccuracy,
    /// `x-slo-class`: requested class.
    Class,
    /// `x-slo-variant`: variant chosen by an earlier hop.
    Variant,
    /// `x-slo-variants`: variants that may serve it, in order.
    Variants,
    /// `x-slo-stage-ms`: time of an earlier stage of a pipeline.
    Stage,
    /// `:method`.
    Method,
    /// `:path`.
    Path,
    /// `content-type`: gRPC or not.
    ContentType,
    /// `content-length`: size of the body.
    ContentLength,
    /// `transfer-encoding`: a body of unknown size.
    TransferEncoding,
    /// `upgrade`: to another protocol.
    Upgrade,
    /// `connection`: whether `upgrade` counts.
    Connection,
    /// `sec-websocket-key`: a websocket's handshake.
    WebsocketKey,
    /// `:protocol`: to another protocol by CONNECT, over HTTP/2.
    Protocol,
    /// `x-envoy-attempt-count`: number of this try, by the Envoy of a caller that retries.
    AttemptCount,
}

impl Field {
    /// All fields.
    pub const ALL: [Field; 29] = [
        Field::SloMs,
        Field::SloTtftMs,
        Field::TtftMs,
        Field::InferenceTtl,
        Field::GrpcTimeout,
        Field::ConnectTimeoutMs,
        Field::RequestTimeoutMs,
        Field::LitellmTimeout,
        Field::ReadTimeout,
        Field::ClientTimeout,
        Field::EnvoyTimeoutMs,
        Field::Start,
        Field::RequestStart,
        Field::Deadline,
        Field::MinAccuracy,
        Field::Class,
        Field::Variant,
        Field::Variants,
        Field::Stage,
        Field::Method,
        Field::Path,
        Field::ContentType,
        Field::ContentLength,
        Field::TransferEncoding,
        Field::Upgrade,
        Field::Connection,
        Field::WebsocketKey,
        Field::Protocol,
        Field::AttemptCount,
    ];
    /// Fields whose values are validated: a client's statements of urgency, rank and choice.
    pub const VALIDATED: [Field; 17] = [
        Field::SloMs,
        Field::SloTtftMs,
        Field::TtftMs,
        Field::InferenceTtl,
        Field::GrpcTimeout,
        Field::ConnectTimeoutMs,
        Field::RequestTimeoutMs,
        Field::LitellmTimeout,
        Field::ReadTimeout,
        Field::ClientTimeout,
        Field::EnvoyTimeoutMs,
        Field::Start,
        Field::RequestStart,
        Field::Deadline,
        Field::MinAccuracy,
        Field::Class,
        Field::Variants,
    ];
    /// Fields of a start, in order of precedence.
    pub const STARTS: [Field; 2] = [Field::Start, Field::RequestStart];

    /// Name of the header, also its label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Field::SloMs => "x-slo-ms",
            Field::SloTtftMs => "x-slo-ttft-ms",
            Field::TtftMs => "x-llm-d-slo-ttft-ms",
            Field::InferenceTtl => "x-llm-d-inference-ttl",
            Field::GrpcTimeout => "grpc-timeout",
            Field::ConnectTimeoutMs => "connect-timeout-ms",
            Field::RequestTimeoutMs => "request-timeout-ms",
            Field::LitellmTimeout => "x-litellm-timeout",
            Field::ReadTimeout => "x-stainless-read-timeout",
            Field::ClientTimeout => "x-stainless-timeout",
            Field::EnvoyTimeoutMs => "x-envoy-expected-rq-timeout-ms",
            Field::Start => "x-slo-start",
            Field::RequestStart => "x-request-start",
            Field::Deadline => "x-slo-deadline",
            Field::MinAccuracy => "x-slo-min-accuracy",
            Field::Class => "x-slo-class",
            Field::Variant => "x-slo-variant",
            Field::Variants => "x-slo-variants",
            Field::Stage => "x-slo-stage-ms",
            Field::Method => ":method",
            Field::Path => ":path",
            Field::ContentType => "content-type",
            Field::ContentLength => "content-length",
            Field::TransferEncoding => "transfer-encoding",
            Field::Upgrade => "upgrade",
            Field::Connection => "connection",
            Field::WebsocketKey => "sec-websocket-key",
            Field::Protocol => ":protocol",
            Field::AttemptCount => "x-envoy-attempt-count",
        }
    }

    fn from_name(name: &str) -> Option<Field> {
        // Length and a letter or two leave at most one candidate, so one comparison suffices.
        let field = match (name.len(), name.as_bytes().first()?) {
            (5, b':') => Field::Path,
            (7, b':') => Field::Method,
            (7, b'u') => Field::Upgrade,
            (8, b'x') => Field::SloMs,
            (9, b':') => Field::Protocol,
            (10, b'c') => Field::Connection,
            (11, b'x') if name.ends_with('s') => Field::Class,
            (11, b'x') => Field::Start,
            (12, b'c') => Field::ContentType,
            (12, b'g') => Field::GrpcTimeout,
            (13, b'x') if name.ends_with("-ms") => Field::SloTtftMs,
            (13, b'x') => Field::Variant,
            (14, b'c') => Field::ContentLength,
            (14, b'x') if name.as_bytes().get(6) == Some(&b'v') => Field::Variants,
            (14, b'x') if name.ends_with('s') => Field::Stage,
            (14, b'x') => Field::Deadline,
            (15, b'x') => Field::RequestStart,
            (17, b'x') => Field::LitellmTimeout,
            (17, b't') => Field::TransferEncoding,
            (17, b's') => Field::WebsocketKey,
            (18, b'x') => Field::MinAccuracy,
            (18, b'c') => Field::ConnectTimeoutMs,
            (18, b'r') => Field::RequestTimeoutMs,
            (19, b'x') if name.as_bytes().get(2) == Some(&b's') => Field::ClientTimeout,
            (19, b'x') => Field::TtftMs,
            (24, b'x') => Field::ReadTimeout,
            (21, b'x') if name.as_bytes().get(2) == Some(&b'e') => Field::AttemptCount,
            (21, b'x') => Field::InferenceTtl,
            (30, b'x') => Field::EnvoyTimeoutMs,
            _ => return None,
        };
        (field.name() == name).then_some(field)
    }
}

/// Values of the fields that a request carries. Of a repeated field the first counts, because all come from
/// the client. A repeated claim header does not count.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wire<'a> {
    values: [Option<&'a [u8]>; Field::ALL.len()],
    claims: [ClaimHeader<'a>; CLAIMS_MAX],
    budgets: [Option<&'a [u8]>; BUDGETS_MAX],
}

/// Names of the headers that a configuration adds to those of [`Field`].
#[derive(Debug, Clone, Copy, Default)]
pub struct Names<'a> {
    /// Headers that prove claims, at most [`CLAIMS_MAX`].
    pub claims: &'a [String],
    /// Headers with budgets, at most [`BUDGETS_MAX`].
    pub budgets: &'a [String],
}

/// Header that proves a claim only if it occurs once. Proxies append to a client's header, by default as a
/// separate line, and the lines cannot be attributed.
#[derive(Debug, Clone, Copy, Default)]
enum ClaimHeader<'a> {
    #[default]
    Absent,
    Once(&'a [u8]),
    Repeated,
}

impl<'a> ClaimHeader<'a> {
    fn and(self, value: &'a [u8]) -> ClaimHeader<'a> {
        match self {
            ClaimHeader::Absent => ClaimHeader::Once(value),
            ClaimHeader::Once(_) | ClaimHeader::Repeated => ClaimHeader::Repeated,
        }
    }
}

impl<'a> Wire<'a> {
    /// Extracts the fields from a request's headers (names in lower case).
    pub fn pick(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Wire<'a> {
        Wire::pick_with(headers, Names::default())
    }

    /// The same, and the values of the headers with these names.
    pub fn pick_with(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        names: Names<'_>,
    ) -> Wire<'a> {
        let mut wire = Wire::default();
        for (name, value) in headers {
            if let Some(field) = Field::from_name(name)
                && let Some(slot @ None) = wire.values.get_mut(field as usize)
            {
                *slot = Some(value);
            }
            for (claim, slot) in names.claims.iter().zip(&mut wire.claims) {
                if claim == name {
                    *slot = slot.and(value);
                }
            }
            for (budget, slot) in names.budgets.iter().zip(&mut wire.budgets) {
                if budget == name && slot.is_none() {
                    *slot = Some(value);
                }
            }
        }
        wire
    }

    /// Sets the value of a field.
    pub fn set(&mut self, field: Field, value: &'a [u8]) {
        if let Some(slot) = self.values.get_mut(field as usize) {
            *slot = Some(value);
        }
    }

    /// Value of a field, if present.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.values.get(field as usize).copied().flatten()
    }

    /// Value of the header at `index` in the claims; `None` if it is absent or repeated.
    #[must_use]
    pub fn claim(&self, index: usize) -> Option<&'a [u8]> {
        match self.claims.get(index) {
            Some(ClaimHeader::Once(value)) => Some(value),
            _ => None,
        }
    }

    /// Value of the header with a budget at `index` of those that the configuration names, if present.
    #[must_use]
    pub fn budget(&self, index: usize) -> Option<&'a [u8]> {
        self.budgets.get(index).copied().flatten()
    }

    /// Minimum accuracy, percent; 0 if absent. `None` if invalid.
    #[must_use]
    pub fn min_accuracy(&self) -> Option<f64> {
        self.get(Field::MinAccuracy)
            .map_or(Some(0.0), parse::percent)
    }
}
