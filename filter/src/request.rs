//! Requests as they arrive: headers, deadline, clock skew, protocol, and the bytes of bodies held.

pub mod body;
pub mod deadline;
pub mod matching;
mod parse;
pub mod protocol;
pub mod sample_limit;
pub mod skew;
pub mod wire;
