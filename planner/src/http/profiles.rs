//! `GET /v1/services/{service}/profiles`: the profile of each variant, and its correction by measurements.

use axum::Json;
use axum::response::{IntoResponse, Response};
use schemars::{JsonSchema, SchemaGenerator};
use serde::Serialize;
use weir_api::{Cores, Rps};

use super::extract::Planned;
use super::operation::{Access, Answer, Content, Operation, OperationMethod};
use crate::service::{Service, Variant};
use crate::solve::latency_model::{LatencyModel, Parallelism};
use crate::telemetry::status::{CycleReport, ServiceTimeReport};

pub(super) const PROFILES: Operation = Operation {
    method: OperationMethod::Get,
    path: "/v1/services/{service}/profiles",
    id: "profiles",
    summary: "Profile and correction of each variant",
    description: "Latency and capacity of each variant as its profile has them, and the measured service time of the \
                  latest cycle beside it.",
    access: Access::Service,
    query: None,
    headers: &[],
    body: None,
    answers: &[Answer {
        status: 200,
        description: "The profiles, in the variants' order.",
        content: Content::Json(SchemaGenerator::subschema_for::<Profiles<'static>>),
    }],
    problems: &[],
};

/// Profiles of a service's variants.
#[derive(Debug, Serialize, JsonSchema)]
struct Profiles<'a> {
    /// Start of the cycle of the corrections, Unix time in ms; `null` before the first.
    at_ms: Option<u64>,
    /// Variants of all stages, in their order.
    variants: Vec<VariantProfile<'a>>,
}

/// Profile of one variant.
#[derive(Debug, Serialize, JsonSchema)]
struct VariantProfile<'a> {
    /// Name of the variant.
    name: &'a str,
    /// File or resource that the profile is from; `null` if it is part of the service.
    profile_from: Option<&'a str>,
    /// Accuracy in percent.
    accuracy_percent: f64,
    /// Latency of one batch of b requests on c cores: γ·b/c + ε/c + δ·b + η. `null` without a profile.
    latency: Option<LatencyModel>,
    /// Ratio of a high percentile to the mean latency.
    tail: f64,
    /// Number of batches executed at the same time; `null` for one per core.
    parallelism: Parallelism,
    /// Requests in one batch.
    batch: u32,
    /// Sustained rate by cores, if measured; `null` if it follows from the latency.
    throughput: Option<ThroughputFit>,
    /// Latency and rate by the profile, at the minimum and at the maximum cores of one replica; none without a profile.
    points: Vec<ProfilePoint>,
    /// Measured service time and the correction by it; `null` before the first cycle.
    measured: Option<&'a ServiceTimeReport>,
}

/// Sustained rate: `slope_rps` · cores + `intercept_rps`, times the utilisation.
#[derive(Debug, Serialize, JsonSchema)]
struct ThroughputFit {
    /// Requests per second for each core.
    slope_rps: f64,
    /// Requests per second at zero cores.
    intercept_rps: f64,
    /// Fraction of the rate that is planned with.
    utilisation: f64,
}

/// Profile at one number of cores, without its correction.
#[derive(Debug, Serialize, JsonSchema)]
struct ProfilePoint {
    /// Cores of one replica.
    cores: Cores,
    /// Predicted service time, a high percentile, in ms.
    service_ms: f64,
    /// Rate that is planned with; 0 if one execution takes longer than the service allows.
    capacity_rps: Rps,
}

pub(super) async fn profiles(Planned(handle): Planned) -> Response {
    let latest = handle.status.latest(1).pop();
    let service = &handle.service;
    let variants = service.variants.iter();
    let profiles = Profiles {
        at_ms: latest.as_ref().map(|latest| latest.at_ms),
        variants: variants
            .map(|variant| profile(service, variant, latest.as_deref()))
            .collect(),
    };
    Json(profiles).into_response()
}

fn profile<'a>(
    service: &'a Service,
    variant: &'a Variant,
    latest: Option<&'a CycleReport>,
) -> VariantProfile<'a> {
    let (profile, has_profile) = (variant.profile.uncorrected(), variant.has_profile());
    let steps = [variant.min.max(1), variant.max];
    let point = |steps: u32| {
        let cores = variant.cores(steps);
        ProfilePoint {
            cores,
            service_ms: profile.service_ms(cores),
            capacity_rps: profile.capacity(cores, service.latency_max_ms),
        }
    };
    let measured = latest.and_then(|latest| latest.variants.get(&variant.name));
    VariantProfile {
        name: &variant.name,
        profile_from: variant.profile_from.as_deref(),
        accuracy_percent: variant.accuracy,
        latency: has_profile.then_some(profile.latency.model),
        tail: profile.latency.tail,
        parallelism: profile.parallelism,
        batch: profile.batch,
        throughput: profile.fit.map(|fit| ThroughputFit {
            slope_rps: fit.slope_rps,
            intercept_rps: fit.intercept_rps,
            utilisation: profile.utilisation,
        }),
        points: steps
            .map(point)
            .into_iter()
            .filter(|_| has_profile)
            .collect(),
        measured: measured.map(|report| &report.service_time),
    }
}
