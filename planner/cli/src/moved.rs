//! Flags that named the file before it became positional.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The old flag, and the command that had it.
const OLD: [(&str, &str); 4] = [
    ("--config", "serve"),
    ("--scenario", "replay"),
    ("--problem", "solve"),
    ("--service", "manifests"),
];

/// Adds the new form to the refusal of an old flag.
pub(crate) fn tip(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(flag)) = error.get(ContextKind::InvalidArg) else {
        return error;
    };
    let old = OLD.iter().find(|(old, _)| flag == old);
    if let (ErrorKind::UnknownArgument, Some((_, command))) = (error.kind(), old) {
        let tip = format!("the file is positional: weir {command} FILE");
        error.remove(ContextKind::SuggestedArg);
        error.insert(
            ContextKind::Suggested,
            ContextValue::StyledStrs(vec![tip.into()]),
        );
    }
    error
}
