//! Tests of a request and its answer through a real Envoy: headers, bodies, protocols, clients.

mod bodies;
mod clients;
mod grpc;
mod http2;
mod identity;
mod messages;
mod no_inference;
mod protocols;
mod refusals;
mod request;
mod servers;
mod slow_bodies;
