//! Pods as backends: a variant is the container of a Deployment's or StatefulSet's pods, its cores are what
//! their kubelets have actuated, and it is changed by resizing them in place and by scaling.
//!
//! [`pod`], [`patch`], [`refused`], [`pace`], [`deal`] and [`replace`] take values and return values; [`workload`] watches
//! and [`actuate`] acts. Memory, classes, nodes and everything else about a pod stay as somebody else wants
//! them, and no pod is ever ended by anything but its workload's number of replicas, and by an eviction where the
//! service says `fallback: replace`.

pub mod pod;

pub mod patch;

pub mod refused;

pub mod pace;

pub mod deal;
mod disruption;
pub mod replace;

pub mod workload;

pub mod namespace;

mod retune;

pub mod actuate;
