//! Weir's planner. Every cycle it [`observe`]s what the proxies have counted, [`forecast`]s the
//! demand, [`solve`]s for the variants, cores and shares that serve it best, [`actuate`]s the cores
//! that differ and [`publish`]es the plan, of which every proxy picks up its part ([`sharing`]);
//! [`cycle`] is one such turn and says what each failure falls back to, [`serve`] repeats it and
//! answers over [`http`] for what is [`served`].
//!
//! [`config`], [`profile`], [`forecast`], [`solve`], [`decide`], [`plan`], [`sharing`] and [`manifests`] take values
//! and return values; only [`observe`], [`actuate`], [`publish`], [`http`] and [`clock`] touch the
//! world, and the cycle reaches the first three through ports, so that a replay can take their place.
//! [`kube`] is a second half of the port to the cores: pods, resized in place.
//! The planner never stands in a request's path: when it is gone, the proxies go on.

pub mod config;
pub mod profile;
pub mod resource;

pub mod observe;

pub mod forecast;

pub use weir_solve as solve;

pub mod decide;

pub mod plan;

pub mod actuate;

pub mod kube;

pub mod sharing;

pub mod publish;

pub mod cycle;

pub mod status;

pub mod trouble;

pub mod metrics;

pub mod served;

pub mod http;

pub mod serve;

pub mod operate;

pub mod clock;

pub mod key;

pub mod manifests;
