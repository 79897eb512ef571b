//! Links the module with a maximum memory per VM. Envoy has no setting for that, and its own limit is 1 GiB
//! per VM. At the limit an allocation traps, and the VM is replaced.

/// In bytes. 100,000 requests held by one worker, the maximum, need 24 MiB.
const MEMORY_MAX: u32 = 64 * 1024 * 1024;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("wasm32") {
        println!("cargo::rustc-link-arg-cdylib=--max-memory={MEMORY_MAX}");
    }
}
