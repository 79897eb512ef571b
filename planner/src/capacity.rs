//! Capacity of each variant, actual and target, the changes between them, and the resource limits. Pure, and
//! independent of the rest of the planner.

mod allocation;
mod limits;
mod resize;

pub use allocation::{Actual, Allocation, Target};
pub use limits::{Amount, LIMITS_MAX, ResourceLimit, ResourceLimits};
pub use resize::Resize;
