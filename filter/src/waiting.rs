//! Requests waiting for a slot: queues by deadline, classes, and the order among classes.

pub mod class;
mod class_scheduler;
pub mod queue;
pub mod wait_queue;
