//! The hostcalls that the filter makes (proxy-wasm's ABI 0.2.1), none of which panics: a panic traps the VM, and all
//! requests of its worker are lost with it. Each returns the host's [`Status`], whatever it is; the SDK's own panic on each
//! that they do not expect.
//!
//! Contexts, callbacks, types and calls to clusters are the SDK's. Only this crate has unsafe code. It decides nothing, and
//! what needs no pointer is tested on any machine.

#![cfg_attr(
    not(target_os = "wasi"),
    allow(dead_code, reason = "elsewhere only its tests call it")
)]

mod pairs;

#[cfg(target_os = "wasi")]
pub mod hostcalls;

/// Status of a hostcall that failed, with the host's number: 1 is "not found", 2 "bad argument".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    /// Converts the number that a hostcall returns; 0 is success.
    fn check(number: u32) -> Result<(), Status> {
        match number {
            0 => Ok(()),
            number => Err(Status(number)),
        }
    }
}
