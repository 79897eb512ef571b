//! Files that users write, and files that are shipped: what is refused, and that schemas and kinds take them.

mod bad_input;
mod manifests;
