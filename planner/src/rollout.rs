//! Staged rollout: the steps from the actual capacity to the target, one safe step at a time. Pure.

mod carried;
mod detour;
mod transition;
#[cfg(test)]
mod transitions;
mod under_way;

pub(crate) use carried::{carried_part, shortage};
pub(crate) use detour::Detour;
pub use transition::{
    Carried, MUCH_MORE, Path, SERVES_AT_ALL, STEPS_MAX, Shapes, Step, Transition,
};
pub(crate) use under_way::UnderWay;
