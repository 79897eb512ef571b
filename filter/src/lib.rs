//! Weir's filter: request → deadline → route → queue → upstream → stats.
//!
//! A request's headers give its kind ([`request::protocol`]), its deadline ([`request::deadline`]) and,
//! after correction of the client's clock ([`request::skew`]), its age. [`routing`] picks one of the
//! [`plan`]'s variants by quota, among those that can still answer in time. A variant has a number of
//! [`slots`]. A request that gets a free slot goes upstream at once. Otherwise it is held in the variant's
//! wait queue ([`waiting`]), earliest deadline first, until a slot is free, its deadline passes, or its
//! client disconnects. Requests avoid a variant whose servers fail ([`health`]). All workers of a proxy
//! share slots and order through the slot table ([`coordination`]).
//!
//! Every call into the [`engine`] returns a [`verdict`] and leaves samples in [`stats`]; refusals carry a
//! [`reason`]. [`config`] is checked once. The [`shell`] keeps verdicts on held requests until a host can carry them out.
//!
//! All of this is plain Rust without clock or I/O: time is an argument ([`time`]). Only `host`, which
//! exists on wasm32-wasip1 alone, knows proxy-wasm; it carries out verdicts.

pub mod config;
pub mod coordination;
pub mod engine;
pub mod explanation;
pub mod health;
pub mod plan;
pub mod priority;
pub mod reason;
pub mod request;
pub mod routing;
pub mod shared_plan;
pub mod shell;
pub mod size;
pub mod slots;
pub mod stats;
pub mod time;
pub mod variant;
pub mod verdict;
pub mod waiting;

#[cfg(target_os = "wasi")]
mod host;
