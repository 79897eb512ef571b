//! Ports of a variant's servers: one for all requests, or one more for gRPC. Servers have them apart (REST and
//! gRPC), and execute what comes through either. So the ports are two clusters, and one variant with its slots. Beside
//! them, the servers' own name for the model, and their path.

use std::rc::Rc;

use weir_api::VariantPlan;

use crate::request::protocol::Shape;
use crate::verdict::OwnModel;

/// Envoy cluster of a port.
#[derive(Debug)]
pub(super) struct Port {
    cluster: Rc<str>,
    /// Cluster that fails over to other variants if a connection is refused, if there is one.
    failover: Option<Rc<str>>,
}

/// Ports of a variant.
#[derive(Debug, Default)]
pub(super) struct Ports {
    any: Port,
    grpc: Option<Port>,
    /// Servers' own name for the model.
    model: Option<Rc<str>>,
    /// Servers' own path for requests other than those of gRPC.
    path: Option<Rc<str>>,
}

impl Default for Port {
    fn default() -> Port {
        Port {
            cluster: Rc::from(""),
            failover: None,
        }
    }
}

impl Port {
    fn new(cluster: &str, suffix: Option<&str>) -> Port {
        Port {
            cluster: Rc::from(cluster),
            failover: suffix.map(|suffix| Rc::from(cluster.to_owned() + suffix)),
        }
    }

    /// Cluster to send to; `fails_over`: the one that fails over, if there is one.
    pub(super) fn cluster(&self, fails_over: bool) -> &Rc<str> {
        let failover = self.failover.as_ref().filter(|_| fails_over);
        failover.unwrap_or(&self.cluster)
    }
}

impl Ports {
    /// Port for a request.
    pub(super) fn of(&self, grpc: bool) -> &Port {
        self.grpc.as_ref().filter(|_| grpc).unwrap_or(&self.any)
    }

    /// Servers' own name for the model, if they have one.
    pub(super) fn model(&self) -> Option<&Rc<str>> {
        self.model.as_ref()
    }

    /// Servers' own path for such a request, if they have one.
    pub(super) fn path(&self, shape: &Shape) -> Option<&Rc<str>> {
        self.path.as_ref().filter(|_| !shape.grpc)
    }

    /// Whether a request that is sent to these servers may move on to `other` ones: what it names stays.
    pub(super) fn are_named_alike(&self, other: &Ports, shape: &Shape) -> bool {
        let model = |ports: &Ports| ports.own_model(shape).map(|model| model.name);
        (model(self), self.path(shape)) == (model(other), other.path(shape))
    }

    /// Servers' own name for the model of a request that names it, but for one whose path is replaced.
    pub(super) fn own_model(&self, shape: &Shape) -> Option<OwnModel> {
        if self.path(shape).is_some() {
            return None;
        }
        let (name, place) = self.model.clone().zip(shape.model)?;
        Some(OwnModel { name, place })
    }

    /// Adopts the clusters, the name and the path of a plan; `suffix`: of the clusters that fail over.
    pub(super) fn apply(&mut self, plan: &VariantPlan, suffix: Option<&str>) {
        if *self.any.cluster != *plan.cluster {
            self.any = Port::new(&plan.cluster, suffix);
        }
        let known = self.grpc.as_ref().map(|port| &*port.cluster);
        if known != plan.grpc_cluster.as_deref() {
            let cluster = plan.grpc_cluster.as_deref();
            self.grpc = cluster.map(|cluster| Port::new(cluster, suffix));
        }
        if self.model.as_deref() != plan.model.as_deref() {
            self.model = plan.model.as_deref().map(Rc::from);
        }
        if self.path.as_deref() != plan.path.as_deref() {
            self.path = plan.path.as_deref().map(Rc::from);
        }
    }
}
