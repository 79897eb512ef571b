//! Validation of the keys that name a variant's servers: their clusters in Envoy, and their name for the model.

use weir_api::plan::{CLUSTER_MAX, MODEL_RIGHT, is_cluster, is_model};

use super::raw::RawVariant;
use crate::service::ConfigError;
use crate::service::rule::rule;

/// Validates the names of the servers of the variant at that path.
pub(super) fn names(at: &str, raw: &RawVariant) -> Result<(), ConfigError> {
    let right = format!("1 to {CLUSTER_MAX} printable ASCII characters without spaces");
    let (cluster, grpc) = (&raw.cluster, raw.grpc_cluster.as_ref());
    for (key, cluster) in [("cluster", Some(cluster)), ("grpcCluster", grpc)] {
        if let Some(cluster) = cluster {
            rule(is_cluster(cluster), format!("{at}.{key}"), cluster, &right)?;
        }
    }
    let right = "another name than cluster, or left out: gRPC requests go to cluster then";
    let path = format!("{at}.grpcCluster");
    rule(grpc != Some(cluster), path, cluster, right)?;
    match &raw.model {
        Some(model) => rule(is_model(model), format!("{at}.model"), model, MODEL_RIGHT),
        None => Ok(()),
    }
}
