//! Functions of Kubernetes' CEL library that rules of definitions call, beside CEL's own.
//!
//! A duration is an integer of ns, and a URL is its text: rules only compare durations and read a URL's scheme.

use std::sync::Arc;

use cel::extractors::This;
use cel::{Context, ExecutionError, Program};

/// Functions that rules may call. A rule that calls another one is not evaluated.
const FUNCTIONS: [&str; 34] = [
    "bool",
    "charAt",
    "contains",
    "distinct",
    "double",
    "duration",
    "dyn",
    "endsWith",
    "flatten",
    "format",
    "getScheme",
    "indexOf",
    "int",
    "isURL",
    "join",
    "lastIndexOf",
    "lowerAscii",
    "matches",
    "max",
    "min",
    "replace",
    "reverse",
    "size",
    "slice",
    "sort",
    "split",
    "startsWith",
    "string",
    "substring",
    "trim",
    "type",
    "uint",
    "upperAscii",
    "url",
];

/// Adds Kubernetes' functions to a context.
pub(super) fn add(context: &mut Context<'_, '_>) {
    // No name clashes: the crate is built without its own functions of time.
    let _ = context.add_function("duration", nanos);
    let _ = context.add_function("isURL", |text: Arc<String>| scheme(&text).is_some());
    let _ = context.add_function("url", url);
    let _ = context.add_function("getScheme", |This(url): This<Arc<String>>| {
        scheme(&url).unwrap_or_default().to_owned()
    });
}

/// Returns a function that a program calls and rules may not.
pub(super) fn unsupported(program: &Program) -> Option<String> {
    let called = program.references();
    let mut names = called.functions();
    names.sort_unstable();
    let operator = |name: &str| !name.starts_with(|c: char| c.is_ascii_alphabetic());
    let unknown = |name: &&&str| !operator(name) && !FUNCTIONS.contains(*name);
    names.iter().find(unknown).map(|name| (*name).to_owned())
}

/// Returns a duration in ns.
fn nanos(text: Arc<String>) -> Result<i64, ExecutionError> {
    let refused = || ExecutionError::function_error("duration", format!("invalid: {text}"));
    let duration: kube::core::Duration = text.parse().map_err(|_| refused())?;
    let nanos = std::time::Duration::from(duration).as_nanos();
    i64::try_from(nanos).map_err(|_| refused())
}

fn url(text: Arc<String>) -> Result<cel::Value, ExecutionError> {
    match scheme(&text) {
        Some(_) => Ok(cel::Value::String(text)),
        None => Err(ExecutionError::function_error(
            "url",
            format!("invalid: {text}"),
        )),
    }
}

/// Returns a URL's scheme, as Go's `url.ParseRequestURI` finds it: empty for an absolute path, `None` for a text that
/// is no URL.
fn scheme(text: &str) -> Option<&str> {
    if text.is_empty() || text.contains(|c: char| c.is_ascii_control()) {
        return None;
    }
    if text.starts_with('/') {
        return Some("");
    }
    let (scheme, rest) = text.split_once(':')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
    if !scheme.starts_with(|c: char| c.is_ascii_alphabetic()) || !scheme.chars().all(plain) {
        return None;
    }
    let authority = rest.strip_prefix("//").map(|rest| {
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        rest.split_at(end).0
    });
    authority.is_none_or(is_authority).then_some(scheme)
}

/// Whether an authority has no space, and no port that is not a number.
fn is_authority(authority: &str) -> bool {
    let host = authority
        .rsplit_once('@')
        .map_or(authority, |(_, host)| host);
    let after = host.rsplit_once(']').map_or(host, |(_, after)| after);
    let port = after.rsplit_once(':').map_or("", |(_, port)| port);
    !authority.contains(' ') && port.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scheme_is_found_as_go_finds_it() {
        for (text, expected) in [
            ("oci://registry.example/weir-filter:0.1.0", Some("oci")),
            ("https://registry.example:443/a?b#c", Some("https")),
            ("file:///a", Some("file")),
            ("/var/lib/a.wasm", Some("")),
            ("registry.example:5000/a", Some("registry.example")),
            ("registry.example/a:0.1", None),
            ("http://registry.example:port/a", None),
            ("http://[::1]:80/", Some("http")),
            ("1a://b", None),
            ("http://a b", None),
            ("", None),
        ] {
            assert_eq!(scheme(text), expected, "{text}");
        }
    }
}
