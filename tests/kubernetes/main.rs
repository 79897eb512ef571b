//! Tests of the planner on Kubernetes, from the bottom up: the emulated API server, pods as backends, complete planners
//! while things fail, and what holds on any cluster.

mod cluster;
mod emulator;
mod operator;
mod pods;
