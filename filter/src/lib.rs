//! Weir's filter: request → deadline → route → queue → upstream → stats.
//!
//! A request's headers say what kind it is ([`protocol`]), how much time its client gives it and since
//! when ([`deadline`]), by a clock that may not be ours ([`skew`]). Of the
//! variants in the [`plan`] that can still answer in time, [`route`] picks one by quota. A variant has
//! so many slots: where one is free the request goes upstream at once, otherwise it is held at the
//! variant's [`gate`] in an earliest-deadline-first [`queue`] until a slot frees, its deadline passes
//! or its client leaves. A variant whose servers fail is left alone until they are well again ([`health`]). The workers of a proxy share slots and order by the [`board`].
//! Every call into the [`engine`] answers with a [`verdict`] and leaves [`stats`]; [`config`] is read
//! once and then true.
//!
//! All of this is plain Rust without clock or I/O: time comes in as an argument ([`time`]). Only
//! `host`, which exists on wasm32 alone, knows proxy-wasm; it asks for verdicts and obeys them.

pub mod config;
pub mod coordination;
pub mod engine;
pub mod health;
pub mod plan;
pub mod priority;
pub mod reason;
pub mod request;
pub mod routing;
pub mod shared_plan;
pub mod slots;
pub mod stats;
pub mod time;
pub mod variant;
pub mod verdict;
pub mod waiting;

#[cfg(target_arch = "wasm32")]
mod host;
