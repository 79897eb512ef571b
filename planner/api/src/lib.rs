//! Everything that crosses the wall between filter and planner, and nothing else:
//! the [`plan`] with its one validity check, the [`metrics`] names,
//! the [`units`], and how [`json`] is read.
//!
//! Both sides depend on this crate; it depends on neither, does no I/O and reads no clock.

pub mod json;
pub mod metrics;
pub mod plan;
pub mod units;

pub use plan::{Plan, PlanError, VariantPlan};
pub use units::{Cores, Revision, Rps, Share};
