//! The request headers the filter reads, picked out of all of them in one pass.

use super::parse;

/// A header of the contract.
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
    /// `x-slo-min-accuracy`: least accuracy, percent.
    MinAccuracy,
}

impl Field {
    /// All of them.
    pub const ALL: [Field; 9] = [
        Field::SloMs,
        Field::TtftMs,
        Field::InferenceTtl,
        Field::GrpcTimeout,
        Field::EnvoyTimeoutMs,
        Field::Start,
        Field::RequestStart,
        Field::Deadline,
        Field::MinAccuracy,
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
        }
    }

    fn from_name(name: &str) -> Option<Field> {
        // Most headers are none of ours and fail here on their first letters.
        if !(name.starts_with("x-") || name == Field::GrpcTimeout.name()) {
            return None;
        }
        Field::ALL.into_iter().find(|field| field.name() == name)
    }
}

/// The values of the fields that a request carries; of a repeated header the first counts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wire<'a> {
    values: [Option<&'a [u8]>; Field::ALL.len()],
}

impl<'a> Wire<'a> {
    /// Picks the contract's fields out of a request's headers (names in lower case).
    pub fn pick(headers: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Wire<'a> {
        let mut wire = Wire::default();
        for (name, value) in headers {
            let Some(field) = Field::from_name(name) else {
                continue;
            };
            if let Some(slot @ None) = wire.values.get_mut(field as usize) {
                *slot = Some(value);
            }
        }
        wire
    }

    /// The value of a field, if the request carries it.
    #[must_use]
    pub fn get(&self, field: Field) -> Option<&'a [u8]> {
        self.values.get(field as usize).copied().flatten()
    }

    /// The least accuracy asked for, percent; 0 where none is. `None` where it is nonsense.
    #[must_use]
    pub fn min_accuracy(&self) -> Option<f64> {
        self.get(Field::MinAccuracy)
            .map_or(Some(0.0), parse::percent)
    }
}
