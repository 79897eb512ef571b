//! Removes unused callbacks from the filter module.
//!
//! The SDK exports every proxy-wasm callback, and Envoy calls each exported one. Every call enters and leaves
//! the VM, which takes one to two microseconds: for each piece of a request's body, for its trailers, and three
//! times at the end of a stream. Unused callbacks are therefore not exported; Envoy then continues. This is
//! only an optimization: the untrimmed module behaves the same.

use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Callbacks that `filter/src/host` uses, and those that a VM requires.
const HEARD: [&str; 14] = [
    "proxy_on_memory_allocate",
    "proxy_on_vm_start",
    "proxy_on_configure",
    "proxy_on_tick",
    "proxy_on_queue_ready",
    "proxy_on_http_call_response",
    "proxy_on_context_create",
    "proxy_on_request_headers",
    "proxy_on_request_body",
    "proxy_on_request_trailers",
    "proxy_on_response_headers",
    "proxy_on_response_body",
    "proxy_on_response_trailers",
    "proxy_on_delete",
];
/// Prefix of all callback names.
const CALLBACK: &str = "proxy_on_";

/// Writes `module` to `to` without the unused callbacks and the code that only they
/// need.
pub(crate) fn trim(module: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(module)
        .with_context(|| format!("there is no filter module at {}", module.display()))?;
    let trimmed = without_the_unheard(&bytes)
        .with_context(|| format!("{} cannot be trimmed", module.display()))?;
    let folder = to.parent().context("the module is to lie in no folder")?;
    std::fs::create_dir_all(folder)?;
    // Atomic, because an Envoy may be about to read it.
    let beside = to.with_extension("new");
    std::fs::write(&beside, trimmed)?;
    std::fs::rename(&beside, to).with_context(|| format!("cannot write {}", to.display()))
}

fn without_the_unheard(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut module = walrus::Module::from_buffer(bytes)?;
    for heard in HEARD {
        let exported = module.exports.iter().any(|export| export.name == heard);
        ensure!(exported, "it has no `{heard}`");
    }
    let unheard: Vec<_> = module
        .exports
        .iter()
        .filter(|export| export.name.starts_with(CALLBACK) && !HEARD.contains(&&*export.name))
        .map(walrus::Export::id)
        .collect();
    for export in unheard {
        module.exports.delete(export);
    }
    walrus::passes::gc::run(&mut module);
    Ok(module.emit_wasm())
}

#[cfg(test)]
mod tests {
    use super::{CALLBACK, HEARD, without_the_unheard};

    fn module(exports: &[&str]) -> Vec<u8> {
        let mut module = walrus::Module::default();
        let builder = walrus::FunctionBuilder::new(&mut module.types, &[], &[]);
        let function = builder.finish(Vec::new(), &mut module.funcs);
        for export in exports {
            module.exports.add(export, function);
        }
        module.emit_wasm()
    }

    #[test]
    fn only_unused_callbacks_are_removed() {
        let others = ["_initialize", "proxy_abi_version_0_2_1"];
        let unheard = ["proxy_on_log", "proxy_on_done", "proxy_on_grpc_close"];
        let all = [&HEARD[..], &others, &unheard].concat();
        let trimmed = without_the_unheard(&module(&all)).unwrap();
        let trimmed = walrus::Module::from_buffer(&trimmed).unwrap();
        let mut left: Vec<_> = trimmed.exports.iter().map(|it| it.name.as_str()).collect();
        let mut expected = [&HEARD[..], &others].concat();
        left.sort_unstable();
        expected.sort_unstable();
        assert_eq!(left, expected);
        assert!(HEARD.iter().all(|name| name.starts_with(CALLBACK)));
    }

    /// Otherwise Envoy would never call a callback that is added to the shell.
    #[test]
    fn callbacks_of_the_shell_are_kept() {
        let shell = [
            include_str!("../../filter/src/host/root.rs"),
            include_str!("../../filter/src/host/stream.rs"),
        ];
        let lines = shell.iter().flat_map(|source| source.lines());
        let heard = lines.filter_map(|line| line.strip_prefix("    fn on_")?.split_once('('));
        let mut seen = 0;
        for (name, _) in heard {
            let short = name.strip_prefix("http_").unwrap_or(name);
            let kept = [name, short].map(|name| format!("{CALLBACK}{name}"));
            let kept = kept.iter().any(|name| HEARD.contains(&name.as_str()));
            assert!(kept, "on_{name} is not exported: add it to HEARD");
            seen += 1;
        }
        assert!(seen >= 7, "{seen} callbacks found in the shell");
    }

    #[test]
    fn module_without_required_callback_is_refused() {
        let error = without_the_unheard(&module(&["proxy_on_tick"])).unwrap_err();
        assert!(format!("{error:#}").contains("proxy_on_"), "{error:#}");
    }

    #[test]
    fn invalid_module_is_refused() {
        assert!(without_the_unheard(b"not wasm").is_err());
    }
}
