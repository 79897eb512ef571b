//! Weir's planner.
//!
//! One cycle of the [`control_loop`] goes through these stages: [`observe`] scrapes the proxies' statistics,
//! [`forecast`] estimates the demand, the [`policy`] of the [`service`] solves for variants, cores and shares
//! ([`solve`]), a [`rollout`] brings the actual [`capacity`] to the target step by step through the [`backends`], and
//! [`distribution`] publishes the [`plan`] that every proxy polls.
//!
//! Services that share a budget get their parts from [`shared_budget`].
//!
//! [`serve`] runs services from files, the [`operator`] runs one for each custom resource; both answer over
//! [`http`] and report through [`telemetry`].
//!
//! [`capacity`], [`division`], [`service`], [`forecast`], [`policy`], [`plan`], [`rollout`] and [`manifests`] are pure:
//! values in, values out. Only [`observe`], [`backends`], [`distribution`], [`http`], [`operator`] and [`clock`] touch the world, and the
//! control loop reaches the first three through ports, so that a replay can stand in for them.
//!
//! The planner is never in a request's path: proxies go on without it.

pub mod capacity;
pub mod division;
pub mod quantity;

pub mod forecast;
pub mod service;

pub mod observe;
pub use weir_solve as solve;
pub mod policy;
pub mod spec;

pub mod plan;
pub mod rollout;

pub mod backends;
pub mod distribution;
pub mod telemetry;

#[cfg(feature = "serve")]
pub mod alternatives;
#[cfg(feature = "serve")]
pub mod app;
#[cfg(feature = "serve")]
pub mod catalog;
pub mod control_loop;
#[cfg(feature = "serve")]
pub mod registry;
pub mod shared_budget;

#[cfg(feature = "serve")]
pub mod http;
#[cfg(feature = "serve")]
mod memory;
#[cfg(feature = "serve")]
pub mod mode;
#[cfg(feature = "kubernetes")]
pub mod operator;
#[cfg(feature = "serve")]
pub mod serve;
#[cfg(feature = "serve")]
pub mod specification;
#[cfg(feature = "serve")]
pub mod state;

pub mod clock;
pub mod error_log;
#[cfg(feature = "serve")]
pub mod file_reload;
#[cfg(feature = "serve")]
pub mod key;
#[cfg(feature = "kubernetes")]
pub mod manifests;
pub mod profile;
