//! Types and names shared by filter and planner: the [`plan`] with its validity check, the
//! [`metrics`] names, the [`units`], [`group`]s of requests with the [`moments`] of their times, and a [`json`] reader.
//!
//! Both sides depend on this crate. It depends on neither, does no I/O and reads no clock.

pub mod group;
pub mod json;
pub mod metrics;
pub mod moments;
pub mod plan;
pub mod units;

pub use plan::{Plan, PlanError, VariantPlan};
pub use units::{Cores, Revision, Rps, Share};
