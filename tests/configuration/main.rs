//! Tests of configuration files: invalid ones are refused, and the shipped ones match their schemas.

mod bad_input;
mod definitions;
mod manifests;
