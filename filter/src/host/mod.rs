//! The shell: connects the engine to a VM inside Envoy. It reads headers, asks the engine for verdicts and
//! carries them out; it decides nothing itself.
//!
//! There is one [`root::Root`] per plugin configuration and VM, and one [`stream::Stream`] per request.
//! They share the [`services::Services`] of the configuration. Each [`service::Service`] is in a `RefCell`
//! that is never borrowed across a hostcall that can call back.

mod body_events;
mod call;
mod effects;
mod messages;
mod meter;
mod poll;
mod probe;
mod response_origin;
mod root;
mod service;
mod services;
mod shared;
mod source;
mod stream;
mod timer;
#[cfg(feature = "trap")]
mod trap;

use proxy_wasm::traits::RootContext;
use proxy_wasm::types::LogLevel;

proxy_wasm::main! {{
    proxy_wasm::set_log_level(LogLevel::Info);
    proxy_wasm::set_root_context(|id| -> Box<dyn RootContext> { Box::new(root::Root::new(id)) });
}}
