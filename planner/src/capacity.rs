//! How much of each variant there is and is to be, the changes between them, and what bounds them. Pure, and without
//! anything else of the planner.

mod allocation;
mod limits;
mod resize;

pub use allocation::{Allocation, Goal, InForce};
pub use limits::{Amount, BOUNDS_MAX, Bound, Bounds};
pub use resize::Resize;
