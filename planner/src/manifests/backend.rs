//! Addresses of a variant's servers, from its cluster name in istiod's form: `outbound|PORT|SUBSET|HOST`.
//!
//! Plans name the clusters that proxies send to, so the service file must name clusters that istiod
//! creates. Nothing is guessed: any other name is refused.

use super::{ManifestError, refused};
use crate::service::{Service, Variant};

/// A variant and its servers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Backend<'a> {
    pub(super) variant: &'a Variant,
    pub(super) port: u16,
    /// Port for gRPC, if that is another one.
    pub(super) grpc: Option<u16>,
    pub(super) subset: Option<&'a str>,
    pub(super) host: &'a str,
    /// Name of the Kubernetes Service.
    pub(super) name: &'a str,
    pub(super) namespace: &'a str,
}

/// Returns the backends of all variants, which must be in one namespace.
pub(super) fn backends(service: &Service) -> Result<Vec<Backend<'_>>, ManifestError> {
    let each = service.variants.iter().enumerate();
    let backends = each.map(|(index, variant)| {
        let right = "outbound|PORT|SUBSET|SERVICE.NAMESPACE.svc.DOMAIN, as istiod names clusters \
            (SUBSET may be empty), such as outbound|8000||small.models.svc.cluster.local";
        let path = format!("variants[{index}].cluster");
        let backend = parse(variant, &variant.cluster);
        let backend = backend.ok_or_else(|| refused(path, &variant.cluster, right))?;
        let grpc = grpc(&backend, index)?;
        Ok::<_, ManifestError>(Backend { grpc, ..backend })
    });
    let backends: Vec<Backend> = backends.collect::<Result<_, _>>()?;
    let Some(first) = backends.first() else {
        return Err(refused("variants", 0, "1 or more"));
    };
    for (index, other) in backends.iter().enumerate() {
        if other.namespace != first.namespace {
            let right = format!(
                "in the namespace of the first ({}), where the routes and gates are put",
                first.namespace
            );
            let path = format!("variants[{index}].cluster");
            return Err(refused(path, &other.variant.cluster, right));
        }
    }
    Ok(backends)
}

/// Returns the namespace of the model servers.
pub(super) fn namespace<'a>(backends: &[Backend<'a>]) -> &'a str {
    backends.first().map_or("default", |first| first.namespace)
}

/// Returns the ports of the model servers, each once.
pub(super) fn ports(backends: &[Backend]) -> Vec<u16> {
    let mut ports: Vec<u16> = backends.iter().map(|backend| backend.port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Returns the gRPC port of a variant, which must be another one of the same servers.
fn grpc(backend: &Backend, index: usize) -> Result<Option<u16>, ManifestError> {
    let Some(cluster) = &backend.variant.grpc_cluster else {
        return Ok(None);
    };
    let other = parse(backend.variant, cluster);
    let same = |other: &Backend| {
        let (own, others) = ((backend.host, backend.subset), (other.host, other.subset));
        own == others && backend.port != other.port
    };
    match other.filter(same) {
        Some(other) => Ok(Some(other.port)),
        None => {
            let (subset, host) = (backend.subset.unwrap_or(""), backend.host);
            let right = format!("another port of the same servers, outbound|PORT|{subset}|{host}");
            Err(refused(
                format!("variants[{index}].grpcCluster"),
                cluster,
                right,
            ))
        }
    }
}

fn parse<'a>(variant: &'a Variant, cluster: &'a str) -> Option<Backend<'a>> {
    let mut parts = cluster.split('|');
    let ("outbound", port, subset, host, None) = (
        parts.next()?,
        parts.next()?,
        parts.next()?,
        parts.next()?,
        parts.next(),
    ) else {
        return None;
    };
    let mut labels = host.split('.');
    let (name, namespace, "svc") = (labels.next()?, labels.next()?, labels.next()?) else {
        return None;
    };
    let is_label = |text: &str| weir_api::plan::is_name(text);
    let fits = is_label(name) && is_label(namespace) && labels.all(is_label);
    let subset = (!subset.is_empty()).then_some(subset);
    if !fits || !subset.is_none_or(is_label) {
        return None;
    }
    Some(Backend {
        variant,
        port: port.parse().ok().filter(|port| *port > 0)?,
        grpc: None,
        subset,
        host,
        name,
        namespace,
    })
}
