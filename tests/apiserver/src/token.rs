//! `serviceaccounts/token`: a token that authenticates requests as the account. It never expires
//! here.

use serde_json::{Value, json};

use super::cluster::Cluster;
use super::object::{at, number, set};
use super::patch;
use super::request::ApiRequest;
use super::status::{Cause, Refusal};

/// Minimum lifetime, as in Kubernetes.
const EXPIRES_MIN_S: i64 = 600;
/// Default lifetime.
const EXPIRES_S: i64 = 3_600;

/// The token's subject, and the response without the token.
///
/// # Errors
///
/// The account does not exist, or the lifetime is too short.
pub(super) fn answer(cluster: &Cluster, request: &ApiRequest) -> Result<(String, Value), Refusal> {
    if cluster
        .store
        .get(&request.kind.shelf, &request.key)
        .is_none()
    {
        return Err(request.not_found());
    }
    let body = patch::body(request)?;
    let life_s = number(&body, "/spec/expirationSeconds").unwrap_or(EXPIRES_S);
    if life_s < EXPIRES_MIN_S {
        let why = "may not specify a duration less than 10 minutes";
        let cause = Cause::invalid("spec.expirationSeconds", &json!(life_s), why);
        let (group, name) = ("authentication.k8s.io", request.key.name.as_str());
        return Err(Refusal::invalid(group, "TokenRequest", name, vec![cause]));
    }
    let (namespace, name) = (&request.key.namespace, &request.key.name);
    let life = std::time::Duration::from_secs(life_s.unsigned_abs());
    let mut answer = json!({"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"name": name, "namespace": namespace},
        "spec": at(&body, "/spec"),
        "status": {"expirationTimestamp": cluster.clock.after(life)}});
    set(&mut answer, "/spec/expirationSeconds", json!(life_s));
    if at(&answer, "/spec/audiences").is_null() {
        set(&mut answer, "/spec/audiences", json!([]));
    }
    Ok((format!("system:serviceaccount:{namespace}:{name}"), answer))
}
