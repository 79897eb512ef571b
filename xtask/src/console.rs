//! The console's module: compiled for browsers, small, with the bindings that the page imports. The planner embeds both
//! ([`Layout::console`]), the module packed.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use wasm_bindgen_cli_support::Bindgen;
use xshell::Shell;

use crate::compile;
use crate::layout::Layout;

/// Name of the module and its bindings.
const NAME: &str = "weir_console";
/// Maximum size of the packed module, in bytes.
const PACKED_MAX: usize = 2 * 1024 * 1024;

/// Compiles the module and writes it with its bindings. Unchanged files stay, so that nothing is compiled again for
/// them.
pub(crate) fn build(sh: &Shell, layout: &Layout) -> Result<()> {
    compile::console(sh)?;
    let folder = layout.console();
    let made = folder.join("new");
    fs::create_dir_all(&made)?;
    let module = layout.console_module();
    Bindgen::new()
        .input_path(&module)
        .out_name(NAME)
        .web(true)?
        .typescript(false)
        .generate(&made)
        .with_context(|| format!("no bindings for {}", module.display()))?;
    let wasm = read(&made.join(format!("{NAME}_bg.wasm")))?;
    let packed = pack(&wasm)?;
    let size = packed.len();
    ensure!(
        size <= PACKED_MAX,
        "the console's module has {size} bytes packed; it must have at most {PACKED_MAX}"
    );
    write(&folder.join(format!("{NAME}_bg.wasm")), &wasm)?;
    write(&folder.join(format!("{NAME}_bg.wasm.gz")), &packed)?;
    let bindings = read(&made.join(format!("{NAME}.js")))?;
    write(&folder.join(format!("{NAME}.js")), &bindings)?;
    fs::remove_dir_all(&made)?;
    eprintln!("console: {} bytes, {size} packed", wasm.len());
    Ok(())
}

/// Writes the page with the module into the book: `console.html`, without a planner, and its parts.
pub(crate) fn into_book(layout: &Layout, book: &Path) -> Result<()> {
    let pages = layout.root.join("planner/console/www");
    let parts = book.join("console");
    fs::create_dir_all(&parts)?;
    for entry in fs::read_dir(&pages)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        write(&parts.join(name), &read(&path)?)?;
    }
    let page = String::from_utf8(read(&parts.join("index.html"))?)?;
    fs::remove_file(parts.join("index.html"))?;
    let here = "<meta name=\"planner\" content=\"here\">";
    ensure!(page.contains(here), "the console's page has no {here}");
    let page = page.replace(here, "<meta name=\"planner\" content=\"none\">");
    write(&book.join("console.html"), page.as_bytes())?;
    let demo = read(&layout.root.join("tests/demo/service.yaml"))?;
    write(&parts.join("demo.yaml"), &demo)?;
    for name in [format!("{NAME}.js"), format!("{NAME}_bg.wasm")] {
        write(&parts.join(&name), &read(&layout.console().join(&name))?)?;
    }
    Ok(())
}

fn pack(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Writes a file, unless it has that content.
fn write(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|before| before == content) {
        return Ok(());
    }
    fs::write(path, content).with_context(|| format!("cannot write {}", path.display()))
}
