//! Program of libFuzzer, for the target that the variable `WEIR_FUZZ` names: see `cargo xtask fuzz`.
#![no_main]

use std::sync::LazyLock;

use weir_fuzz::{TARGET_VARIABLE, Target};

static TARGET: LazyLock<Target> = LazyLock::new(|| {
    let name = std::env::var(TARGET_VARIABLE).unwrap_or_default();
    let target = Target::named(&name);
    target.unwrap_or_else(|| {
        eprintln!("{TARGET_VARIABLE}: '{name}' is no target");
        std::process::exit(2)
    })
});

libfuzzer_sys::fuzz_target!(|data: &[u8]| TARGET.run(data));
