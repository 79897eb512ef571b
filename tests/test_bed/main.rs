//! Tests of the test bed itself: emulated servers, the load generator, and the network paths.

mod emulator;
mod load;
mod protocols;
mod small;
