//! Request headers that the filter reads, extracted in one pass without allocation.

use super::parse;

/// Maximum number of additional headers: eight that prove a class, one that names the client.
pub const CLAIMS_MAX: usize = 9;

/// Header that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Field {
    /// `x-slo-ms`: budget in ms.
    SloMs,
    /// `x-llm-d-slo-ttft-ms`: the same, by llm-d.
    TtftMs,
    /// `x-llm-d-inference-ttl`: the same, by llm-d.
    InferenceTtl,
    /// `grpc-timeout`: budget with a unit.
    GrpcTimeout,
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
    /// `upgrade`: to another protocol.
    Upgrade,
}

impl Field {
    /// All fields.
    pub const ALL: [Field; 18] = [
        Field::SloMs,
        Field::TtftMs,
        Field::InferenceTtl,
        Field::GrpcTimeout,
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
        Field::Upgrade,
    ];
    /// Fields whose values are validated: a client's statements of urgency, rank and choice.
    pub const VALIDATED: [Field; 11] = [
        Field::SloMs,
        Field::TtftMs,
        Field::InferenceTtl,
        Field::GrpcTimeout,
        Field::EnvoyTimeoutMs,
        Field::Start,
        Field::RequestStart,
        Field::Deadline,
        Field::MinAccuracy,
        Field::Class,
        Field::Variants,
    ];
    /// Fields of a budget, in order of precedence.
    pub const BUDGETS: [Field; 5] = [
        Field::SloMs,
        Field::TtftMs,
        Field::InferenceTtl,
        Field::GrpcTimeout,
        Field::EnvoyTimeoutMs,
    ];
    /// Fields of a start, in order of precedence.
    pub const STARTS: [Field; 2] = [Field::Start, Field::RequestStart];

    /// Name of the header, also its label in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Field::SloMs => "x-slo-ms",
            Field::TtftMs => "x-llm-d-slo-ttft-ms",
            Field::InferenceTtl => "x-llm-d-inference-ttl",
            Field::GrpcTimeout => "grpc-timeout",
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
            Field::Upgrade => "upgrade",
        }
    }

    fn from_name(name: &str) -> Option<Field> {
        // Length and a letter or two leave at most one candidate, so one comparison suffices.
        let field = match (name.len(), name.as_bytes().first()?) {
            (5, b':') => Field::Path,
            (7, b':') => Field::Method,
            (7, b'u') => Field::Upgrade,
            (8, b'x') => Field::SloMs,
            (11, b'x') if name.ends_with('s') => Field::Class,
            (11, b'x') => Field::Start,
            (12, b'c') => Field::ContentType,
            (12, b'g') => Field::GrpcTimeout,
            (13, b'x') => Field::Variant,
            (14, b'c') => Field::ContentLength,
            (14, b'x') if name.as_bytes().get(6) == Some(&b'v') => Field::Variants,
            (14, b'x') if name.ends_with('s') => Field::Stage,
            (14, b'x') => Field::Deadline,
            (15, b'x') => Field::RequestStart,
            (18, b'x') => Field::MinAccuracy,
            (19, b'x') => Field::TtftMs,
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
        Wire::pick_with(headers, &[])
    }

    /// The same, and the values of the headers named in `claims`, at most [`CLAIMS_MAX`].
    pub fn pick_with(
        headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
        claims: &[String],
    ) -> Wire<'a> {
        let mut wire = Wire::default();
        for (name, value) in headers {
            if let Some(field) = Field::from_name(name)
                && let Some(slot @ None) = wire.values.get_mut(field as usize)
            {
                *slot = Some(value);
            }
            for (claim, slot) in claims.iter().zip(&mut wire.claims) {
                if claim == name {
                    *slot = slot.and(value);
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

    /// Minimum accuracy, percent; 0 if absent. `None` if invalid.
    #[must_use]
    pub fn min_accuracy(&self) -> Option<f64> {
        self.get(Field::MinAccuracy)
            .map_or(Some(0.0), parse::percent)
    }
}
