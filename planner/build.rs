//! Embeds the console's module: the folder `WEIR_CONSOLE` has what `cargo xtask console` wrote. Without it, or without
//! its files, the page is served without solver and replay.

use std::path::Path;
use std::{env, fs, io};

/// Files of the module.
const FILES: [&str; 2] = ["weir_console.js", "weir_console_bg.wasm.gz"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=WEIR_CONSOLE");
    let out = env::var_os("OUT_DIR").unwrap_or_default();
    let folder = env::var_os("WEIR_CONSOLE").filter(|folder| !folder.is_empty());
    for name in FILES {
        let content = match &folder {
            Some(folder) => {
                let path = Path::new(folder).join(name);
                println!("cargo::rerun-if-changed={}", path.display());
                fs::read(path).unwrap_or_default()
            }
            None => Vec::new(),
        };
        fs::write(Path::new(&out).join(name), content)?;
    }
    Ok(())
}
