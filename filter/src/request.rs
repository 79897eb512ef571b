//! Requests as they arrive: headers, variants named, model in path or message, deadline, clock skew, protocol, and the
//! bytes of bodies held.

pub mod body;
pub mod budget;
pub mod deadline;
pub mod matching;
pub mod message;
pub mod model;
mod parse;
pub mod protocol;
pub mod sample_limit;
pub mod skew;
pub mod variant_list;
pub mod wire;
