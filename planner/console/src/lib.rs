//! Functions behind the console: the papers' solvers ([`problem`]), a planner's decision for a changed service
//! ([`what_if`]), replay ([`replay`]) and charts ([`chart`]). Each takes and returns text or JSON values.
//!
//! They are the code that the planner, `weir solve` and `weir replay` run; nothing here decides anything. Only
//! `browser`, which exists on wasm32-unknown-unknown alone, knows wasm-bindgen.
//!
//! Pure: no clock, no I/O. No time limit of a solver passes in a browser, because the planner's stopwatch stands still
//! without its feature `serve`; the sizes of texts, services and replays are limited instead.

pub mod change;
pub mod chart;
pub mod document;
mod error;
pub mod on_time;
pub mod problem;
pub mod replay;
pub mod what_if;

#[cfg(all(target_arch = "wasm32", target_os = "unknown"))]
pub mod browser;

#[cfg(test)]
mod endpoint;
#[cfg(test)]
mod page;

pub use error::ConsoleError;
