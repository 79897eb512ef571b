//! The request headers the filter reads, picked out of all of them in one pass that allocates nothing.

use super::parse;

/// Most headers kept beside the contract's: eight that prove a class, one that names the client.
pub const CLAIMS_MAX: usize = 9;

/// A header that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Field {
    /// `x-slo-ms`: budget in ms.
    SloMs,
    /// `x-llm-d-slo-ttft-ms`: the same, as llm-d says it.
    TtftMs,
    /// `x-llm-d-inference-ttl`: the same, as llm-d says it.
    InferenceTtl,
    /// `grpc-timeout`: budget with a unit.
    GrpcTimeout,
    /// `x-envoy-expected-rq-timeout-ms`: what an Envoy before this one allows.
    EnvoyTimeoutMs,
    /// `x-slo-start`: when the client sent it, Unix epoch.
    Start,
    /// `x-request-start`: the same, as front-end proxies say it.
    RequestStart,
    /// `x-slo-deadline`: an earlier hop's deadline, epoch ms.
    Deadline,
    /// `x-slo-min-accuracy`: min accuracy, percent.
    MinAccuracy,
    /// `x-slo-class`: the class asked for.
    Class,
    /// `x-slo-variant`: the variant that an earlier hop has chosen.
    Variant,
    /// `x-slo-stage-ms`: what an earlier stage of a pipeline had for itself.
    Stage,
    /// `:method`.
    Method,
    /// `:path`.
    Path,
    /// `content-type`: gRPC or not.
    ContentType,
    /// `upgrade`: to another protocol.
    Upgrade,
}

impl Field {
    /// All of them.
    pub const ALL: [Field; 16] = [
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
        Field::Stage,
        Field::Method,
        Field::Path,
        Field::ContentType,
        Field::Upgrade,
    ];
    /// Those whose values can be invalid: what a client says of its urgency and rank.
    pub const VALIDATED: [Field; 10] = [
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
    ];
    /// Where a budget is looked for, in this order.
    pub const BUDGETS: [Field; 5] = [
        Field::SloMs,
        Field::TtftMs,
        Field::InferenceTtl,
        Field::GrpcTimeout,
        Field::EnvoyTimeoutMs,
    ];
    /// Where a start is looked for, in this order.
    pub const STARTS: [Field; 2] = [Field::Start, Field::RequestStart];

    /// The header's name, also its label in metrics.
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
            Field::Stage => "x-slo-stage-ms",
            Field::Method => ":method",
            Field::Path => ":path",
            Field::ContentType => "content-type",
            Field::Upgrade => "upgrade",
        }
    }

    fn from_name(name: &str) -> Option<Field> {
        // By length and a letter at most one is left, so that one comparison settles it.
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

/// The values of the fields that a request carries. Of a repeated field the first counts: all are the
/// client's own word. A repeated claim header counts for nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wire<'a> {
    values: [Option<&'a [u8]>; Field::ALL.len()],
    claims: [ClaimHeader<'a>; CLAIMS_MAX],
}

/// A header that proves something only where it stands once: proxies append to what a client sent, by
/// default as a line of their own, and nobody can tell which line is whose.
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
    /// Picks the contract's fields out of a request's headers (names in lower case).
    pub fn pick(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Wire<'a> {
        Wire::pick_with(headers, &[])
    }

    /// The same, and the values of the headers named in `claims`, of which [`CLAIMS_MAX`] are kept.
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

    /// The value of a field, if the request carries it.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.values.get(field as usize).copied().flatten()
    }

    /// The value of the header named `index`-th in the claims it was picked with; `None` where the
    /// request carries it not at all or more than once.
    #[must_use]
    pub fn claim(&self, index: usize) -> Option<&'a [u8]> {
        match self.claims.get(index) {
            Some(ClaimHeader::Once(value)) => Some(value),
            _ => None,
        }
    }

    /// The min accuracy asked for, percent; 0 where none is. `None` where it is nonsense.
    #[must_use]
    pub fn min_accuracy(&self) -> Option<f64> {
        self.get(Field::MinAccuracy)
            .map_or(Some(0.0), parse::percent)
    }
}
