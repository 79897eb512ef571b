//! Tests of a request and its answer through a real Envoy: headers, bodies, protocols, clients.

mod bodies;
mod clients;
mod grpc;
mod identity;
mod protocols;
mod request;
mod slow_bodies;
