//! Pods as backends: a variant is a container of a Deployment's or StatefulSet's pods. Its cores are those that the
//! kubelets have actuated; it is changed by in-place resize and by scaling.
//!
//! [`pod`], [`patch`], [`api_failure`], [`rate_limit`], [`distribute`] and [`replace`] take values and return values;
//! [`watch`], [`workload`] and [`namespace`] watch, [`actuate`] acts. Memory, QoS classes, nodes and everything else
//! about a pod stay unchanged. A pod ends only by its workload's number of replicas, or by an eviction if the service says
//! `fallback: replace`. [`pod_server`] is a single pod that `weir profile` resizes.

pub mod pod;

pub mod patch;

pub mod api_failure;

pub mod rate_limit;

mod disruption;
pub mod distribute;
pub mod replace;

pub mod watch;

pub mod workload;

pub mod namespace;

pub(crate) mod reconfigure;

pub mod actuate;

pub mod pod_server;

mod error;
