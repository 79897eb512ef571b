//! The test bed itself: emulated servers, the load generator, and the paths to them.

mod doors;
mod emulator;
mod load;
